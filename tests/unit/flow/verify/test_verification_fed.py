"""Views' tables against what their SELECTs give, word by word, and when two sums are the same."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check import check_views
from sluice.flow.verify.facts import VerifyFacts, ViewTableSums
from sluice.flow.verify.repairs import Repairs
from sluice.flow.verify.view_sums import FloatSum, ViewSums
from sluice.slices import Slice, Unit
from sluice.state.unit_state import UnitState
from tests.support.verified import CLICKS, ELEVEN, FACTS, FOUND, OTHER, START, TEN

REPAIRS = Repairs("ads")
RUN_TEN = "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --mode {}"
SLICE = {"slice": "2026-11-20T10Z", "cluster": "dc1"}


FIVE = ViewSums("(5)")
SUMS = ViewTableSums("e.sums", "e.view", {TEN: FIVE}, {TEN: FIVE}, frozenset({TEN}))


def views(
    fed: ViewTableSums, broken: tuple = (), facts: VerifyFacts = FACTS, **table: object
) -> list[Anomaly]:
    tables = (replace(CLICKS, view_tables=(fed,), **table), OTHER)
    return list(check_views(replace(facts, tables=tables), REPAIRS, broken))


def view(expected: str, seen: str) -> Anomaly:
    given = f"counts and sums {expected}, as e.view gives of e.clicks"
    repair = RUN_TEN.format("repair --table e.clicks")
    return Anomaly(AnomalyKind.VIEW, given, seen, repair, table="e.sums", **SLICE)


@pytest.mark.parametrize(
    ("there", "given", "anomalies"),
    [
        ({TEN: FIVE}, {TEN: FIVE}, []),
        ({TEN: FIVE}, {TEN: ViewSums("(6)")}, [view("(6)", "(5)")]),
        ({}, {TEN: FIVE}, [view("(5)", "no rows")]),
        ({TEN: FIVE}, {}, [view("no rows", "(5)")]),
        ({}, {}, []),
    ],
)
def test_a_views_table_holds_what_its_select_gives(there, given, anomalies):
    assert views(replace(SUMS, stored=there, selected=given)) == anomalies


def test_only_units_that_the_view_saw_and_that_are_done():
    fed = replace(SUMS, selected={TEN: ViewSums("(6)")})
    assert len(views(fed)) == 1
    assert views(replace(fed, covered=frozenset({ELEVEN}))) == []
    older = {name: replace(row, manifest="older") for name, row in FOUND[0].tables.items()}
    stale = replace(FOUND[0], state=UnitState.STALE, tables=older)
    assert views(fed, facts=replace(FACTS, statuses=(stale, FOUND[1]))) == []


def test_a_source_that_is_wrong_itself_is_told_alone():
    fed = replace(SUMS, selected={TEN: ViewSums("(6)")})
    assert views(fed, broken=(("2026-11-20T10Z", "dc1", "e.clicks"),)) == []
    for other in (
        ("2026-11-20T11Z", "dc1", "e.clicks"),
        ("2026-11-20T10Z", "dc1", "e.other"),
        ("2026-11-20T10Z", "dc2", "e.clicks"),
    ):
        assert len(views(fed, broken=(other,))) == 1


def test_units_are_told_in_their_order():
    fed = ViewTableSums("e.sums", "e.view", {ELEVEN: FIVE, TEN: FIVE}, {}, frozenset({TEN, ELEVEN}))
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
        "counts and sums (5)",
        command,
        f"{NOBODY}{statement} {where}" if statement else "",
        **place,
    )
    fed = replace(SUMS, stored={TEN: FIVE, unit: FIVE}, projections=projections)
    assert views(fed) == [expected]
    # The source's own rows are told of where they are, and what is committed is covered.
    assert views(fed, rows={**CLICKS.rows, unit: {"": 1}}) == []
    assert views(fed, ledger={**CLICKS.ledger, unit: CLICKS.ledger[TEN]}) == []


@pytest.mark.parametrize(
    ("mine", "other", "same"),
    [
        (FloatSum(100.0, 100.0, 0.01), FloatSum(101.0, 100.0, 0.01), True),
        (FloatSum(100.0, 100.0, 0.01), FloatSum(101.1, 100.0, 0.01), False),
        (FloatSum(100.0, 50.0, 0.01), FloatSum(101.0, 100.0, 0.01), True),
        (FloatSum(100.0, 100.0, 0.01), FloatSum(101.0, 50.0, 0.01), True),
        (FloatSum(100.0, 50.0, 0.01), FloatSum(101.0, 50.0, 0.01), False),
        (FloatSum(-1.0, 1.0, 0.01), FloatSum(1.0, 1.0, 0.01), False),
        (FloatSum(0.0, 0.0, 0.01), FloatSum(0.0, 0.0, 0.01), True),
        (FloatSum(math.nan, 1.0, 0.01), FloatSum(math.nan, 1.0, 0.01), True),
        (FloatSum(math.nan, 1.0, 0.01), FloatSum(math.inf, 1.0, 0.01), False),
        (FloatSum(math.inf, 1.0, 0.01), FloatSum(math.inf, 1.0, 0.01), True),
        (FloatSum(math.inf, math.inf, 0.01), FloatSum(5.0, 1.0, 0.01), False),
        (FloatSum(5.0, math.inf, 0.01), FloatSum(math.nan, 1.0, 0.01), False),
    ],
)
def test_sums_of_floats_agree_within_their_tolerance(mine, other, same):
    assert mine.agrees(other) is same
    assert ViewSums("(1)", (mine,)).agrees(ViewSums("(1)", (other,))) is same
    assert (
        ViewSums("(1)", (FloatSum(1.0, 1.0, 0.0), mine)).agrees(
            ViewSums("(1)", (FloatSum(1.0, 1.0, 0.0), other))
        )
        is same
    )
    assert not ViewSums("(1)", (mine,)).agrees(ViewSums("(2)", (other,)))


def test_sums_as_they_are_told():
    assert (
        str(ViewSums("(5, 0.10)", (FloatSum(0.1, 1.0, 1e-9), FloatSum(-2.0, 2.0, 1e-9))))
        == "(5, 0.10), 0.1, -2.0"
    )
    assert str(ViewSums("", (FloatSum(1e22, 1.0, 1e-9),))) == "1e+22"


def test_sums_of_other_columns_cannot_be_compared():
    with pytest.raises(ValueError, match="zip"):
        ViewSums("(1)", (FloatSum(1.0, 1.0, 0.0),)).agrees(ViewSums("(1)"))


def test_a_table_of_the_views_own_has_its_name():
    """A person reads it by that; the printed statement names the table, which alone takes a DELETE."""
    inner = "e..inner_id.61f0c404-5cb3-11e7-907b-a6006ad3dba0"
    fed = replace(SUMS, table=inner, selected={TEN: ViewSums("(6)")}, stored={TEN: FIVE, FOREIGN: FIVE})
    one, other = views(fed)
    assert [(a.kind, a.table) for a in (one, other)] == [
        (AnomalyKind.VIEW, "e.view"),
        (AnomalyKind.ROWS_UNCOVERED, "e.view"),
    ]
    assert f"DELETE FROM `e`.`{inner.removeprefix('e.')}` " in other.advice
