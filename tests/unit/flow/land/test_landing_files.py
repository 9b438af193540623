"""Files of a task: few are open, memory is bounded, and small ones are merged without a row lost."""

from __future__ import annotations

import errno
import uuid
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.lake.folder import FolderLake
from sluice.errors import LakeRefused, LakeUnavailable
from sluice.flow.land import merge
from sluice.flow.land.merge import merges
from sluice.flow.land.task import columns, task, writer
from sluice.flow.land.task.reports import WrittenFile
from sluice.flow.land.task.task import Task
from sluice.flow.land.task.writer import sort
from tests.support.fakes import MemoryLake
from tests.support.landing_world import event, hours, kafka_batch, pipeline


@pytest.fixture
def lake(tmp_path):
    return FolderLake(tmp_path / "demo")


def land(lake, rows, spec=None, slices=None, edges=None):
    spec, slices = spec or pipeline(max_early=None), slices or tuple(hours(1))
    batches = [kafka_batch(0, rows[i : i + 50]) for i in range(0, len(rows), 50)]
    known = {("bids", 0): np.array(edges or [0, len(rows)])}
    return Task(spec, lake, "dc1", "attempt", slices, known).land(batches, "task")


def payloads(lake, files) -> Counter:
    found: Counter = Counter()
    for file in files:
        table = pq.read_table(lake.root / file.key)
        assert table.num_rows == file.rows
        assert (lake.root / file.key).stat().st_size == file.bytes
        found.update(table["_payload"].to_pylist())
    return found


def test_a_thousand_event_hours_with_few_files_open(lake, monkeypatch):
    opened: list[int] = []
    real = writer.AttemptFiles._begin

    def begin(self, place, schema):
        opened.append(len(self._open) + 1)
        return real(self, place, schema)

    monkeypatch.setattr(writer.AttemptFiles, "_begin", begin)
    monkeypatch.setattr("sluice.flow.land.task.writer.ROWS_GATHERED", 400)
    rows = [(i, event(("a", "b")[i % 2], 60 * (i * 7 % 500), n=i)[0], 1_767_225_600_000) for i in range(1200)]
    report = land(lake, rows)
    assert max(opened) == writer.MOST_OPEN
    assert payloads(lake, report.files) == Counter(value.decode() for _, value, _ in rows)
    assert {(f.type, f.hour) for f in report.files} == {
        (("a", "b")[i % 2], f"2026-01-{1 + i * 7 % 500 // 24:02d}T{i * 7 % 500 % 24:02d}")
        for i in range(1200)
    }


@pytest.mark.parametrize("held_bytes", [0, writer.HELD_BYTES])
def test_a_task_that_fails_leaves_no_file_being_written(lake, monkeypatch, held_bytes):
    monkeypatch.setattr(writer, "HELD_BYTES", held_bytes)
    monkeypatch.setattr("sluice.flow.land.task.writer.ROWS_GATHERED", 10)
    rows = [(i, event("a", i % 60, n=i)[0], 1_767_225_600_000) for i in range(100)]

    def batches():
        yield kafka_batch(0, rows)
        raise ConnectionError("the broker is gone")

    known = {("bids", 0): np.array([0, 1000])}
    with pytest.raises(ConnectionError):
        Task(pipeline(), lake, "dc1", "attempt", tuple(hours(1)), known).land(batches(), "task")
    assert not begun(lake)


