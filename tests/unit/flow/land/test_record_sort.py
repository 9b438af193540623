"""Rows in the order of their records, however they lie in files; and records out of rows."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from sluice.errors import CannotRemake, Conservation
from sluice.flow.land.remake import account
from sluice.flow.land.task import read_lake
from sluice.flow.land.task import read_lake as records_again
from sluice.flow.land.task.read_lake import WHOLE, batches_of, sorted_by_record
from sluice.flow.land.task.reports import SeenOffsets
from sluice.flow.land.task.task import Task
from sluice.manifest import Manifest, PartitionCount
from sluice.slices import Slice, Unit
from tests.support.fakes import MemoryLake
from tests.support.landing_world import START, pipeline
from tests.support.manifests import made_manifest

SCHEMA = pa.schema(
    {
        "place": pa.int32(),
        "offset": pa.int64(),
        "row": pa.int32(),
        "timestamp": pa.int64(),
        "key": pa.binary(),
        "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
        "value": pa.binary(),
        "size": pa.int64(),
        "held": pa.string(),
        "erased": pa.bool_(),
    }
)
Row = tuple[int, int, int, bytes]


def table(rows: list[Row], **changes: dict[int, object]) -> pa.Table:
    """Of (place, offset, row, value); `changes` has by column and number what differs."""
    found = [
        {"place": p, "offset": o, "row": r, "timestamp": o, "key": b"k", "headers": None, "value": v}
        for p, o, r, v in rows
    ]
    for name, values in changes.items():
        for number, value in values.items():
            found[number][name] = value
    return pa.Table.from_pylist(found, schema=SCHEMA)


@pytest.mark.parametrize("held", [1 << 20, 3_000, 1])
def test_rows_come_in_order_and_records_whole(monkeypatch, held: int):
    monkeypatch.setattr(read_lake, "PIECE_BYTES", 200)
    monkeypatch.setattr(read_lake, "FAN_IN", 3)
    random = Random(7)
    rows: list[Row] = []
    for offset in range(300):
        place = random.choice([0, 2, 5])
        rows += [(place, offset, n, b"%d-%d" % (offset, n) * random.randrange(9)) for n in range(offset % 4)]
    rows.append((2, 40_000, WHOLE, b"x" * 5_000))
    mixed = random.sample(rows, len(rows))
    parts = [table(mixed[start : start + 17]) for start in range(0, len(mixed), 17)]
    found = [part.to_pylist() for part in sorted_by_record(parts, held)]
    assert [(r["place"], r["offset"], r["row"], r["value"]) for part in found for r in part] == sorted(rows)
    ends = [(part[-1]["place"], part[-1]["offset"]) for part in found]
    begins = [(part[0]["place"], part[0]["offset"]) for part in found]
    assert all(end < begin for end, begin in zip(ends, begins[1:], strict=False))


def test_nothing_is_sorted_of_nothing():
    assert list(sorted_by_record([])) == []


TASK = Task(
    pipeline(),
    MemoryLake(),
    "dc1",
    "a",
    (Slice(START), Slice(START.add(hours=1))),
    {("bids", 0): np.array([0, 5, 90])},
)


def records(rows: list[Row], **changes: dict[int, object]) -> list[tuple[int, bytes]]:
    found = [batch.to_pylist() for batch in batches_of(TASK, [table(rows, **changes)])]
    return [(row["offset"], row["value"]) for batch in found for row in batch]


def test_elements_become_their_message_again():
    rows = [(0, 3, WHOLE, b"{}"), (0, 4, 0, b"1"), (0, 4, 1, b'"a"'), (0, 7, 0, b"{}")]
    assert records(rows) == [(3, b"{}"), (4, b'[1,"a"]'), (7, b"[{}]")]


def test_batches_are_bounded(monkeypatch):
    monkeypatch.setattr(records_again, "WHOLE_BYTES", 10)
    rows = [(0, n, WHOLE, b"x" * size) for n, size in enumerate([4, 4, 4, 30, 1])]
    found = [batch["offset"].to_pylist() for batch in batches_of(TASK, [table(rows)])]
    assert found == [[0, 1], [2], [3], [4]]


@pytest.mark.parametrize(
    ("rows", "changes", "why"),
    [
        ([(0, 7, WHOLE, b"a"), (0, 7, WHOLE, b"a")], {}, "T01Z/dc1 .*bids/0 offset 7 has rows twice"),
        ([(0, 3, 0, b"a"), (0, 3, 0, b"a")], {}, "T00Z/dc1 .*bids/0 offset 3 has rows twice"),
        ([(0, 3, WHOLE, b"[a]"), (0, 3, 0, b"a")], {}, "offset 3 has rows twice, or lacks some"),
        ([(0, 3, 0, b"a"), (0, 3, 2, b"a")], {}, "offset 3 has rows twice, or lacks some"),
        ([(0, 3, 1, b"a")], {}, "offset 3 has rows twice, or lacks some"),
        ([(0, 3, 0, b"a"), (0, 3, 1, b"b")], {"key": {1: b"j"}}, "offset 3 has rows with different key"),
        ([(0, 3, 0, b"a"), (0, 3, 1, b"b")], {"timestamp": {1: 9}}, "has rows with different timestamp"),
        ([(0, 3, 0, b"a"), (0, 3, 1, b"b")], {"headers": {1: []}}, "has rows with different headers"),
    ],
)
def test_rows_that_contradict_each_other_are_no_record(rows, changes, why: str):
    with pytest.raises(CannotRemake, match=why):
        records(rows, **changes)


UNIT = Unit(Slice(START), "dc1")


def seen(partition: int, count: int) -> SeenOffsets:
    return SeenOffsets("dc1", UNIT.slice.id, "bids", partition, 0, count - 1, count, rows=count)


def manifest(counts: dict[int, int], empty: int = 0) -> Manifest:
    parts = tuple(PartitionCount("bids", number, read, 0, read) for number, read in counts.items())
    read = sum(counts.values())
    return made_manifest(
        "demo", UNIT.slice.id, "dc1", 1, "a", (), (), (), read, {}, 4, counts=parts, empty=empty
    )


def test_records_are_compared_by_partition():
    parts = (seen(0, 3), seen(1, 2))
    assert account(UNIT, manifest({0: 3, 1: 2}), parts).seen == parts
    assert account(UNIT, manifest({0: 3, 1: 2}), parts).gaps == 4
    for wrong in ({0: 2, 1: 3}, {0: 3, 1: 2, 2: 1}, {0: 5}):
        with pytest.raises(Conservation, match="records of bids/"):
            account(UNIT, manifest(wrong), parts)
    with pytest.raises(
        Conservation, match="files hold 5 records of all partitions, and the manifest counts 6"
    ):
        account(UNIT, replace(manifest({0: 3, 1: 2}), read=6), parts)


def test_empty_arrays_are_added_to_the_partition_that_lacks_records():
    found = account(UNIT, manifest({0: 3, 1: 4}, empty=2), (seen(0, 3), seen(1, 2)))
    assert [(part.partition, part.records, part.rows, part.empty) for part in found.seen] == [
        (0, 3, 3, 0),
        (1, 2, 2, 0),
        (1, 2, 0, 2),
    ]
    for counts, empty in (({0: 3, 1: 4}, 1), ({0: 3, 1: 2}, 1)):
        with pytest.raises(Conservation):
            account(UNIT, manifest(counts, empty), (seen(0, 3), seen(1, 2)))
