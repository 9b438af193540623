from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pendulum
import pytest

from sluice.clients.kafka.topic_facts import kept_ms, kept_since
from sluice.clients.lake import layout
from sluice.config.pipeline import Pipeline
from sluice.errors import (
    EndInFuture,
    KafkaUnavailable,
    PartitionMissing,
    TopicRecreated,
    UnknownTopic,
    WrongUse,
)
from sluice.flow.resolve.lookup import FutureStamped, cuts
from sluice.flow.resolve.resolve import Resolution, accept_topic, resolve, retained_losses
from sluice.manifest import Loss, OffsetRange, encode
from sluice.slices import Slice, Unit, to_ms
from sluice.state.boundaries.boundary import FoundBy
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.retention import last_seen, left_behind
from tests.support.fakes import FakeKafka, FakeTopic, MemoryLake
from tests.support.manifests import made_manifest

TEN = pendulum.datetime(2026, 11, 20, 10)
NOON = TEN.add(hours=2)


def ms(hour: int, minute: int = 0) -> int:
    return int(TEN.add(hours=hour - 10, minutes=minute).timestamp() * 1000)


def slice_at(hour: int) -> Slice:
    return Slice(TEN.add(hours=hour - 10))


def pipeline_of(**clusters: list[str]) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "adx",
            "kafka": [{"cluster": c, "bootstrap": f"{c}:9092", "topics": t} for c, t in clusters.items()],
            "event": {"type": {"topic": True}, "time": {"record": True}},
            "lake": "file:///lake",
        }
    )


@dataclass
class World:
    """One topic `bids` of cluster `dc1`, and the lake."""

    topic: FakeTopic
    lake: MemoryLake = field(default_factory=MemoryLake)
    now: pendulum.DateTime = NOON
    pipeline: Pipeline = field(default_factory=lambda: pipeline_of(dc1=["bids"]))

    def __post_init__(self) -> None:
        self.kafka = FakeKafka({("dc1", "bids"): self.topic})

    def resolve(self, *hours: int) -> Resolution:
        slices = [slice_at(hour) for hour in hours]
        return resolve(self.pipeline, self.lake, slices, self.now, self.kafka.topics_of)

    def resolved(self, *hours: int) -> Resolution:
        resolution = self.resolve(*hours)
        assert resolution.unreachable == {}
        return resolution

    def edges(self, hour: int, partition: int = 0) -> tuple[int, int]:
        found = BoundaryLog(self.lake).read().ranges(slice_at(hour), "dc1", ["bids"])
        assert found is not None
        return next((r.start, r.until) for r in found if r.partition == partition)


def world(*partitions: list[int], **options) -> World:
    return World(FakeTopic("id", dict(enumerate(partitions))), **options)


def test_a_slice_is_what_lies_between_its_boundaries():
    it = world([ms(9, 50), ms(10, 0), ms(10, 59), ms(11, 0)], [])
    it.resolved(10)
    assert it.edges(10) == (1, 3)
    assert it.edges(10, 1) == (0, 0)


def test_only_what_is_missing_is_asked_and_stored():
    it = world([ms(10), ms(11)])
    it.resolved(10, 9)
    assert len(it.lake.objects) == 1
    it.kafka.silent.add("dc1")
    it.resolved(10, 9)
    assert len(it.lake.objects) == 1


def test_a_late_record_is_in_a_later_slice():
    it = world([ms(10, 1)])
    it.resolved(10)
    it.topic.records[0] += [ms(10, 30), ms(11, 5), ms(12, 5)]
    it.now = NOON.add(hours=1)
    it.resolved(11, 12)
    assert (it.edges(10), it.edges(11), it.edges(12)) == ((0, 1), (1, 3), (3, 4))


def test_records_that_arrive_while_kafka_is_asked_are_in_the_slice_after():
    it = world([ms(10, 1)])
    it.kafka.during = lambda: it.topic.records[0].append(ms(10, 59))
    it.resolved(10)
    it.kafka.during = lambda: None
    it.topic.records[0].append(ms(12))
    it.resolved(11)
    assert (it.edges(10), it.edges(11)) == ((0, 1), (1, 2))


