"""Lines that were shipped twice: one lands, the other is in `_rejected/`, and the counts add up."""

from __future__ import annotations

import base64
import json
import time
import tracemalloc
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.config.event import Event
from sluice.flow.land.task.columns import to_json
from sluice.flow.land.task.records import Deduplicator, Lines
from sluice.manifest import Manifest
from sluice.slices import Slice, Unit
from sluice.state.manifests import read_manifests
from tests.support import landing_world
from tests.support.landing_world import START, World, event, hours, pipeline

ONCE = {"type": {"field": "type"}, "time": {"field": "at"}, "batch": {"header": "sluice_batch"}}
# By hand: the header of each record of partition 0, and whether it is a second copy.
FIRST_HOUR = [
    ("b1:1", False),
    ("b1:2", False),
    ("b2:1", False),
    ("b1:2", True),
    ("b1:3", False),
    (None, False),
    ("no line", False),
    ("no line", False),
    ("b1:1", True),
    ("x:b1:1", False),
]
NEXT_HOUR = [("b1:1", False), ("b1:1", True)]  # the other slice is not looked into


@pytest.fixture(autouse=True)
def headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record has the header that its event says."""
    usual = landing_world.kafka_batch

    def with_headers(place, rows, most=None) -> pa.RecordBatch:
        names = [json.loads(value)["shipped"] for _, value, _ in rows]
        texts = [header(name) if name else None for name in names]
        batch = usual(place, rows, most)
        return batch.set_column(
            batch.schema.get_field_index("headers"), "headers", pa.array(texts, pa.string())
        )

    monkeypatch.setattr(landing_world, "kafka_batch", with_headers)


@pytest.fixture
def world() -> World:
    logs = []
    for hour, shipped in enumerate((FIRST_HOUR, NEXT_HOUR)):
        logs += [event("click", hour * 60 + n, shipped=name or "") for n, (name, _) in enumerate(shipped)]
    return World({("dc1", "bids"): [logs, []]})


def header(name: str) -> str:
    """As Spark's to_json writes a record's headers."""
    return json.dumps([{"key": "sluice_batch", "value": base64.b64encode(name.encode()).decode()}])


def landed(world: World, folder: Path, **changes: object) -> tuple[list[str], list[tuple[str, str]], list]:
    """What is in rows, what is rejected and why, and the manifests."""
    lake, spec = FolderLake(folder / "demo"), pipeline(**changes)
    world.resolve(spec, lake, hours(2))
    world.land(spec, lake, hours(2))
    units = [Unit(Slice(START.add(hours=n)), "dc1") for n in range(2)]
    manifests = [read_manifests(lake, units)[unit] for unit in units]
    found = [(f, manifest) for manifest in manifests for f in (*manifest.files, *manifest.rejected)]
    rows = {f.key: pq.read_table(lake.root / f.key).to_pylist() for f, _ in found}
    kept = [json.loads(row["_payload"])["shipped"] for m in manifests for f in m.files for row in rows[f.key]]
    refused = [row for m in manifests for f in m.rejected for row in rows[f.key]]
    told = [(json.loads(row["_payload"])["shipped"], row["_reason"]) for row in refused]
    return sorted(kept), sorted(told), manifests


def test_the_second_copy_of_a_line_is_rejected(world: World, tmp_path: Path):
    kept, told, manifests = landed(world, tmp_path, event=ONCE)
    every = [*FIRST_HOUR, *NEXT_HOUR]
    assert kept == sorted(name or "" for name, twice in every if not twice)
    assert told == sorted((name, "shipped twice") for name, twice in every if twice)
    counts = [(m.read, m.parsed, dict(m.rejected_records)) for m in manifests]
    assert counts == [(10, 8, {"shipped twice": 2}), (2, 1, {"shipped twice": 1})]


def test_without_the_key_every_copy_lands(world: World, tmp_path: Path):
    kept, told, _ = landed(world, tmp_path)
    assert (len(kept), told) == (12, [])


def file_in(places: int) -> list[list[tuple[bytes, int]]]:
    """40 lines over two hours, in so many partitions; the last six lines of each hour came twice."""
    lines = [(n, 3 * n) for n in range(40)]
    shipped = [*lines[:20], *lines[14:20], *lines[20:], *lines[34:]]
    logs: list[list[tuple[bytes, int]]] = [[] for _ in range(places)]
    for line, minute in shipped:
        logs[line % places].append(event("click", minute, shipped=f"file:{line + 1}"))
    return logs


@pytest.mark.parametrize("at_once", [True, False], ids=["one task reads all", "a task for each partition"])
def test_a_file_in_two_topics_lands_from_both_however_tasks_are_cut(tmp_path: Path, at_once: bool):
    cluster = {"cluster": "dc1", "bootstrap": "nowhere:1", "topics": ["bids", "clicks"]}
    world = World({("dc1", "bids"): file_in(2), ("dc1", "clicks"): file_in(3)})
    lake, spec = FolderLake(tmp_path / "demo"), pipeline(event=ONCE, kafka=[cluster])
    world.resolve(spec, lake, hours(2))
    for part in [hours(2)] if at_once else [hours(1), hours(1, 1)]:
        world.land(spec, lake, part, rows_per_read=100)
    kept, told = contents(
        lake.root, read_manifests(lake, [Unit(piece, "dc1") for piece in hours(2)]).values()
    )
    every = sorted((topic, n % p, n + 1) for topic, p in (("bids", 2), ("clicks", 3)) for n in range(40))
    twice = [place for place in every if 15 <= place[2] <= 20 or place[2] >= 35]
    assert kept == every
    assert told == [(*place, "shipped twice") for place in twice]


def contents(folder: Path, manifests: Iterable[Manifest]) -> tuple[list[tuple], list[tuple]]:
    """(topic, partition, line) of what landed, and with the reason of what did not."""
    kept, told = [], []
    for manifest in manifests:
        for file in (*manifest.files, *manifest.rejected):
            for row in pq.read_table(folder / file.key).to_pylist():
                line = int(json.loads(row["_payload"])["shipped"].rpartition(":")[2])
                place = (row["_topic"], row["_partition"], line)
                if file in manifest.rejected:
                    told.append((*place, row["_reason"]))
                else:
                    kept.append(place)
    return sorted(kept), sorted(told)


NO_LINES = [
    "b:" + "9" * 5000,
    "b:" + "0" * 5000,
    "b:1" + "0" * 18,
    "b:01",
    "b:",
    ":1",
    "x" * 128 + ":1",
    "b:1 ",
]


def test_a_header_that_publish_does_not_write_names_no_line_and_its_record_lands(tmp_path: Path):
    sent = [name for name in ["b:0", "b:1", *NO_LINES, "b:" + "9" * 18] for _ in range(2)]
    world = World({("dc1", "bids"): [[event("click", n, shipped=name) for n, name in enumerate(sent)]]})
    kept, told, _ = landed(world, tmp_path, event=ONCE)
    assert kept == sorted([*NO_LINES * 2, "b:0", "b:1", "b:" + "9" * 18])
    assert [name for name, _ in told] == ["b:0", "b:1", "b:" + "9" * 18]


def test_a_set_of_lines_whatever_their_order():
    for order in permutations(range(6)):
        lines = Lines()
        assert [lines.add(line) for line in order] == [True] * 6
        assert [lines.add(line) for line in range(-1, 7)] == [True, *[False] * 6, True]
    random, lines, known = Random(7), Lines(), set()
    for _ in range(5_000):
        line = random.randrange(800)
        assert lines.add(line) is (line not in known)
        known.add(line)


def test_lines_in_any_order_cost_what_they_cost_in_order():
    """One behind the other, descending ones took 100 times as long, and 200,000 of them 11 s."""
    ordered = range(0, 400_000, 2)
    shuffled = Random(7).sample(ordered, len(ordered))
    usual = min(seconds_of(ordered) for _ in range(3))
    assert min(seconds_of(ordered[::-1]) for _ in range(3)) < 10 * usual
    assert min(seconds_of(shuffled) for _ in range(3)) < 20 * usual


def seconds_of(order: Iterable[int]) -> float:
    lines, began = Lines(), time.process_time()
    for line in order:
        lines.add(line)
    return time.process_time() - began


def test_batches_of_a_partition_and_hour_have_a_bound(monkeypatch: pytest.MonkeyPatch):
    """Lines of the batches that came first are known; a line of a further one is rejected, each time. The
    next hour has a bound of its own."""
    monkeypatch.setattr("sluice.flow.land.task.records.MOST_BLOCKS", 3)
    keys = {"type": {"topic": True}, "time": {"record": True}, "batch": {"header": "b"}}
    names = ["x:1", "x:600", "y:1", "z:1", "x:2", "z:1", "y:1", "z:1", "y:1"]
    headers = pa.array([to_json([("b", name.encode())]) for name in names], pa.string())
    found = Deduplicator(Event.model_validate(keys)).refused("t", 0, headers, np.array([0] * 7 + [1] * 2))
    assert found == {3: "too many batches", 5: "too many batches", 6: "shipped twice"}


def test_what_a_task_remembers_of_a_batch_is_less_than_a_kilobyte():
    """As many batches as records, with the longest names. None is forgotten: its line would land twice."""
    keys = {"type": {"topic": True}, "time": {"record": True}, "batch": {"header": "b"}}
    shipped, count = Deduplicator(Event.model_validate(keys)), 2_000
    slices = np.zeros(count, np.int64)
    headers = pa.array([to_json([("b", b"%0127d:1" % number)]) for number in range(count)], pa.string())
    tracemalloc.start()
    try:
        assert shipped.refused("t", 0, headers, slices) == {}
        assert tracemalloc.get_traced_memory()[0] < 1024 * count
    finally:
        tracemalloc.stop()
    assert shipped.refused("t", 0, headers, slices) == dict.fromkeys(range(count), "shipped twice")
