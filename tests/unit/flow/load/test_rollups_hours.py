"""Which event hours units touch, asked of a server; and what the ledger has to hold for a rollup."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config.clickhouse import ClickHouse
from sluice.config.pipeline import Pipeline
from sluice.flow.load.rollups.hours import parts_of, touched
from sluice.flow.verify.current import lacking, targets_of
from sluice.slices import Slice, Unit
from sluice.state.rollup_commits import rollups_wanted
from sluice.state.unit_state import Commit
from tests.support.landing_world import SPEC, START
from tests.unit.flow.load.test_rollups_choices import (
    DIGEST,
    HOUR,
    HOURLY,
    MINE,
    NEXT,
    PIPELINE,
    ROLLUP,
    SHARED,
    landed,
    row,
    unit,
)


def spec(**changes: Any) -> Pipeline:
    return PIPELINE.model_copy(update={"rollups": {"db.sums": ROLLUP}, **changes})


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ({}, {}),
        ({"db.sums": row(unit(0))}, {}),
        ({"db.click": row(unit(0))}, {"db.sums": Commit(f"1-a@3#{DIGEST}", (), "")}),
        (
            {"db.click": row(unit(0)), "db.sums": row(unit(0), types=("x",), manifest=f"1-a@3#{DIGEST}")},
            {"db.sums": Commit(f"1-a@3#{DIGEST}", ("x",), "")},
        ),
        (
            {"db.click": row(unit(0)), "db.sums": row(unit(0), types=("x",), manifest=f"1-a@2#{DIGEST}")},
            {"db.sums": Commit(f"1-a@3#{DIGEST}", (), "")},
        ),
    ],
)
def test_what_the_ledger_has_to_hold_for_a_rollup(rows, wanted):
    assert rollups_wanted(spec(), rows) == wanted


def test_a_rollup_on_shards_has_their_sharding():
    given = {"shards": [{"name": n, "connection": n} for n in ("a", "b")], "shard_by": {"db.sums": "n"}}
    on_shards = Pipeline.model_validate(SPEC).model_copy(
        update={"rollups": {"db.sums": ROLLUP}, "clickhouse": ClickHouse.model_validate(given)}
    )
    own = row(unit(0), manifest="x", shares=tuple(MINE.items()))
    assert rollups_wanted(on_shards, {"db.click": SHARED, "db.sums": own}) == {
        "db.sums": Commit("x", (), "a, b by n")
    }
    assert rollups_wanted(on_shards, {"db.click": SHARED}) == {
        "db.sums": Commit(f"1-a@3#{DIGEST}", (), "a, b by n")
    }


@pytest.mark.parametrize(
    ("rows", "behind"),
    [
        ({}, True),
        ({"db.click": row(unit(0))}, False),
        ({"db.click": row(unit(0), manifest="0-z")}, True),
        ({"db.click": row(unit(0), types=("view",))}, True),
        ({"db.click": row(unit(0), sharding="a, b by n")}, True),
        ({"db.click": row(unit(0), shares=(("a", row(unit(0))), ("b", None)))}, True),
        ({"db.other": row(unit(0))}, True),
    ],
)
def test_a_table_is_behind_what_has_landed(rows, behind):
    assert ("db.click" in lacking(PIPELINE, targets_of(PIPELINE), landed(unit(0), rows))) is behind


@pytest.mark.parametrize(
    ("rows", "behind"),
    [
        ({"db.click": row(unit(0))}, True),
        ({"db.sums": MINE["a"]}, True),
        ({"db.click": row(unit(0), 1), "db.sums": MINE["a"]}, False),
        ({"db.click": row(unit(0), 2), "db.sums": MINE["a"]}, True),
    ],
)
def test_a_rollup_is_behind_its_source(rows, behind):
    assert ("db.sums" in lacking(spec(), targets_of(spec()), landed(unit(0), rows))) is behind


class Server:
    """Answers with the given rows, one list for each statement; notes what it is asked."""

    def __init__(self, *answers: list[tuple]) -> None:
        self.answers, self.asked = list(answers), []

    def rows(self, sql: str, parameters: dict[str, Any]) -> list[tuple]:
        self.asked.append((sql, parameters))
        return self.answers.pop(0)


def stamp(hour: int) -> int:
    return START.add(hours=hour).int_timestamp


def test_hours_that_units_touch():
    server = Server(
        [
            (stamp(0), stamp(1), "dc1"),
            (stamp(1), stamp(1), "dc1"),
            (stamp(2), stamp(1), "dc2"),
            (stamp(9), stamp(3), "dc1"),
        ]
    )
    found = touched(server, PIPELINE, HOURLY, [unit(1), unit(4, "dc2"), unit(3)])
    assert found == {HOUR, NEXT, Unit(Slice(START.add(hours=9)), "")}
    [(sql, parameters)] = server.asked
    assert parameters == {"first": stamp(1), "last": stamp(4)}
    assert "`db`.`click`" in sql and "`at`" in sql


def test_no_units_touch_nothing_and_nobody_is_asked():
    assert touched(Server(), PIPELINE, HOURLY, []) == set()


def test_who_holds_rows_of_an_hour():
    server = Server([(stamp(0), stamp(0), "dc1", 5), (stamp(0), stamp(1), "dc2", 2)])
    assert parts_of(server, PIPELINE, HOURLY, [NEXT, HOUR]) == {
        HOUR: {unit(0): 5, unit(1, "dc2"): 2},
        NEXT: {},
    }
    [(sql, parameters)] = server.asked
    assert parameters == {"hours": [stamp(0), stamp(1)], "first": stamp(0), "last": stamp(1)}
    assert "`db`.`click`" in sql and "`at`" in sql


def test_of_many_hours_a_thousand_are_asked_for_at_once():
    hours = [Unit(Slice(START.add(hours=n)), "") for n in range(2_001)]
    server = Server([(stamp(0), stamp(7), "dc1", 1)], [], [(stamp(2_000), stamp(7), "dc1", 2)])
    found = parts_of(server, PIPELINE, HOURLY, hours)
    assert (len(found), found[hours[0]], found[hours[2_000]]) == (2_001, {unit(7): 1}, {unit(7): 2})
    asked = [parameters for _, parameters in server.asked]
    assert [len(known["hours"]) for known in asked] == [1_000, 1_000, 1]
    assert [(known["first"], known["last"]) for known in asked] == [
        (stamp(0), stamp(999)),
        (stamp(1_000), stamp(1_999)),
        (stamp(2_000), stamp(2_000)),
    ]
    assert [hour for known in asked for hour in known["hours"]] == [stamp(n) for n in range(2_001)]
