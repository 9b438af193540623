"""Record times that are no milliseconds of the calendar, and headers that nothing can read: they stay what
they are, and their records are told apart from the others."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.flow.land.task.read_kafka import divided
from sluice.flow.land.task.reports import TaskReport, WrittenFile
from sluice.flow.land.task.task import Task
from tests.support.landing_world import event, hours, kafka_batch, pipeline

ODD = [1_767_225_600_000_000, 1_767_225_600_000_000_000, (1 << 63) - 1, -1, -12_219_292_800_001, -(1 << 63)]


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    return FolderLake(tmp_path / "demo")


def stamps(lake: FolderLake, files: tuple[WrittenFile, ...]) -> list[tuple[int, int, str | None]]:
    """(offset, stamp, reason) of every row."""
    found = []
    for file in files:
        table = pq.read_table(lake.root / file.key)
        at = table["_timestamp"].combine_chunks().view(pa.int64()).to_pylist()
        reasons = table["_reason"].to_pylist() if "_reason" in table.column_names else [None] * len(at)
        found += zip(table["_offset"].to_pylist(), at, reasons, strict=True)
    return sorted(found)


@pytest.mark.parametrize("by_record", [False, True])
def test_each_record_keeps_its_number(lake, by_record):
    usual = [event("click", minute)[1] for minute in range(6)]
    sent = [*chain.from_iterable(zip(usual, ODD, strict=True))]
    rows = [(offset, event("click", offset)[0], at) for offset, at in enumerate(sent)]
    time = {"record": True} if by_record else {"field": "at"}
    spec = pipeline(event={"type": {"field": "type"}, "time": time})
    task = Task(spec, lake, "dc1", "attempt", tuple(hours(1)), {("bids", 0): np.array([0, len(rows)])})
    report = task.land([kafka_batch(0, rows[:7]), kafka_batch(0, rows[7:])], "task")
    out = "time out of range"
    # Of the odd ones 1969 and 1582 are years that an event may have.
    reasons = [out if by_record and at in {*ODD[:3], ODD[5]} else None for at in sent]
    assert stamps(lake, report.files) == [
        (offset, at, reason) for (offset, at), reason in zip(enumerate(sent), reasons, strict=True)
    ]


def test_a_read_in_pieces_is_the_read(lake):
    """Slices of 0, 7, 0, 0, 12, 1 and 0 records in two partitions, by tasks of at most four offsets."""
    edges = {("bids", 0): np.array([5, 5, 12, 12, 12, 24, 25, 25]), ("bids", 3): np.array([0] * 4 + [9] * 4)}
    stamp = event()[1]
    spec, slices = pipeline(max_early=None), tuple(hours(7))
    whole = Task(spec, lake, "dc1", "attempt", slices, edges)

    def land(task: Task, name: str) -> TaskReport:
        batches = [
            kafka_batch(task.place(*place), [(o, event(n=o)[0], stamp) for o in range(at[0], at[-1])])
            for place, at in sorted(task.edges.items())
        ]
        return task.land(batches, name)

    tasks = divided(whole, 4)
    assert [max(int(at[-1] - at[0]) for at in task.edges.values()) for task in tasks] == [4] * 7 + [1]
    parts = TaskReport.of(land(task, f"t{number}") for number, task in enumerate(tasks))

    def records(report: TaskReport) -> list[tuple]:
        found = []
        for file in report.files:
            for row in pq.read_table(lake.root / file.key).to_pylist():
                n = json.loads(row["_payload"])["n"]
                found.append((file.slice_id, row["_partition"], row["_offset"], n))
        return sorted(found)

    assert records(parts) == records(land(whole, "whole"))
    assert len(records(parts)) == 29
