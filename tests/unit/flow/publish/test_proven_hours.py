"""Which event hours consumers of hours are told of: those that are loaded, too."""

from __future__ import annotations

from datetime import timedelta

import pendulum
import pytest

from sluice.flow import publish as module
from sluice.flow.publish import EventWindow, event_window, proven_hours, whole_hours
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.fakes import MemoryLake
from tests.support.landing_world import START, World, event, hours, pipeline
from tests.support.page_world import complete, missing, unit

HOUR = timedelta(hours=1)
EARLIEST = unit(0).slice.start


def landed(status: UnitStatus, state: UnitState) -> UnitStatus:
    return UnitStatus(**{**vars(status), "state": state})


@pytest.mark.parametrize(
    ("hour", "state", "whole"),
    [
        (2, UnitState.COMPLETE, [1, 2, 3]),
        (2, UnitState.LANDED, []),
        (2, UnitState.STALE, []),
        (2, UnitState.COMPLETE_WITH_LOSS, []),
        (0, UnitState.LANDED, [2, 3]),
        (4, UnitState.LANDED, [1, 2]),
    ],
)
def test_an_hour_waits_for_the_load_of_every_slice_around_it(hour, state, whole):
    """Hour h waits for the slices h - 1, h and h + 1."""
    window = EventWindow(HOUR, HOUR, HOUR, EARLIEST)
    found = [landed(complete(unit(h)), state if h == hour else UnitState.COMPLETE) for h in range(5)]
    asked = [EARLIEST + HOUR * h for h in (1, 2, 3)]
    assert whole_hours(asked, window, found) == [EARLIEST + HOUR * h for h in whole]


def test_one_of_two_clusters_is_not_the_hour():
    window = EventWindow(HOUR, timedelta(0), timedelta(0), EARLIEST)
    found = [complete(unit(0)), missing(unit(0, "dc2")), complete(unit(1)), complete(unit(1, "dc2"))]
    assert whole_hours([EARLIEST, EARLIEST + HOUR], window, found) == [EARLIEST + HOUR]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [1, 2, 3]),
        ({"grace": "0h", "max_early": "0h"}, [2, 3]),
        ({"tables": {"*": "d.rest"}}, [1, 2, 3]),
    ],
)
def test_a_run_of_two_slices_proves_the_hours_that_wait_for_them(monkeypatch, changes, expected):
    """Five hours are complete, and the run was of the hours 2 and 3. A table of all types has hours, too."""
    spec, lake = pipeline(**changes), MemoryLake()
    World({("dc1", "bids"): [[event("click", 60 * n + 30) for n in range(5)]]}).resolve(spec, lake, hours(5))
    asked: list[str] = []
    monkeypatch.setattr(module, "open_lake", lambda pipeline: lake)
    monkeypatch.setattr(module, "survey_past", lambda pipeline, slices: asked.append(str(slices)) or [])
    assert proven_hours(spec, hours(2, first=2)) == [START.add(hours=h) for h in expected]
    assert len(asked) == 1


def test_without_boundaries_no_hour_is_proven(monkeypatch):
    monkeypatch.setattr(module, "open_lake", lambda pipeline: MemoryLake())
    assert proven_hours(pipeline(), hours(2)) == []


def test_a_range_that_completes_no_hour_asks_no_table(monkeypatch):
    spec, lake = pipeline(), MemoryLake()
    World({("dc1", "bids"): [[event("click", 30)]]}).resolve(spec, lake, hours(1))
    monkeypatch.setattr(module, "open_lake", lambda pipeline: lake)
    monkeypatch.setattr(module, "survey_past", lambda pipeline, slices: pytest.fail("asked"))
    assert proven_hours(spec, hours(1)) == []


def test_the_first_slice_is_that_of_the_file_else_the_first_resolved():
    at = pendulum.datetime(2026, 1, 1, 5)
    assert event_window(pipeline(), at).first == at
    assert event_window(pipeline(start=START.add(hours=2)), at).first == START.add(hours=2)
