"""More types than have a folder of their own: each row stays under its own type, whatever comes after it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pyarrow.parquet as pq
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.flow.land.task.reports import WrittenFile
from sluice.flow.land.task.task import Task
from sluice.flow.land.task.type_folders import OVERFLOW, Admission
from sluice.flow.land.task.writer import ROWS_GATHERED
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.landing_world import START, World, event, hours, kafka_batch, pipeline
from tests.support.long_form import per_commit

BIDS = ("dc1", "bids")
COUNTS = [{"table": "db.traffic"}]
Row = tuple[int, bytes, int]


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    return FolderLake(tmp_path / "demo")


def many_types(count: int, kinds: int, first_click: int) -> list[Row]:
    """(offset, value, record time) over two hours; clicks begin at `first_click`."""
    random, rows = Random(f"{count}/{kinds}"), []
    for offset in range(count):
        kind = "click" if offset >= first_click and offset % 9 == 0 else f"k{random.randrange(kinds)}"
        value, at = event(kind, offset * 120 / count, n=offset)
        rows.append((offset, value, at))
    return rows


def types_by_file(lake: FolderLake, files: tuple[WrittenFile, ...]) -> Counter[tuple]:
    """(slice, folder's type, the `_type` in the file, the payload's own type) of all rows."""
    found: Counter[tuple] = Counter()
    for file in files:
        rows = pq.read_table(lake.root / file.key).to_pylist()
        own = [json.loads(row["_payload"])["type"] for row in rows]
        if file.type is None:
            assert dict(file.rows_by_type) == Counter(own), file.key
        found.update(
            (file.slice_id, file.type, row["_type"], kind) for row, kind in zip(rows, own, strict=True)
        )
    return found


@pytest.mark.parametrize("gathered", per_commit([40, 333, ROWS_GATHERED]))
@pytest.mark.parametrize("first_click", [0, 4_500])
def test_each_row_of_a_task_is_in_a_file_of_its_own_type_or_in_the_overflow(
    lake, monkeypatch, gathered, first_click
):
    """One task with many batches: types go on coming while rows of the overflow wait to be written."""
    monkeypatch.setattr("sluice.flow.land.task.writer.ROWS_GATHERED", gathered)
    rows = many_types(5_000, 1_500, first_click)
    edge = next(offset for offset, _, at in rows if at >= START.add(hours=1).timestamp() * 1000)
    spec = pipeline(max_types=100)
    task = Task(spec, lake, "dc1", "attempt", tuple(hours(2)), {("bids", 0): np.array([0, edge, len(rows)])})
    report = task.land([kafka_batch(0, rows[at : at + 50]) for at in range(0, len(rows), 50)], "task")
    found = types_by_file(lake, report.files)
    assert not [place for place in found if place[1] not in (None, place[3]) or place[2] != place[3]]
    assert not [place for place in found if place[1] is None and place[3] == "click"]
    slices = [piece.id for piece in hours(2)]
    told = Counter((place[0], place[3]) for place in found.elements())
    assert told == Counter((slices[o >= edge], json.loads(value)["type"]) for o, value, _ in rows)


def test_a_landed_hour_has_its_types_and_its_counts(lake):
    rows = many_types(3_000, 700, 2_000)
    spec, world = pipeline(max_types=20, counts=COUNTS), World({BIDS: [[(v, at) for _, v, at in rows]]})
    world.resolve(spec, lake, hours(2))
    world.land(spec, lake, hours(2), rows_per_read=2_000)
    manifests = read_manifests(lake, [Unit(piece, "dc1") for piece in hours(2)])
    for piece in hours(2):
        start, end = (instant.timestamp() * 1000 for instant in (piece.start, piece.end))
        expected = Counter(json.loads(value)["type"] for _, value, at in rows if start <= at < end)
        manifest = manifests[Unit(piece, "dc1")]
        assert manifest.rows_by_type() == expected
        assert dict(manifest.traffic_for("db.traffic").sums) == expected
        landed: Counter[tuple[str, str]] = Counter()
        for file in manifest.files:
            folder = file.key.split("/")[0].removeprefix("type=")
            for row in pq.read_table(lake.root / file.key).to_pylist():
                assert folder in ("_overflow", row["_type"])
                landed[row["_type"], json.loads(row["_payload"])["type"]] += 1
        assert landed == {(kind, kind): count for kind, count in expected.items()}


def test_the_code_of_the_overflow_is_never_that_of_a_type():
    admission, names = Admission({"click"}, 2), ["a", "b", "c", "click"]
    slices = np.zeros(4, np.int64)
    hours = np.zeros(4, np.int64)
    first = admission.codes(slices, np.arange(4, dtype=np.int32), hours, names)
    names += ["d", "e"]
    assert first.tolist() == [0, 1, OVERFLOW, 3]
    assert admission.codes(slices, np.array([4, 5, 1, 3], np.int32), hours, names).tolist() == [
        OVERFLOW
    ] * 2 + [
        1,
        3,
    ]
