"""Views' tables against the rows that the ledger says a load has put there, word by word."""

from __future__ import annotations

from array import array
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check import check_views
from sluice.flow.verify.facts import VerifyFacts, ViewTableRows
from sluice.flow.verify.repairs import Repairs
from sluice.slices import Slice, Unit
from sluice.state.boundaries.boundary import TopicBoundaries
from sluice.state.boundaries.model import Boundaries, LogEntry
from sluice.state.unit_state import UnitState
from tests.support.verified import CLICKS, ELEVEN, FACTS, FOUND, OTHER, START, TEN, pipeline

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


NOBODY = "Sluice has no such slice, and did not write them; if they are not needed: "
WHERE = "WHERE _slice = {} AND _cluster = '{}'"
FILL_NINE = "sluice run ads --from 2026-11-20T09:00Z --to 2026-11-20T10:00Z --mode fill"
DELETE = "DELETE FROM `e`.`sums`"
FOREIGN = replace(NINE, cluster="dc9")
BETWEEN = Unit(Slice(START.add(minutes=15)), "dc1")
AHEAD = Unit(Slice(START.add(years=1)), "dc1")


@pytest.mark.parametrize(
    ("unit", "name", "projections", "command", "statement"),
    [
        (NINE, "2026-11-20T09Z", False, "", DELETE),
        (FOREIGN, "2026-11-20T09Z", False, "", DELETE),
        (FOREIGN, "2026-11-20T09Z", True, "", "ALTER TABLE `e`.`sums` DELETE"),
        (BETWEEN, "2026-11-20T10:15:00Z", False, "", DELETE),
        (AHEAD, "2027-11-20T10Z", False, "", DELETE),
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


def resolved(first: int, last: int, **file: Any) -> VerifyFacts:
    """The boundaries from one hour on, until another begins; `file` is what the pipeline file has, too."""
    edges = array("q", [int(START.add(hours=hour).timestamp()) for hour in range(first, last + 1)])
    block = TopicBoundaries("dc1", "bids", "u1", edges, {})
    log = Boundaries().with_entry(LogEntry(timedelta(hours=1), (block,)))
    return replace(FACTS, boundaries=log, pipeline=pipeline(**file))


def starting(hour: int) -> dict[str, str]:
    return {"start": f"{START.add(hours=hour):%FT%RZ}"}


def of_cluster(hour: int) -> dict[str, list]:
    return {"kafka": [{"cluster": "dc1", "bootstrap": "h:1", "topics": ["bids"], **starting(hour)}]}


@pytest.mark.parametrize(
    ("facts", "filled"),
    [
        (resolved(-1, 2), True),
        (resolved(-3, 0), True),
        (resolved(0, 2), False),
        (resolved(0, 2, **starting(-1)), True),
        (resolved(-1, 2, **starting(0)), False),
        (resolved(0, 2, **of_cluster(-1)), True),
        (resolved(-1, 2, **of_cluster(0)), False),
    ],
)
def test_a_run_is_advised_only_for_an_hour_of_the_pipeline(facts: VerifyFacts, filled: bool):
    """One before the first hour would be resolved by it: all up to it would be missing."""
    (found,) = views(replace(SUMS, rows={TEN: 5, NINE: 5}), facts=facts)
    statement = f"{NOBODY}{DELETE} {WHERE.format(int(NINE.slice.start.timestamp()), 'dc1')}"
    assert (found.command, found.advice) == ((FILL_NINE, "") if filled else ("", statement))


@pytest.mark.parametrize("minutes", [0, 59])
def test_rows_of_an_hour_that_is_to_land_are_left_to_its_load(minutes: int):
    """It is over, or has begun."""
    facts = replace(resolved(-5, -1), now=NINE.slice.start.add(minutes=minutes))
    (found,) = views(replace(SUMS, rows={TEN: 5, NINE: 5}), facts=facts)
    assert (found.command, "its load takes them away" in found.advice, "DELETE" in found.advice) == (
        "",
        True,
        False,
    )
    ahead = replace(facts, now=NINE.slice.start.subtract(seconds=1))
    (found,) = views(replace(SUMS, rows={TEN: 5, NINE: 5}), facts=ahead)
    assert DELETE in found.advice