def test_a_new_partition_is_taken_from_its_start():
    it = world([ms(10, 1), ms(11, 1)])
    it.resolved(9)
    it.topic.records[1] = [ms(9, 30), ms(10, 30), ms(11, 30)]
    it.resolved(10)
    assert it.edges(10, 1) == (0, 2)
    it.resolved(8)
    found = BoundaryLog(it.lake).read().ranges(slice_at(8), "dc1", ["bids"])
    assert found == (OffsetRange("bids", "id", 0, 0, 0), OffsetRange("bids", "id", 1, 0, 0))


def test_an_hour_that_expired_is_marked_and_its_neighbour_is_not():
    it = world([ms(9, 1), ms(9, 2), ms(10, 1), ms(11, 1)])
    it.topic.starts[0] = 2
    found = it.resolved(9, 10).boundaries
    assert found.expired(slice_at(9), "dc1", ["bids"]) == (Loss("bids", 0, 0, 2, exact=False),)
    assert found.expired(slice_at(10), "dc1", ["bids"]) == (Loss("bids", 0, 0, 2, exact=False),)
    assert it.edges(10) == (2, 3)


def test_when_the_log_start_passes_a_stored_boundary_the_loss_is_exact():
    it = world([ms(9, 1), ms(10, 1), ms(10, 2), ms(11, 1)])
    found = it.resolved(9, 10).boundaries
    it.topic.starts[0] = 2
    units = [Unit(slice_at(hour), "dc1") for hour in (9, 10)]
    assert retained_losses(it.pipeline, found, units, it.kafka.topics_of) == {
        units[0]: (Loss("bids", 0, 0, 1, exact=True),),
        units[1]: (Loss("bids", 0, 1, 2, exact=True),),
    }


def test_a_record_from_the_future_does_not_pin_later_hours():
    future = ms(10) + 10**10
    it = world([ms(9, 1), future, ms(9, 2), ms(10, 3), future, ms(11, 4)], [ms(10, 1)])
    resolution = it.resolved(9, 10)
    assert (it.edges(9), it.edges(10)) == ((0, 3), (3, 5))
    assert resolution.future == (FutureStamped("dc1", "bids", 0, 1, future),)
    assert it.kafka.scanned == [(1, 6)]
    boundary = resolution.boundaries.offsets("dc1", "bids", TEN)
    assert boundary is not None
    assert boundary.partitions[0].found_by is FoundBy.SCAN
    it.topic.records[0] += [ms(11, 5), ms(12, 5)]
    it.now = NOON.add(hours=1)
    it.resolved(11)
    assert it.edges(11) == (5, 7)
    assert it.kafka.scanned[1:] == [(5, 8)]


def test_one_pass_finds_every_instant():
    records = [(3, 10), (4, 99), (6, 30), (7, 5), (9, 50)]
    wanted = [(0, instant) for instant in (5, 10, 11, 30, 31, 60)]
    assert cuts(records, wanted, end=12, limit=60) == [3, 3, 6, 6, 9, 12]
    assert cuts(records, [(4, 5), (4, 10), (8, 11)], end=12, limit=60) == [6, 6, 9]


def test_a_topic_that_comes_back_is_resolved_at_the_edges_between():
    """The file named `wins` for hour 8, not for 9 and 10, and names it again: what it got meanwhile lies
    between the edges of the hours in which it came."""
    both, it = pipeline_of(dc1=["bids", "wins"]), world([ms(9, 1)])
    stamps = [ms(8, 5), ms(9, 5), ms(9, 6), ms(10, 5), ms(11, 5)]
    it.kafka.topics["dc1", "wins"] = FakeTopic("w", {0: stamps})
    alone, it.pipeline = it.pipeline, both
    it.resolved(8)
    it.pipeline = alone
    it.resolved(9, 10)
    it.pipeline = both
    it.resolved(11)
    boundaries = BoundaryLog(it.lake).read()
    ranges = [boundaries.ranges(slice_at(hour), "dc1", ["wins"]) for hour in (7, 8, 9, 10, 11)]
    assert [[(r.start, r.until) for r in rs] if rs else rs for rs in ranges] == [
        None,  # nobody asked for it
        [(0, 1)],
        [(1, 3)],
        [(3, 4)],
        [(4, 5)],
    ]


