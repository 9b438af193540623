"""What the page says of one slice: whether its event hours are marked complete in the lake."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sluice.clients.lake import layout
from sluice.page.slice_view import change_rows, event_hours_of
from sluice.slices import Slice, Unit
from sluice.state.additions import Addition
from sluice.state.field_changes import ChangeKind, FieldChange, UnitChange
from tests.support.fakes import MemoryLake
from tests.support.page_world import START, pipeline

TWO = {"click": "events.clicks", "view": "events.views"}


@pytest.mark.parametrize(
    ("length", "minutes", "hours"),
    [("1h", 0, ["2026-11-20T10"]), ("2h", 0, ["2026-11-20T10", "2026-11-20T11"]), ("15m", 15, [])],
)
def test_the_event_hours_that_begin_in_a_slice(length: str, minutes: int, hours: list[str]):
    lake, spec = MemoryLake(), pipeline(tables={**TWO, "*": "events.other"}, slice=length)
    piece = Slice(START.add(minutes=minutes), spec.slice)
    for name, hour in (("click", "2026-11-20T10"), ("view", "2026-11-20T10"), ("click", "2026-11-20T11")):
        lake.put(layout.hour_success(name, hour), b"")
    found = [(row.hour, row.complete, row.types) for row in event_hours_of(lake, spec, piece)]
    complete = {"2026-11-20T10": 2, "2026-11-20T11": 1}
    assert found == [(hour, complete[hour], 2) for hour in hours]


def test_fields_that_changed_are_shown_with_their_numbers_and_names_that_can_be_read():
    unit = Unit(Slice(START, timedelta(hours=1)), "dc1")
    change = FieldChange(ChangeKind.VANISHED, "cl\x1bick", "a\nb", 50, 0, 100, 90, (), ("string",))
    (row,) = change_rows([UnitChange(unit, change)])
    assert row.model_dump() == {
        "cluster": "dc1",
        "kind": "field vanished",
        "type": "cl\\x1bick",
        "field": "a\\nb",
        "message": "field `a\\nb` vanished: in none of 50 rows, was in 90 of 100 rows, 90 % (string)",
    }
    assert len(change_rows([UnitChange(unit, change)] * 201)) == 200
    column = Addition("e.clicks", "b\x1b", "String", unit.slice.id, 35, 400, "now", "me", shards={"": 1})
    added, _ = change_rows([UnitChange(unit, change)], [column])
    assert added.model_dump() == {
        "cluster": "",
        "kind": "column added",
        "type": "e.clicks",
        "field": "b\\x1b",
        "message": "table e.clicks: column `b\\x1b` String was added: in 35 of 400 rows",
    }


def test_a_pipeline_without_types_of_its_own_marks_none():
    spec = pipeline(tables={"*": "events.other"})
    assert event_hours_of(MemoryLake(), spec, Slice(START, timedelta(hours=1))) == []
