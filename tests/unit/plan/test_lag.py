"""The lag counts every offset that Kafka holds and no landed slice has, whatever has happened."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import pendulum
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.flow.resolve.resolve import accept_topic, resolve
from sluice.manifest import Manifest
from sluice.plan.lag import PartitionLag, ask_topics, lag_of, older_unread
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.months import note
from sluice.state.status import UnitStatus, statuses
from tests.support.fakes import FakeKafka, FakeTopic, MemoryLake
from tests.support.manifests import made_manifest
from tests.unit.flow.resolve.test_resolve_every_offset import START, at


@dataclass
class World:
    """Topics of one cluster, and hours that land as `land` says: with the topics of the file at that time."""

    kafka: FakeKafka = field(default_factory=lambda: FakeKafka({("dc1", "a"): FakeTopic("a1", {0: []})}))
    lake: MemoryLake = field(default_factory=MemoryLake)
    topics: list[str] = field(default_factory=lambda: ["a"])
    manifests: dict[Unit, Manifest] = field(default_factory=dict)
    hour: int = 0
    start: int | None = None

    @property
    def spec(self) -> Pipeline:
        return Pipeline.model_validate(
            {
                "name": "p",
                "kafka": [{"cluster": "dc1", "bootstrap": "b:1", "topics": self.topics}],
                "event": {"type": {"topic": True}, "time": {"record": True}},
                "lake": "file:///lake",
                **({} if self.start is None else {"start": START.add(hours=self.start).isoformat()}),
            }
        )

    @property
    def now(self) -> pendulum.DateTime:
        return START.add(hours=self.hour, minutes=1)

    def send(self, topic: str, hour: float, count: int) -> None:
        self.kafka.topics["dc1", topic].records[0] += [at(hour)] * count

    def land(self, *hours: int) -> None:
        slices = [Slice(START.add(hours=hour)) for hour in hours if hour < self.hour]
        found = resolve(self.spec, self.lake, slices, self.now, self.kafka.topics_of)
        if found.unreachable:
            return
        for slice_ in slices:
            unit = Unit(slice_, "dc1")
            ranges = found.boundaries.ranges(slice_, "dc1", self.topics) or ()
            self.manifests.setdefault(
                unit, made_manifest("p", slice_.id, "dc1", 1, "x", ranges, (), (), 0, {}, 0)
            )
        note(self.lake, self.statuses(0))

    def accept(self, topic: str) -> None:
        since = START.add(hours=self.hour)
        accept_topic(self.spec, self.lake, "dc1", topic, since, self.now, self.kafka.topics_of)

    def statuses(self, first: int) -> list[UnitStatus]:
        units = [
            Unit(slice_, "dc1")
            for slice_ in SliceRange(START.add(hours=first), START.add(hours=self.hour + 1))
        ]
        landed = {unit: manifest for unit, manifest in self.manifests.items() if unit in units}
        return statuses(self.spec, units, BoundaryLog(self.lake).read(), landed, {}, self.now)

    def lag(self, newest: int = 2) -> dict[str, PartitionLag]:
        """By topic, as command, page and watch ask for it: the last hours in full, others by summaries."""
        boundaries = BoundaryLog(self.lake).read()
        found = self.statuses(max(self.hour - newest, 0))
        older = older_unread(self.spec, self.lake, found[0].unit.slice.start, boundaries)
        lag = lag_of(
            found, *ask_topics(self.spec, boundaries, self.kafka.topics_of), self.now, boundaries, older
        )
        return {p.topic: p for p in lag.partitions}

    def unread(self, topic: str) -> tuple[int, int]:
        """Counts offset by offset what no manifest has: from the first boundary on, and before it."""
        state = self.kafka.topics["dc1", topic]
        landed = {
            offset
            for manifest in self.manifests.values()
            for r in manifest.ranges
            if r.uuid == state.uuid
            for offset in range(r.start, r.until)
        }
        stored = BoundaryLog(self.lake).read().stored("dc1", topic)
        known = stored is not None and stored.uuid == state.uuid and len(stored.instants)
        first = stored.columns[0].offset(0) if stored is not None and known else 0
        unread = [o for o in range(state.log_starts[0], len(state.records[0])) if o not in landed]
        return sum(o >= first for o in unread), sum(o < first for o in unread)


def test_records_of_an_accepted_topic_wait():
    """1,000 of the old topic have landed; the new one has 300."""
    world = World(hour=2)
    world.send("a", 0.5, 1000)
    world.land(0, 1)
    world.kafka.topics["dc1", "a"] = FakeTopic("a2", {0: [at(2.5)] * 300})
    assert world.lag()["a"].records == 300
    world.accept("a")
    part = world.lag()["a"]
    assert (part.records, part.landed_until, part.seconds) == (300, None, None)
    world.hour = 3
    world.land(2)
    assert world.lag()["a"].records == 0


def test_records_of_a_topic_that_was_added_later_wait():
    """Six hours have landed without it. It has 500 records in each, and 200 from before the first one."""
    world = World(hour=6)
    world.kafka.topics["dc1", "b"] = FakeTopic(
        "b1", {0: [at(-5)] * 200 + [at(h + 0.5) for h in range(6) for _ in range(500)]}
    )
    world.send("a", 0.5, 10)
    world.land(*range(6))
    world.topics = ["a", "b"]
    assert world.lag()["b"].records == 3200
    world.land(*range(6))
    for newest in (2, 6):
        part = world.lag(newest)["b"]
        assert (part.records, part.lacking, part.outside) == (3000, 3000, 200)
        assert (world.lag(newest)["a"].records, world.lag(newest)["a"].lacking) == (0, 0)


def test_hours_before_a_start_that_was_set_later_wait_as_well():
    """Hours 0 and 1 are resolved and not landed; then the file begins with hour 2."""
    world = World(hour=6)
    for hour in range(6):
        world.send("a", hour + 0.5, 10)
    resolve(
        world.spec, world.lake, [Slice(START), Slice(START.add(hours=1))], world.now, world.kafka.topics_of
    )
    world.land(*range(2, 6))
    world.start = 2
    assert (world.lag()["a"].records, world.lag(6)["a"].records) == (20, 20)


acts = st.one_of(
    st.tuples(st.just("send"), st.sampled_from("ab"), st.integers(-30, 90)),
    st.tuples(st.just("land"), st.lists(st.integers(0, 9), min_size=1, max_size=4), st.none()),
    st.tuples(st.just("topics"), st.sampled_from([["a"], ["a", "b"], ["b"]]), st.none()),
    st.tuples(st.just("recreate"), st.sampled_from("ab"), st.none()),
    st.tuples(st.just("expire"), st.sampled_from("ab"), st.integers(1, 3)),
    st.tuples(st.just("accept"), st.sampled_from("ab"), st.none()),
    st.tuples(st.just("start"), st.integers(0, 9) | st.none(), st.none()),
    st.tuples(st.just("wait"), st.none(), st.none()),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(acts, max_size=20), st.integers(1, 11))
def test_every_unread_offset_is_counted(story, newest):
    world = World(hour=3)
    world.kafka.topics["dc1", "b"] = FakeTopic("b1", {0: []})
    for act, value, more in story:
        topic = world.kafka.topics.get(("dc1", value)) if isinstance(value, str) else None
        if act == "send":
            world.send(value, more / 10, 3)
        elif act == "land":
            world.land(*value)
        elif act == "topics":
            world.topics = value
        elif act == "start":
            world.start = value
        elif act == "wait":
            world.hour = min(world.hour + 1, 9)
        elif act == "expire" and topic is not None:
            topic.starts[0] = min(topic.log_starts[0] + more, len(topic.records[0]))
        elif act == "accept" and value in world.topics:
            with suppress(WrongUse):  # it was not recreated, or a later slice has landed
                world.accept(value)
        elif act == "recreate" and topic is not None:
            world.kafka.topics["dc1", value] = FakeTopic(topic.uuid + "x", {0: []})
    world.hour = 9
    lag = world.lag(newest)
    assert {topic: (part.records, part.outside) for topic, part in lag.items()} == {
        topic: world.unread(topic) for topic in world.topics
    }
