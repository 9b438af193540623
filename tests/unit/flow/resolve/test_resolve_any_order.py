"""Whatever order hours are resolved in, however resolvers interleave, and whatever arrives meanwhile:
the slices of a partition tile it, and what is stored never changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pendulum
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.pipeline import Pipeline
from sluice.config.types import FromGroup
from sluice.flow.resolve.resolve import resolve
from sluice.manifest import OffsetRange
from sluice.slices import Slice
from sluice.state.boundaries.log import BoundaryLog
from tests.support.fakes import FakeKafka, FakeTopic, MemoryLake

START = pendulum.datetime(2026, 11, 20)
NOW = START.add(hours=30)
HOURS = 8
MINUTE_MS = 60_000


@dataclass
class RacingLake(MemoryLake):
    """Somebody else acts just before an entry is created: the moment in which a race is lost."""

    before_create: list[Callable[[], None]] = field(default_factory=list)

    def create(self, key: str, data: bytes) -> bool:
        if self.before_create:
            self.before_create.pop()()
        return super().create(key, data)


class World:
    def __init__(self) -> None:
        self.topic = FakeTopic("id", {0: []})
        self.kafka = FakeKafka({("dc1", "bids"): self.topic})
        self.lake = RacingLake()
        self.first_seen: dict[tuple[Slice, int], OffsetRange] = {}
        self.pipeline = Pipeline.model_validate(
            {
                "name": "adx",
                "kafka": [{"cluster": "dc1", "bootstrap": "b:1", "topics": ["bids"]}],
                "event": {"type": {"topic": True}, "time": {"record": True}},
                "lake": "file:///lake",
            }
        )

    def resolve(self, hours: list[int]) -> None:
        slices = [Slice(START.add(hours=hour)) for hour in hours]
        resolution = resolve(self.pipeline, self.lake, slices, NOW, self.kafka.topics_of)
        assert resolution.unreachable == {}
        for piece in slices:
            ranges = resolution.boundaries.ranges(piece, "dc1", ["bids"])
            assert ranges is not None
            for r in ranges:
                assert self.first_seen.setdefault((piece, r.partition), r) == r

    def arrive(self, partition: int, minutes: list[int]) -> None:
        stamps = [int(START.timestamp() * 1000) + minute * MINUTE_MS for minute in minutes]
        for missing in range(len(self.topic.records), partition):
            self.topic.records[missing] = []
        self.topic.records.setdefault(partition, []).extend(stamps)

    def expire(self, partition: int, count: int) -> None:
        if partition in self.topic.records:
            start = self.topic.log_starts[partition] + count
            self.topic.starts[partition] = min(start, len(self.topic.records[partition]))


hours = st.lists(st.integers(0, HOURS - 1), min_size=1, max_size=4)
actions = st.one_of(
    st.tuples(st.just("resolve"), hours),
    st.tuples(
        st.just("arrive"),
        st.integers(0, 3),
        st.lists(st.integers(-60, HOURS * 60 + 60) | st.just(10**6), max_size=6),
    ),
    st.tuples(st.just("expire"), st.integers(0, 3), st.integers(1, 4)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(actions, st.lists(actions, max_size=3)), min_size=1, max_size=10))
def test_slices_tile_every_partition(story: list[tuple[tuple, list[tuple]]]):
    it = World()
    for action, races in story:
        it.lake.before_create = [lambda race=race: getattr(it, race[0])(*race[1:]) for race in races]
        getattr(it, action[0])(*action[1:])
    it.lake.before_create = []
    it.resolve(list(range(HOURS)))

    found = BoundaryLog(it.lake).read()
    tiles: dict[int, list[OffsetRange]] = {}
    for hour in range(HOURS):
        for r in found.ranges(Slice(START.add(hours=hour)), "dc1", ["bids"]) or ():
            tiles.setdefault(r.partition, []).append(r)
    assert tiles.keys() <= it.topic.records.keys()
    for partition, ranges in tiles.items():
        assert all(r.start <= r.until for r in ranges)
        assert [r.until for r in ranges[:-1]] == [r.start for r in ranges[1:]]
        assert ranges[0].start >= 0
        assert ranges[-1].until <= len(it.topic.records[partition])


@given(st.permutations(range(HOURS)), st.lists(st.integers(-60, HOURS * 60 + 60), max_size=30))
def test_without_late_records_the_order_makes_no_difference(order: list[int], minutes: list[int]):
    """Then every boundary is the first record at or after its instant, however it was resolved."""
    it = World()
    it.arrive(0, minutes)
    for hour in order:
        it.resolve([hour])
    for hour in range(HOURS):
        edges = [hour * 60, hour * 60 + 60]
        expected = [next((i for i, m in enumerate(minutes) if m >= e), len(minutes)) for e in edges]
        r = it.first_seen[Slice(START.add(hours=hour)), 0]
        assert [r.start, r.until] == expected


@given(st.integers(1, 5), st.integers(1, HOURS - 1), st.lists(st.integers(0, HOURS * 60), max_size=10))
def test_a_partition_that_appears_is_in_the_slices_from_its_start(
    partition: int, resolved_before: int, minutes: list[int]
):
    it = World()
    it.resolve(list(range(resolved_before)))
    it.arrive(partition, minutes)
    it.resolve(list(range(HOURS)))
    pieces = [it.first_seen[key] for key in sorted(it.first_seen) if key[1] == partition]
    assert pieces[0].start == 0
    assert all(later.start == earlier.until for earlier, later in pairwise(pieces))
    assert pieces[-1].until == next((i for i, m in enumerate(minutes) if m >= HOURS * 60), len(minutes))


@given(
    st.permutations(range(HOURS)),
    st.lists(st.integers(0, HOURS * 60), max_size=30).map(sorted),
    st.integers(0, 30),
    st.integers(0, 5),
    st.integers(0, HOURS),
)
def test_a_consumer_group_is_taken_over_where_it_has_stopped(
    order: list[int], minutes: list[int], committed: int, expired: int, forgets: int
):
    """Each record from there on is in one slice, and none before, whatever is resolved first."""
    it = World()
    it.pipeline = it.pipeline.model_copy(update={"start": FromGroup(group="loader")})
    it.arrive(0, minutes)
    committed = min(committed, len(minutes))
    it.expire(0, min(expired, committed))
    it.kafka.groups["dc1", "loader", "bids"] = {0: committed}
    for number, hour in enumerate(order):
        it.resolve([hour])
        if not number:
            it.kafka.groups.clear()  # it is asked once
        if number == forgets:
            it.pipeline = it.pipeline.model_copy(update={"start": None})  # what was taken over stays so
    found = [it.first_seen[Slice(START.add(hours=hour)), 0] for hour in range(HOURS)]
    assert found[0].start == committed
    assert all(later.start == earlier.until for earlier, later in pairwise(found))
    last = next((i for i, m in enumerate(minutes) if m >= HOURS * 60), len(minutes))
    assert found[-1].until == max(committed, last)
    assert all(r.start == r.until for r in found[: order[0]]), "the group has read what lies before"
    for hour in range(order[0] + 1, HOURS):
        begin = next((i for i, m in enumerate(minutes) if m >= hour * 60), len(minutes))
        assert found[hour].start == max(committed, begin)


@given(st.permutations(range(HOURS)), st.lists(st.integers(0, HOURS * 60), max_size=30).map(sorted))
def test_a_group_that_the_file_names_later_takes_nothing_over(order: list[int], minutes: list[int]):
    """Hours before the first one are what Kafka has, and not empty: nobody else has loaded them."""
    it = World()
    it.arrive(0, minutes)
    it.resolve([order[0]])
    it.pipeline = it.pipeline.model_copy(update={"start": FromGroup(group="loader")})
    for hour in order[1:]:
        it.resolve([hour])
    for hour in range(HOURS):
        edges = [hour * 60, hour * 60 + 60]
        expected = [next((i for i, m in enumerate(minutes) if m >= e), len(minutes)) for e in edges]
        r = it.first_seen[Slice(START.add(hours=hour)), 0]
        assert [r.start, r.until] == expected


def test_a_topic_that_comes_to_match_later_is_read_whole():
    """The group that was taken over knows nothing of it: it is not asked, and holds nothing up."""
    it = World()
    cluster = it.pipeline.kafka[0].model_copy(update={"topics": ["b*"]})
    group = FromGroup(group="loader")
    it.pipeline = it.pipeline.model_copy(update={"kafka": [cluster], "start": group})
    it.arrive(0, [30, 90])
    it.kafka.groups["dc1", "loader", "bids"] = {0: 1}
    it.resolve([0])
    it.kafka.groups.clear()
    it.kafka.topics["dc1", "bounces"] = FakeTopic(
        "id2", {0: [int(START.timestamp() * 1000) + 61 * MINUTE_MS]}
    )
    found = resolve(it.pipeline, it.lake, [Slice(START.add(hours=1))], NOW, it.kafka.topics_of)
    assert found.unreachable == {}
    ranges = found.boundaries.ranges(Slice(START.add(hours=1)), "dc1", ["bids", "bounces"])
    assert {r.topic: (r.start, r.until) for r in ranges or ()} == {"bids": (1, 2), "bounces": (0, 1)}
