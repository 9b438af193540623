"""A partition that stands still while the others move."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.flow.verify.anomaly import AnomalyKind
from sluice.slices import SliceRange
from sluice.state.boundaries.log import BoundaryLog
from tests.support.fakes import MemoryLake
from tests.support.landing_world import START, World, event, hours
from tests.support.landing_world import pipeline as landing_pipeline
from tests.support.verified import FACTS, found


def stalled(silent: dict[int, int], after: int = 3, last: int = 6) -> list[tuple[int | None, object]]:
    """`silent`: partitions, each with the hour from which on it brings nothing. What the anomalies name."""
    logs = [[event("click", 60 * h) for h in range(silent.get(p, last))] for p in range(3)]
    world, lake = World({("dc1", "bids"): logs}), MemoryLake()
    pipeline = landing_pipeline(stalled_after=after)
    world.resolve(pipeline, lake, hours(last))
    facts = replace(
        FACTS,
        pipeline=pipeline,
        boundaries=BoundaryLog(lake).read(),
        statuses=(),
        tables=(),
        lake=replace(FACTS.lake, sizes={}),
        slices=SliceRange(START.add(hours=last - 1), START.add(hours=last)),
    )
    anomalies = found(facts)
    assert all(a.kind is AnomalyKind.STALLED and not a.command for a in anomalies)
    return [(a.partition, a.offsets) for a in anomalies]


@pytest.mark.parametrize(
    ("silent", "expected"),
    [
        ({}, []),
        ({1: 3}, [(1, (3, 3))]),
        ({1: 4}, []),  # two hours of silence, not three
        ({1: 0}, []),  # never had a record
        ({0: 2, 1: 3}, [(0, (2, 2)), (1, (3, 3))]),
        ({0: 3, 1: 3, 2: 3}, []),  # the whole topic is silent
    ],
)
def test_stalled(silent: dict[int, int], expected: list):
    assert stalled(silent) == expected


def test_it_can_be_switched_off():
    assert stalled({1: 1}, after=0) == []


def test_a_range_that_is_not_resolved_far_enough_back_says_nothing():
    assert stalled({1: 1}, after=7) == []