def land_on_full_disk(lake, folder, monkeypatch, full: tuple[str, ...]) -> None:
    """The calls of `full` find no room: of Parquet's writer, or the opening of its file."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "Error writing bytes to file", None)

    rows = [(i, event("a", i % 60, n=i)[0], 1_767_225_600_000) for i in range(100)]
    with monkeypatch.context() as disk:
        disk.setattr(writer, "HELD_BYTES", 0)
        disk.setattr("sluice.flow.land.task.writer.ROWS_GATHERED", 10)
        for call in set(full) - {"open"}:
            disk.setattr(pq.ParquetWriter, call, refuse)
        if "open" in full:
            real = type(lake).begin

            def begin(self, key):
                begun = real(self, key)
                link = folder / f"full-{uuid.uuid4().hex}"
                link.symlink_to("/dev/full")
                if begun.path.parent == Path("/proc/self/fd"):
                    begun.path = link
                else:
                    link.replace(begun.path)
                return begun

            disk.setattr(type(lake), "begin", begin)
        with pytest.raises(LakeRefused, match=f"the lake file://{folder}.*make room on its disk"):
            land(lake, rows)


FULL = [("open",), ("close",), ("write_table",), ("write_table", "close")]
# A ParquetWriter that could not close itself tries again when it is collected.
closed_again = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@closed_again
@pytest.mark.parametrize("full", FULL)
def test_a_full_disk_is_told_with_its_remedy_and_no_file_stays(lake, monkeypatch, full):
    land_on_full_disk(lake, lake.root, monkeypatch, full)
    assert not begun(lake)


@closed_again
@pytest.mark.parametrize("full", FULL)
def test_so_is_one_of_temporary_files_where_the_lake_is_a_store(tmp_path, monkeypatch, full):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    land_on_full_disk(MemoryLake(), tmp_path, monkeypatch, full)
    assert not list(tmp_path.iterdir())


def begun(lake) -> list:
    """Files that are being written."""
    return list((lake.root / ".sluice" / "writing").glob("*"))


@pytest.mark.parametrize("held_bytes", [0, 3000, writer.HELD_BYTES])
def test_files_in_memory_and_on_disk_hold_the_same(lake, monkeypatch, held_bytes):
    """3000: more than comes at once, less than a whole file has: it is finished early, and begun anew."""
    monkeypatch.setattr(writer, "HELD_BYTES", held_bytes)
    monkeypatch.setattr("sluice.flow.land.task.writer.ROWS_GATHERED", 3)
    rows = [(i, event(("a", "b")[i % 2], i % 60, n=i)[0], 1_767_225_600_000) for i in range(300)]
    files = land(lake, rows).files
    assert payloads(lake, files) == Counter(value.decode() for _, value, _ in rows)
    assert [file.sha256 for file in files] == [writer.sha256(lake.root / file.key) for file in files]
    assert (len(files) > 2) is (held_bytes == 3000)
    assert not begun(lake)


@pytest.mark.parametrize("held_bytes", [0, writer.HELD_BYTES])
def test_a_lake_that_fails_leaves_no_file_behind(tmp_path, monkeypatch, held_bytes):
    monkeypatch.setattr(writer, "HELD_BYTES", held_bytes)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lake = MemoryLake(outages=1)
    rows = [(i, event(f"type{i}", i % 60)[0], 1_767_225_600_000) for i in range(300)]
    with pytest.raises(LakeUnavailable):
        land(lake, rows)
    assert list(tmp_path.iterdir()) == []


def test_slices_are_told_apart_by_offsets_not_by_times(lake):
    rows = [(i, event("a", 0, n=i)[0], 1_767_225_600_000) for i in range(10)]
    report = land(lake, rows, slices=tuple(hours(3)), edges=[0, 4, 4, 10])
    assert [(s.slice_id, s.first, s.last, s.records) for s in report.seen] == [
        ("2026-01-01T00Z", 0, 3, 4),
        ("2026-01-01T02Z", 4, 9, 6),
    ]
    assert {f.slice_id: f.rows for f in report.files} == {"2026-01-01T00Z": 4, "2026-01-01T02Z": 6}


def test_columns_of_a_file_are_plain_for_any_reader(lake):
    (file,) = land(lake, [(0, event("a")[0], 1_767_225_600_123)]).files
    (row,) = pq.read_table(lake.root / file.key).to_pylist()
    assert row.pop("_timestamp").isoformat() == "2026-01-01T00:00:00.123000+00:00"
    assert row.pop("_event_time").isoformat() == "2026-01-01T00:00:00+00:00"
    assert row == {
        "_payload": event("a")[0].decode(),
        "_type": "a",
        "_cluster": "dc1",
        "_topic": "bids",
        "_partition": 0,
        "_offset": 0,
        "_key": b"k0",
        "_headers": None,
    }
    schema = pq.ParquetFile(lake.root / file.key).schema_arrow
    assert not [field for field in schema if pa.types.is_dictionary(field.type)]


@given(
    st.lists(
        st.tuples(st.integers(0, 9000), st.integers(-1, 1 << 31), st.integers(-17_000_000, 70_000_000)),
        min_size=1,
    )
)
def test_sorting_brings_each_files_rows_together_in_their_order(places):
    order, runs = sort([np.array(column, np.int64) for column in zip(*places, strict=True)])
    order = range(len(places)) if order is None else order.tolist()
    expected = sorted(range(len(places)), key=lambda i: places[i])
    assert list(order) == expected
    assert runs == [(place, places.count(place)) for place in sorted(set(places))]


def test_small_files_of_one_place_become_one(lake, monkeypatch):
    monkeypatch.setattr(task, "hour_name", task.hour_name)
    reports = []
    for number in range(4):
        rows = [(i, event(("a", "b")[i % 2], 30, n=number * 100 + i)[0], 0) for i in range(20)]
        rows.append((20, b"oops", 0))
        known = {("bids", 0): np.array([0, 21])}
        landing = Task(pipeline(max_late=None), lake, "dc1", "attempt", tuple(hours(1)), known)
        reports.append(landing.land([kafka_batch(0, rows)], f"task-{number}"))
    files = [file for report in reports for file in report.files]
    found, kept = merges(lake, "attempt", files)
    assert kept == []
    merged = [job.run(f"merged-{i}") for i, job in enumerate(found)]
    assert sorted((f.type or "", f.hour, f.rows) for f in merged) == [
        ("", "", 4),
        ("a", "2026-01-01T00", 40),
        ("b", "2026-01-01T00", 40),
    ]
    rows, rejected = ([f for f in merged if bool(f.hour) is data] for data in (True, False))
    assert payloads(lake, rows) == payloads(lake, [f for f in files if f.hour])
    assert payloads(lake, rejected) == {b"oops": 4}
    assert [pq.ParquetFile(lake.root / f.key).num_row_groups for f in merged] == [1, 1, 1]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["00", "01"]), st.integers(1, 9 << 20))))
def test_merges_take_every_small_file_once_and_stay_small(found):
    files = [
        WrittenFile("c", "s", t, f"2026-01-01T{h}", f"k{i}", 1, n, "") for i, (t, h, n) in enumerate(found)
    ]
    jobs, kept = merges(None, "attempt", files)
    assert Counter(f.key for job in jobs for f in job.files) + Counter(f.key for f in kept) == Counter(
        f.key for f in files
    )
    for job in jobs:
        assert len(job.files) > 1
        assert len({(f.type, f.hour) for f in job.files}) == 1
        assert sum(f.bytes for f in job.files) <= merge.MERGED_BYTES
        assert all(f.bytes < merge.SMALL_BYTES for f in job.files)


@pytest.mark.parametrize("keys", [[None, None], [None, b"k"]])
def test_columns_of_nulls_are_not_compressed_in_a_small_file(tmp_path, keys):
    rows = pa.table({"_payload": ["a", "b"], "_key": pa.array(keys, pa.binary())})
    sink = pa.BufferOutputStream()
    with columns.writer(sink, rows.schema, columns.empty(rows)) as parquet:
        parquet.write_table(rows)
    found = pq.ParquetFile(sink.getvalue())
    assert found.read() == rows
    group = found.metadata.row_group(0)
    wanted = {"_payload": "ZSTD", "_key": "ZSTD" if any(keys) else "UNCOMPRESSED"}
    assert {group.column(n).path_in_schema: group.column(n).compression for n in range(2)} == wanted
