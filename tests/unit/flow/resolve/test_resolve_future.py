"""A record stamped ahead, and the time that comes for it; and what accepting a topic refuses."""

from __future__ import annotations

import pendulum
import pytest

from sluice.clients.lake import layout
from sluice.errors import WrongUse
from sluice.flow.resolve.lookup import FutureStamped
from sluice.flow.resolve.resolve import accept_topic, resolve
from sluice.manifest import encode
from sluice.slices import Slice, to_ms
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.retention import last_seen
from tests.support.fakes import FakeKafka, FakeTopic, MemoryLake
from tests.support.manifests import made_manifest
from tests.unit.flow.resolve.test_resolve_cases import pipeline_of

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
