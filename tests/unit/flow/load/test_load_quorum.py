"""How many replicas a load waits for, and which of them may still be at work."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sluice.clients.clickhouse.client import READ_QUORUM
from sluice.config.clickhouse import ClickHouse
from sluice.flow.load.replicas import (
    ReplicaState,
    has_to_wait,
    lacking,
    needed,
    silent,
    still_active,
    write_settings,
)
from sluice.manifest import LandedFile, Traffic
from tests.unit.flow.load.test_load_decide import file

FILES = (file("click", 3), file("view", 2), file(None, 5, {"click": 1, "odd": 4}), file("none", 0))
COUNTS = (
    LandedFile("_counts/a", "", "db.n", "", 7, 1, ""),
    LandedFile("_counts/b", "", "db.n", "", 2, 1, ""),
)
TRAFFIC = Traffic("db.n", {}, (), {}, COUNTS)


def state(total: int = 3, live: int = 3, **active: int) -> ReplicaState:
    return ReplicaState("a", False, total, live, active or {"a": 1, "b": 1, "c": 0})


@pytest.mark.parametrize(
    ("quorum", "total", "live", "need", "lacks"),
    [
        ("auto", 1, 1, 1, 0),
        ("auto", 2, 2, 2, 0),
        ("auto", 3, 1, 2, 1),
        ("auto", 4, 1, 3, 2),
        (0, 3, 0, 0, 0),
        (1, 3, 1, 1, 0),
        (3, 3, 1, 3, 2),
        ("2", 3, 3, 2, 0),
    ],
)
def test_replicas_that_an_insert_waits_for(quorum, total, live, need, lacks):
    assert needed(quorum, total) == need
    assert lacking(state(total, live), quorum) == lacks


def test_who_is_silent_and_who_may_be_at_work():
    three = state(b=1, c=0, a=1)
    assert silent(three, {"b"}) == ["a", "c"]
    assert still_active(three, {"b"}) == ["a"]
    assert still_active(three, ()) == ["a", "b"]
    assert silent(three, {"a", "b", "c"}) == []


@pytest.mark.parametrize(
    ("reached", "last", "wait"),
    [({"a", "b", "c"}, "", False), ({"a", "b"}, "", True), ({"a", "b"}, "b", False), ({"a", "b"}, "c", True)],
)
def test_statements_may_still_run_where_nobody_can_end_them(reached, last, wait):
    assert has_to_wait(state(), reached, last) is wait


def test_settings_of_replicated_tables():
    assert READ_QUORUM == {"select_sequential_consistency": 1, "insert_quorum_parallel": 0}
    known = {
        "insert_quorum": "auto",
        "insert_quorum_parallel": 0,
        "insert_keeper_max_retries": 0,
        "mutations_execute_subqueries_on_initiator": 1,
    }
    assert write_settings(ClickHouse(), None) == known
    limited = write_settings(ClickHouse(quorum=2), timedelta(minutes=5, milliseconds=900))
    assert limited == {**known, "insert_quorum": "2", "max_execution_time": 300}
