"""The page's dry run: what a backfill would do in numbers and lines, and how long it would take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.errors import KafkaOutOfReach
from sluice.flow.resolve.preview import Preview
from sluice.page.plan import plan_view
from sluice.plan.estimate import Expected, Rate, expected
from sluice.plan.plan import work_of
from sluice.slices import SliceRange
from tests.support.page_world import START, complete, missing, pipeline, unit

THREE = SliceRange(START, START.add(hours=3))
RATES = {
    "land": Rate(30.0, 0.0, 0.0),
    "load": Rate(1.0, 2.0, 0.0),
    "verify": Rate(0.0, 1.0, 0.0),
    "publish": Rate(2.0, 0.0, 0.0),
}


def seen(**unreachable: KafkaOutOfReach) -> Preview:
    found = [complete(unit(0)), missing(unit(1)), missing(unit(2))]
    return Preview([replace(s, ranges=s.ranges or ()) for s in found], unreachable)


@pytest.mark.parametrize(
    ("mode", "actions", "time"),
    [
        # Landing 30 s; loading 1 s and 2 s for each of two units; verify 1 s for each of three; publish 2 s.
        (
            "fill",
            {"land and load": 2, "nothing": 1},
            "about 40 s (land 30 s, load 5 s, verify 3 s, publish 2 s)",
        ),
        (
            "reload",
            {"land and load": 2, "load again": 1},
            "about 42 s (land 30 s, load 7 s, verify 3 s, publish 2 s)",
        ),
    ],
)
def test_a_plan_says_what_is_done_and_how_long_it_takes(mode: str, actions: dict, time: str):
    work = work_of(seen().found, mode)
    plan = plan_view(pipeline(), THREE, mode, seen(), work, expected(work, RATES))
    assert (plan.units, plan.actions, plan.time) == (3, actions, time)
    assert (plan.batches, len(plan.lines)) == (1, 3)
    assert plan.waiting == []


def test_what_was_never_timed_and_who_does_not_answer():
    gone = KafkaOutOfReach("dc2", "h:1", "no answer")
    work = work_of(seen().found, "fill")
    plan = plan_view(pipeline(), THREE, "fill", seen(dc2=gone), work, expected(work, {"land": RATES["land"]}))
    assert plan.time == "unknown: no earlier run of this pipeline has timed load, verify, publish"
    assert plan.waiting == [f"cluster dc2 waits: {gone}"]
    assert str(Expected({}, ())) == "about 0 s"
