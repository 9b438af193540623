"""When the boundary log writes its checkpoint, and what of the log is read beside it."""

from __future__ import annotations

import json
from array import array
from datetime import timedelta

import pendulum
import pytest

from sluice import crash_points
from sluice.clients.lake.base import StoredObject
from sluice.crash_points import Resolve
from sluice.errors import SluiceError
from sluice.manifest import OffsetRange
from sluice.slices import Slice
from sluice.state.boundaries.boundary import CODE, FoundBy, PartitionColumn, TopicBoundaries
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries, LogEntry
from tests.support.fakes import MemoryLake

HOUR = timedelta(hours=1)
START = pendulum.datetime(2026, 11, 20)
NOW = pendulum.datetime(2026, 12, 1)
CHECKPOINT = "_boundaries/checkpoint.json"


class Watched(MemoryLake):
    """Notes what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at: list[str] = []

    def read(self, key: str) -> StoredObject | None:
        self.looked_at.append(key)
        return super().read(key)


def entry(hour: int, length: timedelta = HOUR) -> LogEntry:
    offsets = array("q", [hour])
    column = PartitionColumn(0, offsets, offsets, array("q", [0]), array("b", [CODE[FoundBy.RECORD]]))
    instants = array("q", [START.add(hours=hour).int_timestamp])
    return LogEntry(length, (TopicBoundaries("dc1", "bids", "id", instants, {0: column}),))


def written(count: int, **lengths: timedelta) -> Watched:
    lake, state = Watched(), Boundaries()
    for hour in range(count):
        new = BoundaryLog(lake).append(state, entry(hour, lengths.get(f"at{hour}", HOUR)), NOW)
        assert new is not None
        state = new
    return lake


def keys(*numbers: int) -> list[str]:
    return [f"_boundaries/{number:010d}.json" for number in numbers]


@pytest.mark.parametrize("count", [1, 31, 32, 33, 63, 64, 65])
def test_every_32nd_entry_is_followed_by_a_checkpoint(count):
    lake = written(count)
    whole = count // 32 * 32
    assert sorted(lake.objects) == keys(*range(count)) + ([CHECKPOINT] if whole else [])
    assert not whole or json.loads(lake.objects[CHECKPOINT][0])["entries"] == whole
    state = BoundaryLog(lake).read()
    assert lake.looked_at == [CHECKPOINT, *keys(*range(whole, count + 1))]
    assert state.entries == count
    pieces = [Slice(START.add(hours=hour)) for hour in range(count - 1)]
    assert [state.ranges(piece, "dc1", ["bids"]) for piece in pieces] == [
        (OffsetRange("bids", "id", 0, hour, hour + 1),) for hour in range(count - 1)
    ]


def test_a_known_state_goes_on_from_where_it_is():
    lake = written(40)
    known = Boundaries()
    for hour in range(35):
        known = known.with_entry(entry(hour))
    assert BoundaryLog(lake).read(known) == BoundaryLog(lake).read()
    lake.looked_at.clear()
    BoundaryLog(lake).read(known)
    assert lake.looked_at == keys(*range(35, 41))


def test_the_length_in_a_checkpoint_is_the_logs():
    lake = written(32, at31=2 * HOUR)
    assert json.loads(lake.objects[CHECKPOINT][0])["length"] == 3600
    assert BoundaryLog(lake).read().length == HOUR


def test_the_points_where_a_crash_is_harmless(monkeypatch):
    reached: list[Resolve] = []
    monkeypatch.setattr(crash_points, "reached", reached.append)
    lake = written(32)
    assert reached == [Resolve.STORED] * 32 + [Resolve.CHECKPOINTED]
    assert BoundaryLog(lake).append(Boundaries(), entry(0), NOW) is None
    assert len(reached) == 33


@pytest.mark.parametrize("key", [CHECKPOINT, "_boundaries/0000000032.json"])
def test_what_cannot_be_read_is_told_with_its_place(key):
    lake = written(33)
    lake.put(key, b"{")
    with pytest.raises(SluiceError, match=rf"^memory://demo/{key} is not an entry"):
        BoundaryLog(lake).read()
