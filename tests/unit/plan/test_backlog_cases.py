"""The backlog case by case: its words, the windows that runs take in turn, offsets that are not landed."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import timedelta

import pendulum
import pytest

from sluice.plan.backlog import Backlog, backlog_of, batches_of, chosen, unlanded
from sluice.slices import Slice, SliceRange, Unit
from sluice.state import months
from sluice.state.boundaries.boundary import CODE, UNKNOWN, FoundBy, PartitionColumn, TopicBoundaries
from sluice.state.boundaries.model import Boundaries, Era
from sluice.state.unit_state import UnitState
from tests.support.fakes import MemoryLake
from tests.support.page_world import START, complete, missing, pipeline, unit
from tests.unit.plan.test_backlog import TWO, resolved, span, to_load

MISSING, EXPIRED = UnitState.MISSING, UnitState.EXPIRED


def test_nothing_is_left():
    assert not Backlog()
    assert (Backlog().states, Backlog().slices, Backlog().unlanded(5)) == ({}, [], [])


def test_from_the_first_slice_to_the_last():
    quarter = timedelta(minutes=15)
    units = [Unit(Slice(START + quarter * n, quarter), "dc1") for n in (6, 1, 3)]
    backlog = Backlog(dict.fromkeys(units, MISSING))
    assert backlog
    assert backlog.range == SliceRange(START + quarter, START + quarter * 7, quarter)
    assert str(backlog) == ("3 slices from 2026-11-20T1015Z to 2026-11-20T1130Z are not complete (3 missing)")
    one = Backlog({units[1]: MISSING})
    assert one.range == SliceRange(START + quarter, START + quarter * 2, quarter)


def test_what_may_still_land_of_the_first_slices():
    states = {unit(0): MISSING, unit(0, "dc2"): MISSING, unit(1): EXPIRED, unit(2): MISSING}
    backlog = Backlog({**states, unit(3): UnitState.LANDED, unit(4): MISSING})
    first = [unit(0), unit(0, "dc2")]
    assert backlog.unlanded(1) == first
    assert backlog.unlanded(2) == [*first, unit(2)]
    assert backlog.unlanded(9) == [*first, unit(2), unit(4)]
    assert backlog.unlanded(0) == Backlog({unit(1): EXPIRED}).unlanded(9) == []


def test_a_range_ends_before_its_end():
    backlog = Backlog({unit(hour): MISSING for hour in range(5)})
    assert list(backlog.outside(span(1, 3)).states) == [unit(0), unit(3), unit(4)]


def test_what_was_not_over_when_it_was_seen_is_missing_by_now():
    spec, lake = pipeline(), MemoryLake()
    boundaries = resolved(spec, lake, span(0, 2))
    months.note(lake, [missing(unit(0), UnitState.NOT_OVER), missing(unit(1), EXPIRED)])
    found = backlog_of(spec, boundaries, span(0, 2), months.read_summaries(lake, span(0, 2)))
    assert found.states == {unit(0): MISSING, unit(1): EXPIRED}


def test_what_a_cluster_that_was_taken_away_has_landed_is_loaded():
    lake = MemoryLake()
    boundaries = resolved(pipeline(kafka=TWO), lake, span(0, 3))
    months.note(lake, [complete(unit(hour)) for hour in range(3)])
    gone = (UnitState.LANDED, UnitState.STALE, EXPIRED)
    months.note(lake, [missing(unit(hour, "dc2"), state) for hour, state in enumerate(gone)])
    noted = months.read_summaries(lake, span(0, 3))
    found = backlog_of(pipeline(kafka=TWO[:1]), boundaries, span(0, 3), noted)
    assert found.states == {unit(0, "dc2"): UnitState.LANDED, unit(1, "dc2"): UnitState.STALE}


@pytest.mark.long
def test_a_century_of_hours_is_found_from_both_ends():
    """490,000 slices since 1970: the oldest 50,000 that are not complete, and the newest."""
    start, end = pendulum.datetime(1970, 1, 1), pendulum.datetime(2026, 1, 1)
    spec, lake, hours = pipeline(start=start), MemoryLake(), SliceRange(start, end)
    months.note(lake, [complete(Unit(Slice(start.add(hours=n)), "dc1")) for n in range(100)])
    last = [Unit(Slice(end.subtract(hours=n)), "dc1") for n in (1, 3)]
    months.note(lake, [complete(last[0]), missing(last[1], EXPIRED)])
    found = backlog_of(spec, Boundaries(), hours, months.read_summaries(lake, hours))
    pieces = found.slices
    oldest = [start.add(hours=100), start.add(hours=50_099)]
    newest = [end.subtract(hours=50_001), end.subtract(hours=2)]
    edges = [pieces[0].start, pieces[49_999].start, pieces[50_000].start, pieces[-1].start]
    assert (len(pieces), edges) == (100_000, [*oldest, *newest])
    assert list(found.states) == sorted(found.states)
    assert found.states[last[1]] is EXPIRED and last[0] not in found.states
    assert str(found).startswith("at least 100,000 slices from 1970-01-05T04Z to 2025-12-31T22Z are not")
    assert str(found.outside(span(0, 1))).startswith("at least") and not found.seen([]).whole


@pytest.mark.parametrize(("hours", "whole"), [(99, True), (100, True), (101, False)])
def test_as_many_hours_as_a_command_takes_are_all_found(hours, whole, monkeypatch):
    monkeypatch.setattr("sluice.plan.backlog.MOST_SLICES", 100)
    start = pendulum.datetime(2000, 1, 1)
    span = SliceRange(start, start.add(hours=hours))
    found = backlog_of(pipeline(start=start), Boundaries(), span, months.read_summaries(MemoryLake(), span))
    assert (len(found.slices), found.whole) == (min(hours, 100), whole)
    assert (found.slices == list(span)) is whole
    assert str(found).startswith("at least") is not whole


def test_every_second_run_takes_the_oldest_window_and_the_others_each_in_turn():
    a, b, c = open_windows = [span(0, 1), span(5, 6), span(8, 9)]
    assert [chosen(open_windows, turn) for turn in range(0, 8, 2)] == [(a, n) for n in range(4)]
    assert [chosen(open_windows, turn) for turn in range(1, 14, 2)] == [
        *((a, 0), (b, 0), (c, 0)),
        *((a, 1), (b, 1), (c, 1)),
        (a, 2),
    ]


def test_what_is_complete_is_no_work():
    found = [complete(unit(0)), to_load(1), complete(unit(2)), to_load(3)]
    assert batches_of(found, "fail", 1) == [span(1, 2), span(3, 4)]
    assert batches_of(found[::2], "fail", 0) == []


@pytest.mark.parametrize(
    ("holes", "number", "left_out"),
    [(7, 5, []), (9, 0, [8, 9]), (9, 3, [1, 2]), (9, 13, [1, 2]), (9, 9, [7, 8]), (8, 8, [7]), (8, 9, [8])],
)
def test_a_run_starts_eight_applications_at_most(holes: int, number: int, left_out: list[int]):
    """Between the hours of one each, others have expired. With each number the first one is another."""
    found = [to_load(hour, EXPIRED if hour % 2 else MISSING) for hour in range(2 * holes + 1)]
    whole = [span(2 * part, 2 * part + 1) for part in range(holes + 1) if part not in left_out]
    assert len(whole) == 8
    assert batches_of(found, "fail", number) == whole


def at(hour: int) -> int:
    return int(START.add(hours=hour).timestamp())


def block(
    hours: Sequence[int], *columns: Sequence[int], cluster="dc1", topic="t", uuid="u"
) -> TopicBoundaries:
    """`columns` are each partition's offsets at these hours."""
    made = {}
    for number, offsets in enumerate(columns):
        stored = array("q", offsets)
        found = array("b", [CODE[FoundBy.RECORD]]) * len(stored)
        made[number] = PartitionColumn(3, stored, stored, stored, found)
    return TopicBoundaries(cluster, topic, uuid, array("q", map(at, hours)), made)


