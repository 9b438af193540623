"""What the page says of one slice: whether its event hours are marked complete in the lake."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sluice.clients.lake import layout
from sluice.page.slice_view import event_hours_of
from sluice.slices import Slice
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


def test_a_pipeline_without_types_of_its_own_marks_none():
    spec = pipeline(tables={"*": "events.other"})
    assert event_hours_of(MemoryLake(), spec, Slice(START, timedelta(hours=1))) == []
