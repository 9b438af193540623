"""Which hours are old enough, by the months' summaries."""

from __future__ import annotations

from datetime import datetime

import msgspec
import pendulum
import pytest

from sluice.config.pipeline import Pipeline
from sluice.plan.due import NOTICE, KeepEdges, due_slices, first_forgotten, known_until
from sluice.slices import HOUR
from sluice.state.months import SUMMARIES, Month, StoredMonth, Summaries, UnitSummary
from sluice.watch.problems import decide, pending, with_notified
from sluice.watch.watch import forgets
from tests.support.page_world import pipeline

NOW = pendulum.datetime(2026, 11, 25)
DONE = UnitSummary("complete", seal="x", read=9)


def noted(**units: UnitSummary) -> Summaries:
    """By hour of 20 November, `h10` and so on."""
    month: Month = {f"2026-11-20T{name[1:]}Z": {"dc1": unit} for name, unit in units.items()}
    return Summaries([StoredMonth("2026-11", "v", SUMMARIES.encode(month), "place")])


def spec(**keep: str) -> Pipeline:
    return pipeline(keep=keep)


def due(of: Pipeline, found: Summaries, done: bool = True, now: datetime = NOW) -> list[str]:
    return [slice_.id[11:13] for slice_ in due_slices(of, found, KeepEdges.of(of.keep, now), done)]


UNITS = {
    "h01": DONE,
    "h02": msgspec.structs.replace(DONE, state="complete with loss", rejected_records=3),
    "h03": msgspec.structs.replace(DONE, state="landed"),
    "h04": UnitSummary("missing"),
    "h05": msgspec.structs.replace(DONE, forgotten="lake", rejected_records=3, state="forgotten"),
    "h06": msgspec.structs.replace(DONE, forgotten="rejected", rejected_records=3),
    "h07": msgspec.structs.replace(DONE, rejected_records=1, state="stale"),
}


@pytest.mark.parametrize(
    ("keep", "done", "left_out"),
    [
        ({"lake": "4d"}, ["01", "02", "06"], ["01", "02", "03", "06", "07"]),
        ({"rejected": "4d"}, ["02"], ["02", "07"]),
        ({"lake": "400d", "rejected": "4d"}, ["02"], ["02", "07"]),
        ({"lake": "400d"}, [], []),
        ({"lake": "4d", "rejected": "2d"}, ["01", "02", "06"], ["01", "02", "03", "06", "07"]),
    ],
)
def test_hours_with_files_that_are_old_enough(keep: dict, done: list[str], left_out: list[str]):
    of, found = spec(**keep), noted(**UNITS)
    assert (due(of, found), due(of, found, done=False)) == (done, left_out)


def test_an_hour_is_due_when_its_end_is_as_old():
    of, found = spec(lake="4d"), noted(h10=DONE)
    end = pendulum.datetime(2026, 11, 24, 11)
    assert (due(of, found, now=end.subtract(seconds=1)), due(of, found, now=end)) == ([], ["10"])


@pytest.mark.parametrize("keep", [{}, {"lake": "400d"}, {"rejected": "400d"}, {"lake": "4d"}])
def test_what_was_begun_is_ended_at_any_age(keep: dict):
    begun = msgspec.structs.replace(DONE, forgotten="begun", state="forgotten")
    found = noted(h22=begun, h23=msgspec.structs.replace(DONE, rejected_records=2))
    assert due(spec(**keep), found, now=pendulum.datetime(2026, 11, 21)) == ["22"]


def test_what_is_read_of_the_months():
    edges = KeepEdges.of(spec(lake="4d", rejected="2d").keep, NOW)
    first = pendulum.datetime(2026, 11, 20)
    hours = known_until(first, edges, HOUR)
    assert hours is not None and (hours.start, hours.end) == (first, pendulum.datetime(2026, 11, 23))
    assert known_until(NOW, edges, HOUR) is None
    assert known_until(first, KeepEdges(None, None), HOUR) is None


@pytest.mark.parametrize(
    ("days", "since", "begins"),
    [
        (4, NOW.subtract(days=30), None),  # it is due since the 24th
        (8, NOW.subtract(days=30), pendulum.datetime(2026, 11, 28, 2)),
        (8, NOW, NOW + NOTICE),
        (8, None, NOW + NOTICE),
        (30, NOW, None),
    ],
)
def test_a_week_before_the_first_hours_go_the_watch_says_so(days: int, since, begins):
    of, found = spec(lake=f"{days}d"), noted(h01=DONE, h02=DONE)
    first = first_forgotten(of, found, since, NOW)
    if days == 30:
        assert first is None and list(forgets(of, first)) == []
        return
    assert first is not None and first.slice.id == "2026-11-20T01Z"
    assert first.at == (begins or pendulum.datetime(2026, 11, 24, 2))
    [problem] = forgets(of, first)
    assert problem.place == ("keep: lake 4 days" if days == 4 else "keep: lake 1 week 1 day")
    assert f"from {first.at:%Y-%m-%dT%H:%MZ} on runs of DAG p delete files" in problem.message
    assert "the first of slice 2026-11-20T01Z; `sluice forget p --dry-run` says which" in problem.message


def test_the_week_ahead_is_said_once_while_its_hours_are_loaded_again():
    """A table lacks them, has them, lacks them, and has them again; at last they are forgotten."""
    of, alarms, heard = spec(lake="4d"), {}, []
    lacking = msgspec.structs.replace(DONE, state="landed")
    gone = msgspec.structs.replace(DONE, state="forgotten", forgotten="lake")
    for unit in (lacking, DONE, lacking, DONE, gone):
        first = first_forgotten(of, noted(h01=unit), NOW.subtract(days=30), NOW)
        alarms = decide(forgets(of, first, set(alarms)), alarms, (), "now")
        notice = pending(alarms, "ops")
        heard.append((len(notice.raised), len(notice.cleared)))
        alarms = with_notified(alarms, "ops", notice)
    assert heard == [(0, 0), (1, 0), (0, 0), (0, 0), (0, 0)]
    assert alarms == {}


def test_once_hours_are_forgotten_nothing_is_said():
    found = noted(h01=msgspec.structs.replace(DONE, forgotten="lake"), h02=DONE)
    assert first_forgotten(spec(lake="8d"), found, NOW, NOW) is None