def test_each_wrong_is_its_own_error():
    it = world([ms(10)])
    with pytest.raises(EndInFuture, match="2026-11-20T13:00Z is not over yet"):
        it.resolve(12)
    it.resolved(10)
    it.pipeline = it.pipeline.model_copy(update={"slice": timedelta(minutes=15)})
    with pytest.raises(WrongUse, match="`slice` is 15m.*fixed the length at 1h"):
        it.resolve(10)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda it: it.kafka.topics.clear(), UnknownTopic),
        (lambda it: it.kafka.silent.add("dc1"), KafkaUnavailable),
        (lambda it: setattr(it.topic, "uuid", "other"), TopicRecreated),
        (lambda it: it.topic.records.pop(1), PartitionMissing),
    ],
)
def test_what_a_cluster_says_no_to(change: Callable[[World], object], error: type[Exception]):
    it = world([ms(10)], [ms(10)])
    it.resolved(10)
    change(it)
    resolution = it.resolve(9)
    assert isinstance(resolution.unreachable["dc1"], error)
    assert len(it.lake.objects) == 1


def test_a_topic_made_again_between_two_questions():
    it = world([ms(10)])
    it.kafka.during = lambda: setattr(it.topic, "uuid", "other")
    assert isinstance(it.resolve(10).unreachable["dc1"], TopicRecreated)
    assert it.lake.objects == {}


def test_one_silent_cluster_does_not_hold_up_the_others():
    it = world([ms(10)])
    it.pipeline = pipeline_of(dc1=["bids"], dc2=["bids"], dc3=["bids", "clicks"])
    it.kafka.topics["dc3", "clicks"] = FakeTopic("c", {0: [ms(10, 1), ms(10, 2)]})
    it.kafka.silent.add("dc2")
    resolution = it.resolve(10)
    assert {c: type(e) for c, e in resolution.unreachable.items()} == {
        "dc2": KafkaUnavailable,
        "dc3": UnknownTopic,
    }
    assert resolution.boundaries.ranges(slice_at(10), "dc1", ["bids"]) is not None
    assert resolution.boundaries.ranges(slice_at(10), "dc2", ["bids"]) is None
    clicks = resolution.boundaries.ranges(slice_at(10), "dc3", ["clicks"])
    assert clicks == (OffsetRange("clicks", "c", 0, 0, 2),)
    it.kafka.silent.clear()
    it.kafka.topics["dc2", "bids"] = it.kafka.topics["dc3", "bids"] = it.topic
    later = it.resolved(10).boundaries
    assert later.ranges(slice_at(10), "dc1", ["bids"]) == resolution.boundaries.ranges(
        slice_at(10), "dc1", ["bids"]
    )
    assert later.ranges(slice_at(10), "dc3", ["bids", "clicks"]) is not None


def test_a_topic_made_again_is_accepted_from_an_instant_on():
    it = world([ms(9, 1), ms(10, 1), ms(11, 1)])
    it.resolved(9, 10)
    it.topic.uuid = "other"
    it.topic.records[0] = [ms(10, 5), ms(11, 5), ms(12, 5)]
    assert "dc1" in it.resolve(11).unreachable

    def accept(since: pendulum.DateTime) -> None:
        accept_topic(it.pipeline, it.lake, "dc1", "bids", since, it.now, it.kafka.topics_of)

    with pytest.raises(WrongUse, match="edge"):
        accept(TEN.add(minutes=1))
    assert left_behind(BoundaryLog(it.lake).read(), "dc1", "bids") == ()
    accept(TEN)
    # Hour 10 was resolved in the old topic, and had not landed.
    assert left_behind(BoundaryLog(it.lake).read(), "dc1", "bids") == (Loss("bids", 0, 1, 2, exact=True),)
    it.resolved(9, 10, 11)
    assert (it.edges(9), it.edges(10), it.edges(11)) == ((0, 1), (0, 1), (1, 2))
    with pytest.raises(WrongUse, match="was not recreated"):
        accept(TEN)
    found = BoundaryLog(it.lake).read()
    units = [Unit(slice_at(hour), "dc1") for hour in (9, 10)]
    assert retained_losses(it.pipeline, found, units, it.kafka.topics_of) == {
        units[0]: (Loss("bids", 0, 0, 1, exact=True),)
    }


