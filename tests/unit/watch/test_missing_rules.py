"""Columns without values, from the ledger's counts: reported at a jump, and once."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import pendulum
import pytest

from sluice.slices import Slice, Unit
from sluice.state.ledger import LedgerRow
from sluice.state.row_balance import missing_in, percent, said
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from sluice.watch.problems import first_judged, to_judge
from sluice.watch.rules import missing
from tests.unit.doctor.test_doctor_kafka import pipeline

START = pendulum.datetime(2026, 11, 20)
TABLE = "adx.clicks"


def piece(hour: int) -> Slice:
    return Slice(START.add(hours=hour))


def commit(hour: int, rows: int, cluster: str = "dc1", counted: bool = True, **columns: int) -> LedgerRow:
    """`columns` are those with defaults; one that begins with `n_` has NULLs."""
    nulls = {name: count for name, count in columns.items() if name.startswith("n_")}
    defaulted = {name: count for name, count in columns.items() if name not in nulls}
    unit = Unit(piece(hour), cluster)
    counts = {"counted": counted, "defaulted": defaulted, "nulls": nulls}
    return LedgerRow(unit, "m", ("click",), rows, rows, 0, "t", 1, **counts)


def status(row: LedgerRow, derived: bool = False) -> UnitStatus:
    tables, derived_tables = {TABLE: row}, frozenset([TABLE] if derived else [])
    return UnitStatus(row.unit, UnitState.COMPLETE, None, (), None, tables, (), 0, derived=derived_tables)


def watched(rows: Sequence[LedgerRow], derived: bool = False, **alarms: object) -> dict[str, list[str]]:
    """What a watch that runs after each hour says, by the hour's slice."""
    heard: dict[str, list[str]] = {}
    before: Mapping[str, str] = {}
    hours = sorted({row.unit.slice for row in rows})
    for number, hour in enumerate(hours, start=1):
        known = [status(row, derived) for row in rows if row.unit.slice in hours[:number]]
        problems = missing(pipeline(alarms=alarms), known, to_judge(hours[:number], before))
        before = first_judged(hours[:number], before)
        if found := [f"{problem.key}: {problem.message}" for problem in problems]:
            heard[hour.id] = found
    return heard


def test_a_field_that_is_left_out_is_a_problem_of_the_hours_after_the_jump_and_then_over():
    rows = [commit(hour, 300, amount=3 if hour < 5 else 76) for hour in range(12)]
    heard = watched(rows)
    assert list(heard) == [piece(hour).id for hour in (5, 6, 7)]
    [text] = heard[piece(5).id]
    assert text.startswith(
        f"field missing|table {TABLE}: the share of rows without a value went up: column amount from 1.0 % "
        "to 25.3 % in slice 2026-11-20T05Z; "
    )
    assert "--from 2026-11-20T05:00Z --to now --mode reload`" in text


def test_clusters_count_together_and_so_do_nulls():
    rows = [
        commit(hour, 100, cluster, n_a=0 if hour < 3 or cluster == "dc1" else 100)
        for hour in range(4)
        for cluster in ("dc1", "dc2")
    ]
    [[text]] = watched(rows).values()
    assert "column n_a from 0 % to 50.0 % in slice 2026-11-20T03Z" in text


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(lambda hour: commit(hour, 49, a=49 * (hour % 2)), id="few rows"),
        pytest.param(lambda hour: commit(hour, 300, a=300), id="never there"),
        pytest.param(lambda hour: commit(hour, 300, a=29 if hour == 4 else 0), id="below the bound"),
        pytest.param(lambda hour: commit(hour, 300, counted=hour > 3, a=200), id="not counted before"),
    ],
)
def test_no_jump(row: Callable[[int], LedgerRow]):
    assert watched([row(hour) for hour in range(8)]) == {}


def test_chance_is_no_jump():
    dice = random.Random(5)
    shares = [dice.choice([0.01, 0.3, 0.5, 0.9]) for _ in range(40)]
    for share in shares:
        rows = [commit(hour, 60, a=sum(dice.random() < share for _ in range(60))) for hour in range(30)]
        assert watched(rows) == {}


def test_traffic_counts_have_no_fields_and_none_switches_it_off():
    rows = [commit(hour, 300, a=0 if hour < 3 else 300) for hour in range(5)]
    assert watched(rows) != {}
    assert watched(rows, derived=True) == {} == watched(rows, missing="none")
    assert watched([commit(hour, 300, a=0 if hour < 3 else 20) for hour in range(5)], missing=0.05) != {}


def test_shares_are_named_and_what_was_not_counted_is_unknown():
    rows = [commit(0, 300, amount=76, paid=1, n_x=9), commit(1, 100, paid=1), commit(2, 50, counted=False)]
    assert said(rows) == "amount 19.0 %, paid 0.5 %"
    assert missing_in(rows) is None
    assert said([rows[2]]) == said([]) == ""
    assert said([commit(0, 10, **{f"c{n}": 10 - n for n in range(8)})]).endswith("c4 60.0 %, and 3 more")
    assert [percent(share) for share in (0, 1e-9, 0.99999, 1)] == ["0 %", "0.1 %", "99.9 %", "100 %"]
