"""The tables' card and the lag's trend: which table lacks which hours, and where nothing is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.page.tables import TableNow, progress_of_tables, table_facts
from sluice.page.traffic import trend_of
from sluice.slices import SliceRange
from sluice.state.notes import LagSample
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.page_world import START, TABLE, complete, file, missing, pipeline, unit

OTHER = "events.other"
TWO = {"tables": {"click": TABLE, "*": OTHER}}


def of_two(hour: int, clicks: int, others: int, **changed: object) -> UnitStatus:
    """A unit whose `others` rows are not in their table unless `changed` says so."""
    stamp = f"{START.add(hours=hour):%Y-%m-%dT%H}"
    found = complete(unit(hour), files=[file("click", stamp, clicks), file("view", stamp, others)])
    row = replace(found.tables[TABLE], types=("click",), rows=clicks - 1, rejected_rows=1, landed=clicks)
    return replace(found, tables={TABLE: row}, state=UnitState.LANDED, **changed)


def whole(hour: int, clicks: int, others: int) -> UnitStatus:
    found = of_two(hour, clicks, others)
    row = replace(found.tables[TABLE], types=("view",), rows=others, rejected_rows=0)
    return replace(found, tables={**found.tables, OTHER: row}, state=UnitState.COMPLETE)


def facts(found: list[UnitStatus], **more: object):
    spec = pipeline(**TWO)
    return table_facts(
        progress_of_tables(spec, found, more.get("first", START), more.get("at", START.add(days=1))),
        more.get("now", {}),
        more.get("gone", ()),
        more.get("wrong", ()),
    )


def test_a_table_with_wrong_rows_is_not_complete():
    clicks, others = facts([whole(0, 5, 3)], wrong={TABLE})
    assert (clicks.state, others.state) == ("wrong rows", "complete")
    assert facts([whole(0, 5, 3)], wrong={TABLE}, gone={TABLE})[0].state == "no such table"


def test_which_table_is_behind_and_since_when():
    clicks, others = facts([whole(0, 5, 3), of_two(1, 7, 4), whole(2, 6, 2), missing(unit(3))])
    assert (clicks.table, clicks.state, clicks.behind, clicks.first_behind) == (
        TABLE,
        "behind",
        1,
        "2026-11-20T13Z",
    )
    assert (clicks.complete_until, clicks.rows, clicks.rejected_rows) == ("2026-11-20T13:00:00+00:00", 15, 3)
    assert (others.table, others.state, others.behind, others.first_behind) == (
        OTHER,
        "behind",
        2,
        "2026-11-20T11Z",
    )
    assert (others.complete_until, others.rows, others.rejected_rows) == ("2026-11-20T11:00:00+00:00", 5, 0)


def test_an_hour_counts_when_every_cluster_is_there_and_an_open_one_does_not():
    away = missing(unit(1, "dc2"))
    (clicks, _) = facts([whole(0, 1, 1), whole(1, 1, 1), away, missing(unit(2), UnitState.NOT_OVER)])
    assert (clicks.behind, clicks.first_behind) == (1, "2026-11-20T11Z")


@pytest.mark.parametrize(
    ("minutes", "state", "behind"),
    [(0, "complete", 0), (59, "complete", 0), (61, "complete", 0), (63, "behind", 1)],
)
def test_a_table_is_behind_once_the_next_hour_is_due(minutes: int, state: str, behind: int):
    """The second hour ends at 12:00, and settles for two minutes: the next one is due at 13:02."""
    found = [whole(0, 1, 1), missing(unit(1)), missing(unit(2), UnitState.NOT_OVER)]
    clicks, _ = facts(found, at=START.add(hours=2, minutes=minutes))
    assert (clicks.state, clicks.behind, clicks.complete_until) == (
        state,
        behind,
        "2026-11-20T11:00:00+00:00",
    )


@pytest.mark.parametrize(
    ("found", "gone", "state", "until"),
    [
        ([], (), "nothing yet", ""),
        ([missing(unit(0))], (), "behind", ""),
        ([whole(0, 1, 1)], (), "complete", "2026-11-20T11:00:00+00:00"),
        ([whole(0, 1, 1)], (OTHER,), "no such table", "2026-11-20T11:00:00+00:00"),
    ],
)
def test_states(found: list[UnitStatus], gone: tuple[str, ...], state: str, until: str):
    _, others = facts(found, gone=gone)
    assert (others.state, others.complete_until) == (state, until)


def test_hours_before_the_first_one_are_lacked_by_no_table():
    found = [missing(unit(0)), missing(unit(1)), whole(2, 1, 1)]
    (clicks, _) = facts(found, first=START.add(hours=1))
    assert (clicks.behind, clicks.first_behind) == (1, "2026-11-20T11Z")
    (nothing, _) = facts(found, first=None)
    assert (nothing.behind, nothing.state) == (0, "nothing yet")


def test_what_the_server_says_and_what_it_does_not():
    now = {TABLE: TableNow(4, 900, 77, "2026-11-20T12:00:00+00:00")}
    clicks, others = facts([], now=now)
    assert (clicks.parts, clicks.bytes, clicks.rows_in_all) == (4, 900, 77)
    assert clicks.last_load == "2026-11-20T12:00:00+00:00"
    assert (others.parts, others.bytes, others.rows_in_all, others.last_load) == (None, None, None, "")
    assert (clicks.types, others.types) == (["click"], ["*"])


def test_an_hour_without_a_watch_is_a_gap_in_the_trend():
    at = int(START.timestamp())
    known = [LagSample(at + h * 3600, 10 * h, h, None if h == 3 else 60 * h) for h in (0, 1, 3, 9)]
    trend = trend_of(known, SliceRange(START.add(hours=1), START.add(hours=9)))
    assert trend.starts == [at + 3600, at + 7200, at + 10800]
    assert (trend.records, trend.seconds, trend.held) == ([10, None, 30], [60, None, None], [1, None, 3])
    nothing = trend_of([], SliceRange(START, START.add(hours=1)))
    assert (nothing.starts, nothing.records) == ([], [])