def test_what_waits_behind_an_open_transaction_at_the_end_of_an_hour_is_told():
    """Offsets 0 and 1 are in hour 10; the transaction that is open begins at offset 2, in hour 10, too."""
    it = world([ms(10), ms(10, 30), ms(10, 40), ms(11, 20), ms(11, 30)])
    it.topic.stable[0] = 2
    resolution = it.resolve(10)
    assert it.edges(10) == (0, 2)
    (held,) = resolution.held
    assert (held.cluster, held.topic, held.partition, held.offset, held.count) == ("dc1", "bids", 0, 2, 3)
    assert str(held).startswith("3 offsets of dc1/bids/0 wait behind an open transaction")
    it.topic.stable.clear()
    assert it.resolve(11).held == ()
    assert it.edges(11) == (2, 5)


DAY_MS = 86_400_000


def test_an_idle_partition_whose_old_records_went_by_age_has_lost_nothing_of_new_hours():
    """Kept for a day; five records of a month ago are gone, and the partition has been empty since. Its
    sibling is alive. It is noon; with an hour for the clocks, hours from 13:00 yesterday on are whole."""
    it = world([ms(-700)] * 5, [ms(9), ms(10, 30), ms(11, 30)])
    it.topic.starts[0], it.topic.kept_ms = 5, DAY_MS
    hours = [-12, -11, 10, 11]
    it.resolved(*hours)
    boundaries = BoundaryLog(it.lake).read()
    lost = {hour: boundaries.expired(slice_at(hour), "dc1", ["bids"]) for hour in hours}
    assert lost == {-12: (Loss("bids", 0, 0, 5, exact=False),), -11: (), 10: (), 11: ()}
    assert [it.edges(hour) for hour in hours] == [(5, 5)] * 4
    assert [it.edges(hour, 1) for hour in hours] == [(0, 0), (0, 0), (1, 2), (2, 3)]


def test_without_a_known_age_any_hour_may_have_had_what_is_gone():
    it = world([ms(-700)] * 5)
    it.topic.starts[0] = 5
    it.resolved(10)
    lost = BoundaryLog(it.lake).read().expired(slice_at(10), "dc1", ["bids"])
    assert lost == (Loss("bids", 0, 0, 5, exact=False),)


def test_what_was_purged_after_a_boundary_was_stored_is_lost_to_the_hour_that_follows_it():
    """Hour 9 is resolved and ends at offset 2. Then somebody deletes offsets 2 and 3, however young they are:
    whatever the age says, the lost range is told, once."""
    it = world([ms(9), ms(9, 30), ms(10, 10), ms(11, 10), ms(11, 30)])
    it.resolved(9)
    it.topic.starts[0], it.topic.kept_ms = 4, 30 * DAY_MS
    it.resolved(10, 11)
    assert (it.edges(10), it.edges(11)) == ((2, 4), (4, 5))
    units = [Unit(slice_at(hour), "dc1") for hour in (9, 10, 11)]
    lost = retained_losses(it.pipeline, BoundaryLog(it.lake).read(), units, it.kafka.topics_of)
    assert lost[units[1]] == (Loss("bids", 0, 2, 4, exact=True),)
    assert units[2] not in lost


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"retention.ms": "604800000"}, 604_800_000),
        ({"retention.ms": "0"}, 0),
        ({"retention.ms": "-1"}, None),
        ({"retention.ms": "1000", "retention.bytes": "1073741824"}, None),
        ({"retention.ms": "1000", "cleanup.policy": "compact,delete"}, None),
        ({"retention.ms": "1000", "cleanup.policy": "compact"}, None),
        ({}, None),
    ],
)
def test_what_a_topics_settings_say_of_the_age_of_its_records(settings: dict[str, str], kept: int | None):
    assert kept_ms({"cleanup.policy": "delete", "retention.bytes": "-1", **settings}) == kept
    assert kept_ms(settings) is None  # without the right to see the others


def test_the_first_whole_second_is_rounded_up():
    """A day before 1970-01-02T00:00:00.001Z, and an hour for the clocks."""
    assert kept_since(DAY_MS + 1, DAY_MS) == 3601
    assert kept_since(DAY_MS, DAY_MS) == 3600
    assert kept_since(DAY_MS, None) is None


# ---- A record stamped ahead, and the time that comes for it; and what accepting a topic refuses.

START = pendulum.datetime(2026, 11, 20)
BIDS = ("dc1", "bids")


