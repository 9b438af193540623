"""A topic leaves the pipeline file and comes back, or goes from Kafka; hours are landed, again, and remade.

In any order the lake holds what a plain model says, and no landed record is lost.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sluice.config.pipeline import Pipeline
from sluice.errors import RecordsExpired
from sluice.slices import Slice, SliceRange, Unit, to_ms
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.manifests import read_manifests
from sluice.state.status import statuses
from sluice.state.units import units_of
from tests.support.fakes import MemoryLake
from tests.support.landing_world import NOW, START, World, pipeline, rows_in

KEPT, OTHER = ("dc1", "kept"), ("dc1", "other")
HOURS = 8
hour_numbers = st.integers(0, HOURS - 1)


def hour(number: int) -> Slice:
    return Slice(START.add(hours=number))


class Topics(RuleBasedStateMachine):
    """`held`: by hour the records, as (topic, offset), that the lake has to hold. `known`: the edges of hours
    at which each topic has a boundary."""

    def __init__(self) -> None:
        super().__init__()
        self.world, self.lake = World({KEPT: [[]], OTHER: [[]]}), MemoryLake()
        self.named, self.now, self.tokens = True, 0, 0
        self.sent: dict[int, Counter[str]] = {n: Counter() for n in range(HOURS)}
        self.held: dict[int, set[tuple[str, int]]] = {}
        self.landed_of: dict[int, set[str]] = {}
        self.known: dict[str, set[int]] = {"kept": set(), "other": set()}
        self.gone = False

    @property
    def spec(self) -> Pipeline:
        topics = ["kept", "other"] if self.named else ["kept"]
        return pipeline(kafka=[{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": topics}])

    def records(self, number: int) -> set[tuple[str, int]]:
        """What each topic got in the hour: offsets go on from hour to hour."""
        found = set()
        for topic in ("kept", "other"):
            before = sum(self.sent[n][topic] for n in range(number))
            found |= {(topic, before + n) for n in range(self.sent[number][topic])}
        return found

    @precondition(lambda self: self.now < HOURS)
    @rule(topic=st.sampled_from(["kept", "other"]), count=st.integers(1, 3))
    def send(self, topic: str, count: int) -> None:
        if topic == "other" and self.gone:
            return
        at = START.add(hours=self.now, minutes=30)
        for _ in range(count):
            self.world.logs["dc1", topic][0].append(
                (f'{{"type":"click","at":"{at.isoformat()}"}}'.encode(), to_ms(at))
            )
            self.world.kafka.topics["dc1", topic].records[0].append(to_ms(at))
        self.sent[self.now][topic] += count

    @precondition(lambda self: self.now < HOURS)
    @rule()
    def an_hour_passes(self) -> None:
        self.now += 1

    @rule()
    def the_file_names_the_topic_or_not(self) -> None:
        if not self.gone:
            self.named = not self.named

    @precondition(lambda self: not self.named)
    @rule()
    def the_topic_goes(self) -> None:
        """Nobody reads a topic any more that the file does not name: it may be deleted."""
        self.world.kafka.topics.pop(OTHER, None)
        self.gone = True

    def resolve(self, number: int) -> None:
        self.world.resolve(self.spec, self.lake, SliceRange(hour(number).start, hour(number).end))
        for topic in ("kept", "other") if self.named else ("kept",):
            self.known[topic] |= {number, number + 1}
        if self.named:
            self.known["other"] |= {at for at in self.known["kept"] if at > min(self.known["other"])}
            self.known["kept"] |= {at for at in self.known["other"] if at > min(self.known["kept"])}

    def land(self, number: int, mode: str) -> None:
        self.tokens += 1
        one = SliceRange(hour(number).start, hour(number).end)
        self.world.land(self.spec, self.lake, one, mode, f"t{self.tokens}")

    @precondition(lambda self: self.now > 0)
    @rule(number=hour_numbers)
    def fill(self, number: int) -> None:
        number %= self.now
        self.resolve(number)
        self.land(number, "fill")
        if number not in self.held:
            topics = {"kept", "other"} if self.named else {"kept"}
            self.held[number] = {record for record in self.records(number) if record[0] in topics}
            self.landed_of[number] = topics

    @precondition(lambda self: self.held)
    @rule(number=hour_numbers)
    def reland(self, number: int) -> None:
        number = sorted(self.held)[number % len(self.held)]
        self.resolve(number)
        if self.gone and any(topic == "other" for topic, _ in self.held[number]):
            with pytest.raises(RecordsExpired, match="the topic is gone.*--mode remake"):
                self.land(number, "reland")
            return
        self.land(number, "reland")
        self.landed_of[number] |= {"kept", "other"} if self.named else {"kept"}
        self.held[number] = {record for record in self.records(number) if record[0] in self.landed_of[number]}

    @precondition(lambda self: self.held)
    @rule(number=hour_numbers)
    def remake(self, number: int) -> None:
        self.land(sorted(self.held)[number % len(self.held)], "remake")

    @invariant()
    def the_lake_holds_what_landed(self) -> None:
        manifests = read_manifests(self.lake, [Unit(hour(n), "dc1") for n in range(HOURS)])
        for number in range(HOURS):
            manifest = manifests.get(Unit(hour(number), "dc1"))
            rows = [] if manifest is None else [(row[2], row[4]) for row in rows_in(self.lake, [manifest])]
            assert sorted(rows) == sorted(self.held.get(number, ()))

    @invariant()
    def what_hours_lack_is_said(self) -> None:
        boundaries = BoundaryLog(self.lake).read()
        units = units_of(self.spec, SliceRange(START, START.add(hours=HOURS)), boundaries)
        manifests = read_manifests(self.lake, units)
        found = {
            (status.unit.slice.start - START).in_hours(): lacking.offsets
            for status in statuses(self.spec, units, boundaries, manifests, {}, NOW)
            for lacking in status.lacking
        }
        assert found == {number: count for number in self.held if (count := self.lacking(number)) != 0}

    def lacking(self, number: int) -> int | None:
        """None: the hour was never asked for of the topic."""
        if not self.named or "other" in self.landed_of[number]:
            return 0
        return self.sent[number]["other"] if {number, number + 1} <= self.known["other"] else None


Topics.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
test_topics_any_order = Topics.TestCase
