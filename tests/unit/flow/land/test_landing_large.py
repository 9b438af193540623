"""Records above the size to which Spark cuts what it hands over: the task reads each of them itself."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import pendulum
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.flow.land.task import read_kafka as long_records
from sluice.flow.land.task.task import CUT_BYTES
from sluice.slices import Unit, to_ms
from sluice.state.manifests import read_manifests
from tests.support.landing_world import InProcess, World, event, hours, pipeline, rows_in

BIDS = ("dc1", "bids")


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    return FolderLake(tmp_path / "demo")


def of_size(size: int, minute: float) -> tuple[bytes, int]:
    """An event of exactly `size` bytes."""
    value, at = event("click", minute, padding="")
    return value[:-2] + b"x" * (size - len(value)) + value[-2:], at


def payloads(log: list[tuple[bytes, int]]) -> list[str]:
    return sorted(value.decode() for value, _ in log)


def lands(lake: FolderLake, partitions: list[list[tuple[bytes, int]]], **engine: object) -> World:
    spec, world = pipeline(), World({BIDS: partitions})
    world.resolve(spec, lake, hours(3))
    world.land(spec, lake, hours(3), rows_per_read=100, **engine)
    units = [Unit(piece, cluster) for piece in hours(3) for cluster in spec.clusters]
    manifests = list(read_manifests(lake, units).values())
    assert sorted(row[5] for row in rows_in(lake, manifests)) == payloads([*chain(*partitions)])
    assert [m.read for m in manifests] == [
        sum(at // 3_600_000 == piece.start.int_timestamp // 3600 for log in partitions for _, at in log)
        for piece in hours(3)
    ]
    assert not any(m.rejected_records for m in manifests)
    assert not [item.key for item in lake.list("") if item.key.startswith("_attempts/")]
    return world


def test_a_record_of_just_the_size_is_handed_over(lake):
    log = [event(minute=10), of_size(CUT_BYTES, 20), event(minute=70)]
    assert json.loads(log[1][0])["type"] == "click"
    world = lands(lake, [log])
    assert (world.reads, world.long) == ([("bids", 0, 0, 3)], [])


def test_one_byte_more_and_the_task_reads_it_itself_and_nothing_is_read_twice(lake):
    log = [
        event(minute=10),
        event(minute=70),
        of_size(CUT_BYTES + 1, 80),
        event(minute=90),
        event(minute=130),
    ]
    world = lands(lake, [log, [event(minute=15), event(minute=75)]])
    assert world.reads == [("bids", 0, 0, 5), ("bids", 1, 0, 2)]
    assert world.long == [("bids", 0, 2)]


def test_many_long_records_come_in_batches_of_bounded_bytes(lake, monkeypatch):
    monkeypatch.setattr(long_records, "WHOLE_BYTES", 3 << 20)
    log = [of_size(1 << 20, 1 + n) if n % 3 else event(minute=1 + n) for n in range(40)]
    sizes: list[int] = []
    mended = long_records._replaced

    def weighed(part, found):
        sizes.append(mended(part, found).nbytes)
        return mended(part, found)

    monkeypatch.setattr(long_records, "_replaced", weighed)
    world = lands(lake, [log])
    assert world.long == [("bids", 0, n) for n in range(40) if n % 3]
    assert len(sizes) >= 8 and max(sizes) < 4 << 20


def test_a_record_above_max_record_is_rejected_with_its_size_and_the_others_land(lake):
    log = [of_size((1 << 20) + n, 10 * (n + 1)) for n in range(4)]
    spec, world = pipeline(max_record="1MiB"), World({BIDS: [log]})
    world.resolve(spec, lake, hours(1))
    world.land(spec, lake, hours(1), rows_per_read=100)
    (manifest,) = read_manifests(lake, [Unit(piece, "dc1") for piece in hours(1)]).values()
    assert [row[4:6] for row in rows_in(lake, [manifest])] == [(0, log[0][0].decode())]
    assert manifest.rejected_records == {"too large": 3}
    with lake.local(manifest.rejected[0].key) as path:
        rows = pq.read_table(path).to_pylist()
    kept = [(r["_offset"], r["_reason"], r["_size"], r["_payload"], r["_key"], r["_headers"]) for r in rows]
    assert kept == [(n, "too large", (1 << 20) + n, None, None, None) for n in (1, 2, 3)]
    assert [to_ms(pendulum.instance(row["_timestamp"])) for row in rows] == [at for _, at in log[1:]]


def test_a_task_that_spark_tries_twice_reports_it_once(lake):
    lands(lake, [[event(minute=10), of_size(1 << 20, 20), of_size(1 << 20, 70)]], twice=True)


def test_a_long_key_alone_is_enough(lake, monkeypatch):
    keys = InProcess._batches

    def with_long_key(self, task, *place):
        for batch in keys(self, task, *place):
            key = pa.array([b"k" * (CUT_BYTES + 1)] * batch.num_rows)
            yield batch.set_column(1, "key", key)

    monkeypatch.setattr(InProcess, "_batches", with_long_key)
    world = lands(lake, [[event(minute=10)]])
    assert world.long == [("bids", 0, 0)]
