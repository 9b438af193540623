"""Every offset that Kafka holds is in one slice, or is counted as outside, whatever the records' stamps."""

from __future__ import annotations

from dataclasses import dataclass, field

import pendulum
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.cli.status import Behind, lag_lines
from sluice.flow.resolve.resolve import resolve
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.notes import notes
from sluice.plan.backlog import Backlog
from sluice.slices import Slice, SliceRange, to_ms
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.outside import outside, outside_words
from tests.support.fakes import FakeKafka, FakeTopic, MemoryLake
from tests.unit.flow.resolve.test_resolve_cases import pipeline_of

START = pendulum.datetime(2026, 11, 20)
HOURS = 8
BIDS = ("dc1", "bids")
AHEAD = [3, 5, 24 * 365, 10**9]
"""Hours: within the range, local time as UTC, a year, microseconds as milliseconds."""


def at(hour: float) -> int:
    return to_ms(START) + round(hour * 3600) * 1000


@dataclass
class Log:
    """One topic and its pipeline. `hour` is the wall clock, in hours since START."""

    topic: FakeTopic = field(default_factory=lambda: FakeTopic("id", {0: []}))
    lake: MemoryLake = field(default_factory=MemoryLake)
    hour: float = 0.0

    def resolve(self, *hours: int) -> None:
        spec, kafka = pipeline_of(dc1=["bids"]), FakeKafka({BIDS: self.topic})
        slices = [Slice(START.add(hours=hour)) for hour in hours if hour + 1 <= self.hour]
        now = START.add(seconds=round(self.hour * 3600))
        assert resolve(spec, self.lake, slices, now, kafka.topics_of).unreachable == {}

    def slices(self) -> dict[int, list[int]]:
        """By hour of the whole resolved span the offsets of partition 0; every hour in it is resolved."""
        boundaries = BoundaryLog(self.lake).read()
        span = boundaries.span()
        assert span is not None
        self.resolve(*(round((slice_.start - START).total_hours()) for slice_ in SliceRange(*span)))
        boundaries = BoundaryLog(self.lake).read()
        found = {}
        for slice_ in SliceRange(*span):
            ranges = boundaries.ranges(slice_, *("dc1", ["bids"]))
            assert ranges is not None
            for r in (r for r in ranges if r.partition == 0):
                found[round((slice_.start - START).total_hours())] = list(range(r.start, r.until))
        return found

    def outside(self) -> list[int]:
        parts = outside(BoundaryLog(self.lake).read(), *BIDS, self.topic.log_starts)
        return [offset for part in parts if part.partition == 0 for offset in range(part.start, part.until)]


@pytest.mark.parametrize("ahead", AHEAD)
def test_a_partition_that_begins_with_records_from_the_future_loses_none(ahead):
    """Ten of ten are stamped ahead. The first hour has them, also when it is resolved hour by hour."""
    log = Log(FakeTopic("id", {0: [at(2.5 + ahead)] * 10}), hour=3.1)
    log.resolve(2)
    log.topic.records[0] += [at(3.5 + ahead)] * 4
    log.hour = 4.1
    log.resolve(3)
    assert (log.slices(), log.outside()) == ({2: list(range(10)), 3: [10, 11, 12, 13]}, [])
    log.resolve(0, 1)
    assert (log.slices()[0], log.slices()[2], log.outside()) == ([], list(range(10)), [])


def test_a_record_that_is_stamped_earlier_says_that_those_before_it_are_earlier():
    """Of a year of records one is stamped ahead: the first slice does not begin there."""
    log = Log(
        FakeTopic("id", {0: [at(-900), at(10**9), *[at(-n) for n in range(800, 0, -1)], at(2.5)]}), hour=3.1
    )
    log.resolve(2)
    assert (log.slices(), log.outside()) == ({2: [802]}, list(range(802)))
    log.hour = 4.1
    log.resolve(0, 1)
    assert log.outside() == list(range(802))


