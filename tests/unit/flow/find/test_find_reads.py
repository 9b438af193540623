"""How much is read: boundaries, one manifest, footers, and of row groups those that may hold the record."""

from __future__ import annotations

from array import array
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sluice.errors import WrongUse
from sluice.flow.find.find import RecordFinder
from sluice.flow.find.outcome import Outcome, RecordPlace, locations_of, outcome_of, read_place
from sluice.flow.find.search_files import row_groups
from sluice.state.boundaries.boundary import PartitionColumn, TopicBoundaries
from sluice.state.boundaries.model import Boundaries, LogEntry
from tests.support.fakes import MemoryLake
from tests.support.landing_world import START, World, event, hours, pipeline

TOPIC = ("dc1", "bids")
HOURS = 8_760
PER_HOUR = 1_000


class CountingLake(MemoryLake):
    """Counts what is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def read(self, key):
        self.asked.append(key)
        return super().read(key)

    def part(self, key, start, until):
        self.asked.append(key)
        return super().part(key, start, until)


def year() -> Boundaries:
    """Boundaries of a year of hours in two partitions, of which each hour brings PER_HOUR offsets."""
    instants = array("q", [START.int_timestamp + 3600 * hour for hour in range(HOURS + 1)])
    zeros = array("q", [0]) * len(instants)
    columns = {
        partition: PartitionColumn(
            0,
            array("q", [hour * PER_HOUR + partition for hour in range(HOURS + 1)]),
            zeros,
            zeros,
            array("b", [0]) * len(instants),
        )
        for partition in (0, 1)
    }
    block = TopicBoundaries("dc1", "bids", "u", instants, columns)
    return Boundaries().with_entry(LogEntry(timedelta(hours=1), (block,)))


@pytest.mark.parametrize("partition", [0, 1])
@pytest.mark.parametrize("hour", [0, 1, 4_000, HOURS - 1])
def test_the_slice_of_an_offset_in_a_year(partition: int, hour: int):
    known = year()
    first = hour * PER_HOUR + partition
    for offset in (first, first + 1, first + PER_HOUR - 1):
        (location,) = locations_of(known, RecordPlace(*TOPIC, partition, offset))
        assert (location.slice.start, location.left) == (START.add(hours=hour), False)
    (after,) = locations_of(known, RecordPlace(*TOPIC, partition, first + PER_HOUR))
    assert after.after == START.add(hours=hour + 1)


def test_few_reads_among_many_slices():
    lake, count = CountingLake(), 60
    kafka = World({TOPIC: [[event("click", 60 * hour + 1) for hour in range(count)]]})
    spec = pipeline(tables={})
    for hour in range(count):
        kafka.resolve(spec, lake, hours(1, first=hour))
    kafka.land(spec, lake, hours(count))
    lake.asked.clear()
    (facts,) = RecordFinder(spec, lake, kafka.topics_of).at("bids", 0, 41)
    assert (outcome_of(facts), facts.location.slice.start) == (Outcome.NO_TABLE, START.add(hours=41))
    boundaries = [key for key in lake.asked if key.startswith("_boundaries/")]
    manifests = [key for key in lake.asked if key.startswith("_slices/")]
    files = {key for key in lake.asked if key.startswith("type=")}
    assert len(boundaries) <= 1 + 32 + 1  # the checkpoint, what came since, and the end
    assert manifests == ["_slices/2026-01-02T17Z/dc1/manifest.json"]
    assert files == {facts.rows[0].file}


def test_one_of_many_files():
    """Forty types are forty files: those with most rows are asked first, sixteen at a time."""
    lake, count = CountingLake(), 40
    kafka = World({TOPIC: [[event(f"type{n}", 1) for n in range(count) for _ in range(n + 1)]]})
    spec = pipeline(tables={})
    kafka.resolve(spec, lake, hours(1))
    kafka.land(spec, lake, hours(1))
    finder = RecordFinder(spec, lake, kafka.topics_of)
    first = 0
    for n in range(count):
        lake.asked.clear()
        (facts,) = finder.at("bids", 0, first)
        assert [row.type for row in facts.rows] == [f"type{n}"]
        asked = {key for key in lake.asked if key.startswith("type=")}
        assert len(asked) <= (16 if n >= 24 else 32 if n >= 8 else 40)
        first += n + 1


@pytest.mark.parametrize("old", [False, True])
def test_only_row_groups_that_may_hold_the_record(tmp_path: Path, old: bool):
    rows = [
        {"_topic": topic, "_partition": p, "_offset": o}
        for topic in ("a", "b")
        for p in (0, 1)
        for o in range(20)
    ]
    import pyarrow as pa

    table = pa.Table.from_pylist(
        rows, pa.schema([("_topic", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())])
    )
    known = ["_partition", "_offset"] if old else True
    pq.write_table(table, tmp_path / "x", row_group_size=10, write_statistics=known)
    metadata = pq.ParquetFile(tmp_path / "x").metadata
    # Groups of ten: a/0 0-9, a/0 10-19, a/1 0-9, a/1 10-19, b/0 …
    assert row_groups(metadata, RecordPlace("dc1", "b", 0, 12)) == ([1, 5] if old else [5])
    assert row_groups(metadata, RecordPlace("dc1", "a", 1, 3)) == ([2, 6] if old else [2])
    assert row_groups(metadata, RecordPlace("dc1", "a", 2, 3)) == []


def test_places_as_they_are_typed():
    assert read_place("bids:3:10482") == ("bids", 3, 10482)
    assert read_place("a.b_c-d:0:0") == ("a.b_c-d", 0, 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bids",
        "bids:3",
        "bids:3:x",
        "bids:-1:3",
        "bids:3:-1",
        "bids:3:1:4",
        "bi ds:1:1",
        "bids:1:٣",
        f"{'b' * 250}:1:1",
        "bids:2147483648:1",
        f"bids:1:{1 << 63}",
        "bids:1:1\n",
        "\x1b[1m:1:1",
    ],
)
def test_what_is_no_place(text: str):
    with pytest.raises(WrongUse, match="is no TOPIC:PARTITION:OFFSET"):
        read_place(text)
