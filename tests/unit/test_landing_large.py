"""Records above the size to which Spark cuts what it hands over: their slice is read once more, whole."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest

from sluice.lake.folder import FolderLake
from sluice.landing.task import CUT_BYTES
from sluice.manifests import read_manifests
from sluice.slices import Unit
from tests.landing_world import InProcess, World, event, hours, pipeline, rows_in

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
    assert not any(m.unparsed for m in manifests)
    assert not [item.key for item in lake.list("") if item.key.startswith("_attempts/")]
    return world


def test_a_record_of_just_the_size_is_read_once(lake):
    log = [event(minute=10), of_size(CUT_BYTES, 20), event(minute=70)]
    assert json.loads(log[1][0])["type"] == "click"
    assert lands(lake, [log]).reads == [("bids", 0, 0, 3)]


def test_one_byte_more_and_its_slice_is_read_again_whole_and_the_others_are_not(lake):
    log = [
        event(minute=10),
        event(minute=70),
        of_size(CUT_BYTES + 1, 80),
        event(minute=90),
        event(minute=130),
    ]
    world = lands(lake, [log, [event(minute=15), event(minute=75)]])
    assert world.reads == [("bids", 0, 0, 5), ("bids", 1, 0, 2), ("bids", 0, 1, 4), ("bids", 1, 1, 2)]


def test_a_task_that_spark_tries_twice_reports_it_once(lake):
    lands(lake, [[event(minute=10), of_size(1 << 20, 20), of_size(1 << 20, 70)]], twice=True)


def test_a_long_key_alone_is_enough(lake, monkeypatch):
    keys = InProcess._batches

    def with_long_key(self, task, *place):
        for batch in keys(self, task, *place):
            key = pa.array([b"k" * (2 * CUT_BYTES if task.whole else CUT_BYTES + 1)] * batch.num_rows)
            yield batch.set_column(1, "key", key)

    monkeypatch.setattr(InProcess, "_batches", with_long_key)
    world = lands(lake, [[event(minute=10)]])
    assert world.reads == [("bids", 0, 0, 1), ("bids", 0, 0, 1)]