def test_what_is_stamped_ahead_behind_the_last_earlier_record_is_in_the_first_slice():
    log = Log(FakeTopic("id", {0: [at(50), at(1.5), at(50), at(50), at(2.5), at(50)]}), hour=3.1)
    log.resolve(2)
    assert (log.slices(), log.outside()) == ({2: [2, 3, 4, 5]}, [0, 1])
    log.resolve(1)
    assert (log.slices(), log.outside()) == ({1: [0, 1], 2: [2, 3, 4, 5]}, [])


def test_what_is_outside_is_said_with_its_place():
    log = Log(FakeTopic("id", {0: [at(0.5)] * 3, 1: [at(1.5)], 2: [at(0.1), at(9)]}), hour=3.1)
    log.resolve(1)
    words = outside_words(outside(BoundaryLog(log.lake).read(), *BIDS))
    assert words.startswith("4 offsets that Kafka holds are outside of every slice")
    assert "dc1/bids/0 [0, 3) before 2026-11-20T01:00Z, and 1 more partitions" in words
    spec, hour = pipeline_of(dc1=["bids"]), SliceRange(START.add(hours=1), START.add(hours=2))
    facts = VerifyFacts(spec, hour, hour.end, BoundaryLog(log.lake).read(), ())
    assert [*notes(facts)] == [f"at most {words}"]
    (line, _) = lag_lines(Behind([], Backlog(), outside=words))
    assert line.text == words
    log.topic.starts[0] = 2
    assert log.outside() == [2]
    assert outside_words(()) == ""


stamps = st.one_of(
    st.floats(-3, HOURS + 1, allow_nan=False).map(at),
    st.sampled_from(AHEAD).map(lambda ahead: at(HOURS + ahead)),
    st.sampled_from([-1, -(1 << 63), (1 << 63) - 1, at(0.5) * 1000]),
)
acts = st.one_of(
    st.tuples(st.just("resolve"), st.lists(st.integers(-3, HOURS), min_size=1, max_size=5)),
    st.tuples(st.just("arrive"), st.lists(stamps, min_size=1, max_size=6)),
    st.tuples(st.just("wait"), st.floats(0.1, 2, allow_nan=False)),
    st.tuples(st.just("expire"), st.integers(1, 3)),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(acts, max_size=14))
def test_every_offset_is_in_one_slice_or_counted_as_outside(story):
    log = Log(hour=1.0)
    for act, value in story:
        if act == "resolve":
            log.resolve(*value)
        elif act == "arrive":
            log.topic.records[0] += value
        elif act == "wait":
            log.hour = min(log.hour + value, HOURS + 1)
        else:
            left = log.topic.log_starts[0] + value
            log.topic.starts[0] = min(left, len(log.topic.records[0]))
    log.hour = HOURS + 1.1
    log.resolve(HOURS)
    slices = log.slices()
    in_slices = [offset for hour in sorted(slices) for offset in slices[hour]]
    boundaries = BoundaryLog(log.lake).read().stored(*BIDS)
    assert boundaries is not None
    first, last = boundaries.columns[0].offset(0), boundaries.columns[0].offset(len(boundaries.instants) - 1)
    assert in_slices == list(range(first, last))
    assert log.outside() == list(range(log.topic.log_starts[0], first))


@settings(max_examples=100, deadline=None)
@given(st.lists(stamps, min_size=1, max_size=12), st.lists(st.permutations(range(-4, HOURS)), max_size=1))
def test_a_range_that_begins_before_all_stamps_leaves_nothing_outside(records, orders):
    """A stamp before 1970 is that of no instant, and no hour begins before it."""
    log = Log(FakeTopic("id", {0: records}), hour=HOURS + 0.1)
    for hour in orders[0] if orders else ():
        log.resolve(hour)
    log.resolve(*range(-4, HOURS))
    dated = next((n for n, stamp in enumerate(records) if stamp >= 0), len(records))
    assert log.outside() == list(range(dated))
