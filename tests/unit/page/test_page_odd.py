"""What is unusual of an hour: rejected and defaulted values by table, and rows far from the usual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sluice.page.odd import Odd, OddKind, is_empty, is_odd, odd_in, with_reasons
from sluice.state.months import UnitSummary, summary_of
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from sluice.watch.expected import Expected
from tests.support.page_world import TABLE, complete, pipeline, unit


def committed(
    hour: int, rows: int, rejected_rows: int = 0, defaulted: Mapping[str, int] | None = None
) -> UnitStatus:
    status = complete(unit(hour), rows=rows + rejected_rows)
    row = replace(
        status.tables[TABLE],
        rows=rows,
        rejected_rows=rejected_rows,
        counted=defaulted is not None,
        defaulted=defaulted or {},
    )
    return replace(status, tables={TABLE: row})


def said(*statuses: UnitStatus, usual: Mapping[int, Expected] | None = None, **spec: object) -> list[tuple]:
    found = odd_in(pipeline(**spec), statuses, [summary_of(one) for one in statuses], usual or {})
    return [(name, odd.what, odd.message) for name, odds in sorted(found.items()) for odd in odds]


def test_the_share_is_that_of_the_table():
    """300 of 685 clicks, as an operator saw it."""
    assert said(committed(0, 385, 300)) == [
        ("2026-11-20T10Z", f"43.8 % of rows of {TABLE} rejected", "300 of 685 in 2026-11-20T10Z")
    ]


def test_rejected_records_are_a_share_of_the_records():
    found = said(complete(unit(0), rows=90, rejected_records={"no type": 10}))
    assert found == [("2026-11-20T10Z", "10.0 % of records rejected", "10 of 100 in 2026-11-20T10Z")]


@pytest.mark.parametrize(
    ("rows", "rejected_rows", "alarms", "odd"),
    [
        (991, 9, {}, False),  # fewer than ten mean nothing
        (990, 10, {}, False),  # 1 % is allowed
        (989, 11, {}, True),
        (989, 11, {"rejected": 0.05}, False),
        (500, 500, {"rejected": "none"}, False),
    ],
)
def test_the_bounds_are_those_of_the_alarms(rows: int, rejected_rows: int, alarms: dict, odd: bool):
    status = committed(0, rows, rejected_rows)
    assert bool(said(status, alarms=alarms)) is odd
    assert is_odd(pipeline(alarms=alarms), summary_of(status)) is odd


def test_loaded_rows_that_fail_a_check_make_an_hour_unusual():
    status = committed(0, 100)
    row = replace(status.tables[TABLE], failed={"positive": 1, "known": 12})
    assert said(replace(status, tables={TABLE: row})) == [
        (
            "2026-11-20T10Z",
            f"rows of {TABLE} fail a check",
            "1 row fails positive, 12 rows fail known in 2026-11-20T10Z",
        )
    ]


def test_an_hour_that_is_not_complete_is_not_unusual():
    assert said(replace(committed(0, 1, 300), state=UnitState.LANDED)) == []


def test_a_column_that_gets_defaults_since_an_hour():
    """Three hours in which a tenth has no price, then half: the share of those before is not unusual."""
    hours = [committed(hour, 100, defaulted={"price": 10}) for hour in range(3)]
    assert said(*hours, committed(3, 100, defaulted={"price": 50})) == [
        (
            "2026-11-20T13Z",
            f"50.0 % of rows of {TABLE} lack price",
            "50.0 % in 2026-11-20T13Z, at most 10.0 % before",
        )
    ]


@pytest.mark.parametrize(
    ("rows", "usual", "what"),
    [
        (100, Expected(1000.0, (1, 2, 3), 500.0, 1500.0), "90.0 % fewer rows than expected"),
        (1000, Expected(1000.0, (1, 2, 3), 500.0, 1500.0), ""),
        (3000, Expected(1000.0, (1, 2, 3), 500.0, 1500.0), "3.0 × the expected rows"),
        (0, Expected(1000.0, (1, 2, 3)), "no row"),
        (100, Expected(1000.0, (1, 2, 3)), ""),  # too little history to judge
        (0, Expected(20.0, (1, 2, 3)), ""),  # an hour of few rows may have none
    ],
)
def test_rows_far_from_the_usual(rows: int, usual: Expected, what: str):
    status = committed(0, rows)
    found = said(status, usual={int(status.unit.slice.start.timestamp()): usual})
    assert [one[1] for one in found] == ([what] if what else [])


def test_the_reason_that_rejected_most_is_named():
    odd = Odd(OddKind.REJECTED, "2026-11-20T10Z", f"table {TABLE}", "43.8 %", "300 of 685")
    records, few = replace(odd, place="records"), replace(odd, kind=OddKind.FEW)
    rows = [(TABLE, "n", "does not fit UInt8", 2), (TABLE, "price\x1b", "does not fit Float64", 298)]
    found = with_reasons([odd, records, few], rows, {"no type": 3, "not JSON": 9})
    assert [one.message for one in found] == [
        "300 of 685; 298 of them: price\\x1b does not fit Float64",
        "300 of 685; 9 of them: not JSON",
        "300 of 685",
    ]
    assert with_reasons([odd], [], {}) == [odd]


def test_empty_is_what_no_table_of_events_has_a_row_of():
    none, read = UnitSummary("complete"), UnitSummary("complete", read=7)
    rows = UnitSummary("complete", read=7, rows=7)
    assert [is_empty(pipeline(), [one]) for one in (none, read, rows)] == [True, True, False]
    assert [is_empty(pipeline(tables={}), [one]) for one in (none, read)] == [True, False]
    assert not is_empty(pipeline(), [none, rows])