def known(*blocks: TopicBoundaries, **eras: Sequence[str]) -> Boundaries:
    """`eras`: the ids of a topic, in their order, where it had several."""
    ids = {(b.cluster, b.topic): tuple(Era(uuid) for uuid in eras.get(b.topic, [b.uuid])) for b in blocks}
    return Boundaries(blocks={b.key: b for b in blocks}, eras=ids)


def lost(*hours: int, cluster: str = "dc1", state: UnitState = MISSING) -> dict[Unit, UnitState]:
    return {unit(hour, cluster): state for hour in hours}


@pytest.mark.parametrize(
    ("hours", "spans"),
    [
        ([3, 4], [(20, 50)]),  # from the boundary before, to the one after
        ([2, 3, 4], [(20, 50)]),
        ([1], [(10, 20)]),
        ([0, 1], [(10, 20)]),
        ([6], [(50, 80)]),
        ([4, 5, 6], [(20, 80)]),  # one spell: what lies within is counted once
        ([3, 6], [(20, 50), (50, 80)]),
        ([-3], [(10, 10)]),  # before the first boundary nothing is known
        ([-1, 0], [(10, 20)]),
        ([9, 10], [(80, 80)]),  # nor is it after the last one
        ([7, 8, 9], [(50, 80)]),
        ([-3, 3, 4, 6, 9], [(10, 10), (20, 50), (50, 80), (80, 80)]),
        ([], []),
    ],
)
def test_offsets_between_the_boundaries_around_missing_hours(hours: list[int], spans: list):
    """Boundaries are stored of hours 0, 2, 5 and 8."""
    boundaries = known(block([0, 2, 5, 8], [10, 20, 50, 80]))
    found = unlanded(Backlog(lost(*reversed(hours))), boundaries)
    assert found == ({("dc1", "t", 0): spans} if spans else {})


def test_each_partition_of_each_topic_has_its_own():
    boundaries = known(
        block([], topic="empty"),
        block([], [], topic="none"),
        block([0, 1, 2], [1, 2, 3], topic="two", uuid="old"),
        block([0, 1, 2], [10, 20, 30], [UNKNOWN, UNKNOWN, 7], topic="two", uuid="new"),
        block([0, 2], [100, 300], topic="t"),
        block([0, 1, 2], [5, 6, 7], cluster="dc2"),
        block([0, 1, 2], [5, 6, 7], cluster="dc3"),
        two=["old", "new"],
    )
    left = lost(1) | lost(0, cluster="dc2") | lost(1, cluster="dc2", state=UnitState.LANDED)
    assert unlanded(Backlog(left | lost(0, 1, cluster="dc3", state=EXPIRED)), boundaries) == {
        ("dc1", "two", 0): [(20, 30)],
        ("dc1", "two", 1): [(3, 7)],
        ("dc1", "t", 0): [(100, 300)],
        ("dc2", "t", 0): [(5, 6)],
        ("dc3", "t", 0): [(5, 7)],
    }