def at(hour: float) -> int:
    return to_ms(START.add(seconds=round(hour * 3600)))


@pytest.mark.parametrize("minutes", [2, 35, 59])
def test_no_hour_is_emptied_when_the_time_of_the_stamp_comes(minutes):
    """Resolved hour by hour, so many minutes after its end; one record of hour 0 is stamped 3.5."""
    topic = FakeTopic("id", {0: [at(0.5), at(3.5)]})
    kafka, lake, spec = FakeKafka({BIDS: topic}), MemoryLake(), pipeline_of(dc1=["bids"])
    for hour in range(6):
        topic.records[0] += [at(hour + 0.7), at(hour + 0.8)]
        piece = Slice(START.add(hours=hour))
        resolve(spec, lake, [piece], piece.end.add(minutes=minutes), kafka.topics_of)
    state = BoundaryLog(lake).read()
    ranges = [state.ranges(Slice(START.add(hours=hour)), "dc1", ["bids"]) for hour in range(6)]
    assert [(r.start, r.until) for found in ranges for r in found or ()] == [
        (0, 4),
        (4, 6),
        (6, 8),
        (8, 10),
        (10, 12),
        (12, 14),
    ]


def test_what_is_stamped_ahead_says_where_it_is():
    said = str(FutureStamped("dc1", "bids", 3, 17, at(48)))
    assert "offset 17 of dc1/bids/3 is stamped 2026-11-22" in said
    micro = str(FutureStamped("dc1", "bids", 3, 17, at(48) * 1000))
    assert "is stamped 1795305600000000 ms since the epoch, in the future" in micro


@pytest.mark.parametrize("odd", [at(0.5) * 1000, at(0.5) * 1_000_000, (1 << 63) - 1, -1, -5, -(1 << 63)])
def test_a_stamp_that_is_no_instant_moves_no_boundary(odd):
    """Before, between and behind the records of each hour; asked for at once, and hour by hour. What is ahead
    of all others is of the first hour; no hour begins before 1970."""
    stamps = [odd, at(0.1), odd, at(0.9), odd, at(1.1), at(1.9), odd, at(2.5), odd]
    for pieces in ([[0, 1, 2]], [[0], [1], [2]]):
        kafka, lake = FakeKafka({BIDS: FakeTopic("id", {0: stamps})}), MemoryLake()
        for hours in pieces:
            slices = [Slice(START.add(hours=hour)) for hour in hours]
            found = resolve(pipeline_of(dc1=["bids"]), lake, slices, slices[-1].end, kafka.topics_of)
            assert all(str(odd) in str(record) for record in found.future)
            assert bool(found.future) is (odd > 0)
        state = BoundaryLog(lake).read()
        ranges = [state.ranges(Slice(START.add(hours=hour)), "dc1", ["bids"]) for hour in range(3)]
        assert [(r.start, r.until) for own in ranges for r in own or ()] == [
            (int(odd < 0), 5),
            (5, 8),
            (8, 10),
        ]


def test_a_topic_is_not_accepted_from_before_a_landed_slice():
    topic = FakeTopic("old", {0: [at(0.5), at(1.5), at(2.5)]})
    kafka, lake, spec = FakeKafka({BIDS: topic}), MemoryLake(), pipeline_of(dc1=["bids"])
    now = START.add(hours=4)
    resolve(spec, lake, [Slice(START.add(hours=hour)) for hour in range(3)], now, kafka.topics_of)
    lake.put(layout.manifest("2026-11-20T01Z", "dc1"), manifest_of("2026-11-20T01Z"))
    topic.uuid = "new"

    def accept(hour: int) -> object:
        return accept_topic(spec, lake, "dc1", "bids", START.add(hours=hour), now, kafka.topics_of)

    for hour in (0, 1):
        with pytest.raises(WrongUse, match=r"2026-11-20T01Z has landed.*from 2026-11-20T02:00Z on"):
            accept(hour)
    found = accept(2)
    assert last_seen(found, "dc1", "bids") == START.add(hours=3)
    assert last_seen(found, "dc1", "clicks") is None


def manifest_of(slice_id: str) -> bytes:
    return encode(made_manifest("demo", slice_id, "dc1", 1, "a", (), (), (), 0, {}, 0))
