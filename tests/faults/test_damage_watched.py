"""The watch finds damage of old hours, says when it is over, and calls no load damage."""

from __future__ import annotations

import threading
import uuid
from datetime import timedelta

import pytest

from sluice.clients.clickhouse.connect import connect
from sluice.clients.lake.open import open_lake
from sluice.state.lease import Lease
from sluice.state.system_tables import lease_of
from sluice.watch import look
from sluice.watch.problems import AlarmStore
from tests.faults.test_damage_noticed import (
    LAST,
    SETTINGS,
    Noticed,
    delete_ledger_row,
    delete_rows,
    file_of,
    noticed,
    send,
    sql,
)

pytestmark = pytest.mark.faults
__all__ = ["noticed"]
OLD = 2
"""The hour that `sql` damages: three hours before the newest, and so before a `lookback` of an hour."""


@pytest.fixture
def old(noticed: Noticed) -> Noticed:
    """All hours are whole, and the watch has seen it; only the newest one is within the `lookback`."""
    noticed.story.write(**{**SETTINGS, "lookback": "1h"})
    send(noticed.story, LAST)
    noticed.story.run(0, LAST)
    assert noticed.notice() - {"server error"} == set()
    return noticed


def over(noticed: Noticed) -> bool:
    """One more run of the watch: does it say that an anomaly is over?"""
    noticed.notice()
    return "OVER anomaly: " in "".join(noticed.sent)


def test_rows_of_an_old_hour_are_missed_at_once_and_a_repair_by_hand_ends_it(
    old: Noticed, monkeypatch: pytest.MonkeyPatch
):
    """Also where the share of the older hours that is read has come to another one."""
    monkeypatch.setattr(look, "MOST_UNITS", 1)
    assert AlarmStore(open_lake(old.story.pipeline)).read().looked.next == ""
    sql(old.story, "CREATE TABLE {db}.copy AS {t}")
    sql(old.story, "INSERT INTO {db}.copy SELECT * FROM {t} WHERE toUnixTimestamp(_slice) = {at} AND n <= 7")
    delete_rows(old.story)
    assert "anomaly" in old.notice()
    old.agree("rows missing")
    assert not over(old)
    sql(old.story, "INSERT INTO {t} SELECT * FROM {db}.copy")
    assert over(old)
    assert old.verify() == set()


@pytest.mark.long
def test_rows_that_a_second_writer_puts_into_no_hour_are_found(old: Noticed):
    """Without `_slice` they are of 1970; without `_cluster`, too, they would be rows from before Sluice."""
    sql(old.story, "INSERT INTO {t} (n, _cluster) SELECT number, 'x' FROM numbers(50)")
    assert "anomaly" in old.notice()
    assert (
        "uncovered rows in 1970-01-01T00Z: expected none: no ledger row covers them, seen 50 rows"
        in old.sent[0]
    )
    sql(old.story, "DELETE FROM {t} WHERE _cluster = 'x'")
    assert over(old)


@pytest.mark.long
def test_a_file_of_an_old_hour_is_missed_when_its_turn_comes(old: Noticed, monkeypatch: pytest.MonkeyPatch):
    """Of five older hours one is read with each run; the third is that of the file."""
    monkeypatch.setattr(look, "MOST_UNITS", 1)
    file_of(old.story, OLD).unlink()
    assert ["anomaly" in old.notice() for _ in range(3)] == [False, False, True]
    old.agree("file missing")
    assert ["anomaly" in old.notice() for _ in range(5)] == [False] * 5
    old.story.run(OLD, OLD, "reland")
    assert over(old)


@pytest.mark.long
def test_what_a_run_has_repaired_is_over(old: Noticed):
    delete_rows(old.story)
    assert "anomaly" in old.notice()
    old.story.run(OLD, OLD, "repair")
    assert over(old)
    assert AlarmStore(open_lake(old.story.pipeline)).read().looked.known == {}


@pytest.mark.long
def test_a_load_under_way_is_no_damage_and_one_that_has_died_is(old: Noticed):
    """As a load leaves table and ledger when it is stopped in between, with its lease held and given back."""
    pipeline, lake = old.story.pipeline, open_lake(old.story.pipeline)
    with connect(pipeline) as client:
        name = lease_of(client, pipeline.targets[0], "")
    with Lease.acquire(lake, name, uuid.uuid4().hex, timedelta(seconds=60), timedelta(seconds=60)):
        delete_ledger_row(old.story)
        delete_rows(old.story)
        assert old.notice() - {"server error", "older hours"} == set()
    assert "anomaly" in old.notice()
    old.agree("uncovered rows")


@pytest.mark.long
def test_loads_beside_the_watch_are_no_damage(old: Noticed):
    done = threading.Event()

    def load() -> None:
        while not done.is_set():
            old.story.load(0, LAST, "reload")

    loading = threading.Thread(target=load)
    loading.start()
    try:
        found = [old.notice() - {"server error", "hour not committed", "older hours"} for _ in range(8)]
    finally:
        done.set()
        loading.join()
    assert found == [set()] * 8
    assert old.notice() - {"server error"} == set()
    assert old.verify() == set()
