"""Topics that match a pattern come, go and come again, while hours are resolved and landed in any order.

Every record that Kafka has in the end is in exactly one hour, and no record is in two.
"""

from __future__ import annotations

import json
from collections import Counter

import pendulum
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.pipeline import Pipeline
from sluice.errors import TopicRecreated
from sluice.flow.resolve.resolve import Resolution, accept_topic, resolve
from sluice.slices import Slice, SliceRange, Unit, to_ms
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.manifests import read_manifests
from sluice.state.units import slice_topics
from tests.support.fakes import FakeTopic, MemoryLake
from tests.support.landing_world import NOW, START, World, pipeline, rows_in

HOURS = 7
NAMES = ["orders.a", "orders.b", "orders.c"]


def hour(number: int) -> Slice:
    return Slice(START.add(hours=number))


class Matching:
    """`there`: by topic the ids of its records, now. `orders.kept` is there all the time; `other` matches
    nothing. `seen`: by hour the topics that it had when it was resolved."""

    def __init__(self) -> None:
        kept, other = ("dc1", "orders.kept"), ("dc1", "other")
        self.world, self.lake = World({kept: [[]], other: [[(b"{}", to_ms(START))]]}), MemoryLake()
        self.there: dict[str, list[int]] = {"orders.kept": []}
        self.now = self.ids = self.made = self.tokens = 0
        self.seen: dict[int, set[str]] = {}

    @property
    def spec(self) -> Pipeline:
        cluster = {"cluster": "dc1", "bootstrap": "nowhere:1", "topics": ["orders.*"]}
        return pipeline(kafka=[cluster], on_expired="land_rest")

    def a_topic_comes_or_goes(self, name: str) -> None:
        if name in self.there:
            del self.there[name], self.world.kafka.topics["dc1", name]
            return
        self.made += 1
        self.there[name] = []
        self.world.logs["dc1", name] = [[]]
        self.world.kafka.topics["dc1", name] = FakeTopic(f"id-{self.made}", {0: []})

    def send(self, number: int, late: int, count: int) -> None:
        """`late`: so many hours before now is its time, also before the topic came."""
        name = sorted(self.there)[number % len(self.there)]
        at = START.add(hours=max(0, self.now - late), minutes=30)
        for _ in range(count):
            self.ids += 1
            value = json.dumps({"type": "click", "at": at.isoformat(), "id": self.ids}).encode()
            self.world.logs["dc1", name][0].append((value, to_ms(at)))
            self.world.kafka.topics["dc1", name].records[0].append(to_ms(at))
            self.there[name].append(self.ids)

    def an_hour_passes(self) -> None:
        self.now = min(HOURS, self.now + 1)

    def resolve(self, *numbers: int) -> Resolution:
        slices = [hour(number) for number in numbers]
        resolution = resolve(self.spec, self.lake, slices, NOW, self.world.topics_of)
        while error := resolution.unreachable.get("dc1"):
            assert isinstance(error, TopicRecreated)
            since = pendulum.parse(error.accept.split()[-1])  # of the command that it prints
            accept_topic(self.spec, self.lake, "dc1", error.topic, since, NOW, self.world.topics_of)
            resolution = resolve(self.spec, self.lake, slices, NOW, self.world.topics_of)
        return resolution

    def bring(self, number: int, mode: str = "fill") -> None:
        self.tokens += 1
        self.resolve(number)
        one = SliceRange(hour(number).start, hour(number).end)
        self.world.land(self.spec, self.lake, one, mode, f"t{self.tokens}")

    def fill(self, number: int) -> None:
        if self.now:
            self.bring(number % self.now)

    def resolve_alone(self, number: int) -> None:
        if self.now:
            self.resolve(number % self.now)

    def landed(self) -> Counter[int]:
        units = [Unit(hour(n), "dc1") for n in range(HOURS + 1)]
        manifests = list(read_manifests(self.lake, units).values())
        return Counter(json.loads(row[5])["id"] for row in rows_in(self.lake, manifests))

    def nothing_is_twice(self) -> None:
        assert set(self.landed().values()) <= {1}

    def an_hour_keeps_its_topics(self) -> None:
        boundaries, [cluster] = BoundaryLog(self.lake).read(), self.spec.kafka
        for number in range(self.now):
            if boundaries.lists("dc1", int(hour(number).start.timestamp())):
                topics = {
                    r.topic
                    for r in boundaries.ranges(
                        hour(number), "dc1", slice_topics(cluster, hour(number), boundaries)
                    )
                    or ()
                    if r.offsets
                }
                assert self.seen.setdefault(number, topics) == topics

    def finish(self) -> None:
        self.now += 1
        for number in range(self.now):
            self.bring(number)
        landed = self.landed()
        assert {one for ids in self.there.values() for one in ids} <= landed.keys()
        self.nothing_is_twice()


hour_numbers = st.integers(0, HOURS - 1)
STEPS = st.one_of(
    st.tuples(st.just("a_topic_comes_or_goes"), st.sampled_from(NAMES)),
    st.tuples(st.just("send"), st.integers(0, len(NAMES)), st.integers(0, 3), st.integers(1, 2)),
    st.tuples(st.just("an_hour_passes")),
    st.tuples(st.just("fill"), hour_numbers),
    st.tuples(st.just("resolve_alone"), hour_numbers),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, min_size=15, max_size=40))
def test_every_record_is_in_one_hour(steps: list[tuple]):
    world = Matching()
    for name, *arguments in steps:
        getattr(world, name)(*arguments)
        world.an_hour_keeps_its_topics()
    world.nothing_is_twice()
    world.finish()
