"""The steps over an hour, by the run that they are of."""

from __future__ import annotations

from datetime import timedelta

from sluice.page.run_history import step_runs
from sluice.slices import Slice
from sluice.state.notes import Timing
from tests.support.page_world import START

HOUR = Slice(START, timedelta(hours=1))
AT = START.add(hours=2)


def timing(
    minute: float, step: str, run: str = "", seconds: float = 30, table: str = "", mode: str = ""
) -> Timing:
    return Timing(
        step=step,
        start=START.isoformat(),
        until=START.add(hours=1).isoformat(),
        started=AT.add(seconds=int(minute * 60)).isoformat(timespec="milliseconds"),
        seconds=seconds,
        units=1,
        rows=9,
        table=table,
        mode=mode,
        run=run,
    )


def shown(*timings: Timing) -> list[tuple[str, float, list[str]]]:
    return [(run.run, run.seconds, [one.step for one in run.steps]) for run in step_runs(HOUR, timings)]


FIRST = [
    timing(0, "resolve"),
    timing(1, "land", "hourly", mode="fill"),
    timing(2, "load", "hourly", table="e.clicks", mode="fill"),
    timing(2, "load", "hourly", 45, table="e.other", mode="fill"),
    timing(3, "verify"),
    timing(4, "publish"),
    timing(5, "verify"),
]


def test_an_hour_that_is_remade_at_once_has_the_sums_of_each_run():
    """The remake begins half a minute after the first run's end: 5.5 minutes of that, 3 of the remake. At its
    end a run verifies its whole range."""
    again = [
        timing(6, "resolve"),
        timing(7, "land", "remake", mode="remake"),
        timing(8, "load", "remake", table="e.clicks", mode="remake"),
        timing(8.5, "verify"),
    ]
    first = ("hourly", 330.0, ["resolve", "land", "load", "load", "verify", "publish", "verify"])
    newest = ("remake", 180.0, ["resolve", "land", "load", "verify"])
    assert shown(*FIRST, *again) == [newest, first]
    assert shown(*reversed([*FIRST, *again])) == [newest, first]
    assert shown(*FIRST) == [first]


def test_steps_that_nothing_names_stand_by_themselves():
    """A run that found nothing to load verifies the hour again; an hour of an earlier Sluice has no names."""
    assert shown(*FIRST, timing(10, "verify"), timing(11, "publish"))[0] == ("", 90.0, ["verify", "publish"])
    every = [timing(5 + 14 * n, "verify") for n in range(1, 4)]  # the next runs of slices of a quarter
    first, *others = reversed(shown(*FIRST, *every))
    assert (first, others) == (shown(*FIRST)[0], [("", 30.0, ["verify"])] * 3)
    assert shown(*FIRST, timing(60, "verify"))[0] == ("", 30.0, ["verify"])
    assert shown(timing(0, "land"), timing(1, "load"), timing(40, "land")) == [
        ("", 30.0, ["land"]),
        ("", 90.0, ["land", "load"]),
    ]
    assert shown() == []


def test_runs_side_by_side_and_one_that_is_tried_again():
    """A run over other tables begins while the first one works; the first one's load is tried again later."""
    found = shown(
        timing(0, "land", "a"), timing(1, "load", "b"), timing(2, "load", "a"), timing(40, "load", "a")
    )
    assert found == [("a", 30.0, ["load"]), ("b", 30.0, ["load"]), ("a", 150.0, ["land", "load"])]


def test_batches_that_do_not_hold_the_hour_are_left_out():
    other = Timing(
        "land", START.add(hours=1).isoformat(), START.add(hours=2).isoformat(), AT.isoformat(), 1, 1, 1
    )
    assert shown(other) == []
