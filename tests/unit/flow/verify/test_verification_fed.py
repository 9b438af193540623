"""Views' tables against the rows that the ledger says a load has put there, word by word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check import check_views
from sluice.flow.verify.facts import VerifyFacts, ViewTableRows
from sluice.flow.verify.repairs import Repairs
from sluice.slices import Slice, Unit
from sluice.state.unit_state import UnitState
from tests.support.verified import CLICKS, ELEVEN, FACTS, FOUND, OTHER, START, TEN

REPAIRS = Repairs("ads")
RUN_TEN = "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --mode {}"
SLICE = {"slice": "2026-11-20T10Z", "cluster": "dc1"}


SUMS = ViewTableRows("e.sums", "e.view", rows={TEN: 5}, committed={TEN: 5})


def views(
    fed: ViewTableRows, broken: tuple = (), facts: VerifyFacts = FACTS, **table: object
) -> list[Anomaly]:
    tables = (replace(CLICKS, view_tables=(fed,), **table), OTHER)
    return list(check_views(replace(facts, tables=tables), REPAIRS, broken))


def view(expected: str, seen: str) -> Anomaly:
    given = f"{expected} rows that e.view gave, by the ledger"
    repair = RUN_TEN.format("repair --table e.clicks")
    return Anomaly(AnomalyKind.VIEW, given, seen, repair, table="e.sums", **SLICE)


@pytest.mark.parametrize(
    ("there", "committed", "anomalies"),
    [
        ({TEN: 5}, {TEN: 5}, []),
        ({TEN: 1005}, {TEN: 6}, [view("6", "1,005")]),
        ({}, {TEN: 5}, [view("5", "0")]),
        ({TEN: 5}, {TEN: 0}, [view("0", "5")]),
        ({TEN: 5}, {}, []),
        ({}, {}, []),
    ],
)
def test_a_views_table_holds_the_rows_of_its_commit(there, committed, anomalies):
    assert views(replace(SUMS, rows=there, committed=committed)) == anomalies


def test_a_ttl_of_the_views_table_may_take_rows_away():
    assert views(replace(SUMS, rows={TEN: 4}, expiring=True)) == []
    assert views(replace(SUMS, rows={TEN: 6}, expiring=True)) == [view("5", "6")]


def test_only_units_that_the_view_saw_and_that_are_done():
    fed = replace(SUMS, committed={TEN: 6})
    assert len(views(fed)) == 1
    assert views(replace(fed, committed={})) == []
    older = {name: replace(row, manifest="older") for name, row in FOUND[0].tables.items()}
    stale = replace(FOUND[0], state=UnitState.STALE, tables=older)
    assert views(fed, facts=replace(FACTS, statuses=(stale, FOUND[1]))) == []


def test_a_source_that_is_wrong_itself_is_told_alone():
    fed = replace(SUMS, committed={TEN: 6})
    assert views(fed, broken=(("2026-11-20T10Z", "dc1", "e.clicks"),)) == []
    for other in (
        ("2026-11-20T11Z", "dc1", "e.clicks"),
        ("2026-11-20T10Z", "dc1", "e.other"),
        ("2026-11-20T10Z", "dc2", "e.clicks"),
    ):
        assert len(views(fed, broken=(other,))) == 1


def test_units_are_told_in_their_order():
    fed = replace(SUMS, committed={ELEVEN: 6, TEN: 6})
    assert [a.slice for a in views(fed)] == ["2026-11-20T10Z", "2026-11-20T11Z"]


NINE = Unit(Slice(START.subtract(hours=1)), "dc1")


NOBODY = "Sluice lands no such slice, and did not write them; if they are not needed: "
WHERE = "WHERE _slice = {} AND _cluster = '{}'"
FILL_NINE = "sluice run ads --from 2026-11-20T09:00Z --to 2026-11-20T10:00Z --mode fill"
FOREIGN = replace(NINE, cluster="dc9")
BETWEEN = Unit(Slice(START.add(minutes=15)), "dc1")
AHEAD = Unit(Slice(START.add(years=1)), "dc1")


@pytest.mark.parametrize(
    ("unit", "name", "projections", "command", "statement"),
    [
        (NINE, "2026-11-20T09Z", False, FILL_NINE, ""),
        (FOREIGN, "2026-11-20T09Z", False, "", "DELETE FROM `e`.`sums`"),
        (FOREIGN, "2026-11-20T09Z", True, "", "ALTER TABLE `e`.`sums` DELETE"),
        (BETWEEN, "2026-11-20T10:15:00Z", False, "", "DELETE FROM `e`.`sums`"),
        (AHEAD, "2027-11-20T10Z", False, "", "DELETE FROM `e`.`sums`"),
    ],
)
def test_rows_of_a_views_table_that_nothing_covers(unit, name, projections, command, statement):
    place = {"slice": name, "cluster": unit.cluster, "table": "e.sums"}
    where = WHERE.format(int(unit.slice.start.timestamp()), unit.cluster)
    expected = Anomaly(
        AnomalyKind.ROWS_UNCOVERED,
        "none: no ledger row covers them",
        "5 rows",
        command,
        f"{NOBODY}{statement} {where}" if statement else "",
        **place,
    )
    fed = replace(SUMS, rows={TEN: 5, unit: 5}, projections=projections)
    assert views(fed) == [expected]
    # The source's own rows are told of where they are, and what is committed is covered.
    assert views(fed, rows={**CLICKS.rows, unit: {"": 1}}) == []
    assert views(fed, ledger={**CLICKS.ledger, unit: CLICKS.ledger[TEN]}) == []
