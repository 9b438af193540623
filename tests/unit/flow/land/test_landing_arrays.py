"""Messages that are arrays, from end to end: rows, rejected rows, and the counts that tell them apart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.errors import Conservation
from sluice.flow.land.conservation import check_rows
from sluice.flow.land.task.decode import elements
from sluice.flow.land.task.opened import exploded
from sluice.flow.land.task.reports import SeenOffsets, WrittenFile
from sluice.flow.verify.check_files import _sums
from sluice.manifest import decode, encode
from sluice.slices import Slice, Unit
from sluice.state.manifests import read_manifests
from tests.support.landing_world import START, World, event, hours, pipeline, record_table

BIDS = ("dc1", "bids")
ARRAYS = {"type": {"field": "type"}, "time": {"field": "at"}, "rows": "array"}
STAMP = event()[1]
COUNTED = pa.proxy_memory_pool(pa.default_memory_pool())  # it has to outlive what is in it


def one(kind: str, minute: float = 0, **more: object) -> bytes:
    return event(kind, minute, **more)[0]


# Offset by offset: the message, and by hand what becomes of it (type, row, bytes), None for a rejected one.
A, B, C, D = one("click", 5, n=1), one("bid", 6), one("click", 65), one("click", 7, s="é")
NO_TYPE, BROKEN = b'{"at":"2026-01-01T00:01:00Z"}', b'{"type":"x","at":"2026-01-01T00:01:00Z","s":"\xff"}'
MESSAGES = [
    b"[" + A + b", " + B + b" ," + C + b"]",
    b"[]",
    b"[" + NO_TYPE + b"," + D + b",7," + BROKEN + b"]",
    b"{}",
    b"[" + A + b"]",
    b" [ ] ",
    b"[" + A + b",",
    None,
]
ROWS = {
    ("click", "00", 0, 0, A),
    ("bid", "00", 0, 1, B),
    ("click", "01", 0, 2, C),
    ("click", "00", 2, 1, D),
    ("click", "00", 4, 0, A),
}
REJECTED = {
    (2, 0, "no type", NO_TYPE),
    (2, 2, "not an object", b"7"),
    (2, 3, "not UTF-8", BROKEN),
    (3, None, "not an array", b"{}"),
    (6, None, "not JSON", MESSAGES[6]),
    (7, None, "no value", None),
}


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    return FolderLake(tmp_path / "demo")


def landed(lake, spec, log, **options):
    world = World({BIDS: [[(message, STAMP) for message in log]]})
    world.resolve(spec, lake, hours(1))
    world.land(spec, lake, hours(1), **options)
    return read_manifests(lake, [Unit(Slice(START, spec.slice), "dc1")]).popitem()[1]


def rows(lake, files) -> list[dict]:
    found: list[dict] = []
    for file in files:
        with lake.local(file.key) as path:
            found += ({**row, "key": file.key} for row in pq.read_table(path).to_pylist())
    return found


@pytest.mark.parametrize("options", [{}, {"rows_per_read": 1}, {"twice": True}])
def test_each_element_lands_once_with_its_number_and_its_bytes(lake, options):
    manifest = landed(lake, pipeline(event=ARRAYS), MESSAGES, **options)
    found = [
        (r["_type"], r["key"].partition("hour=")[2][:2], r["_offset"], r["_row"], r["_payload"].encode())
        for r in rows(lake, manifest.files)
    ]
    assert len(found) == len(ROWS)
    assert set(found) == ROWS
    assert {r["_key"] for r in rows(lake, manifest.files) if r["_offset"] == 2} == {b"k2"}
    rejected = [(r["_offset"], r["_row"], r["_reason"], r["_payload"]) for r in rows(lake, manifest.rejected)]
    assert len(rejected) == len(REJECTED)
    assert set(rejected) == REJECTED


def test_records_and_rows_are_counted_apart(lake):
    manifest = landed(lake, pipeline(event=ARRAYS), MESSAGES)
    assert (manifest.read, manifest.parsed, manifest.empty) == (8, 5, 2)
    assert manifest.rejected_records == {"no value": 1, "not JSON": 1, "not an array": 1}
    assert (manifest.rows, manifest.landed, manifest.kept) == (8, 5, 6)
    assert manifest.rejected_elements == {"no type": 1, "not UTF-8": 1, "not an object": 1}
    assert manifest.rows_by_type() == {"bid": 1, "click": 4}
    assert [(c.read, c.rejected_records, c.rows, c.rejected_elements) for c in manifest.counts] == [
        (8, 3, 8, 3)
    ]
    assert decode(encode(manifest), "x") == manifest
    assert list(_sums(manifest)) == []


WRONG = [
    {"rows": 9},
    {"rows": None},
    {"rejected_elements": {}},
    {"rejected_records": {"no value": 2}},
    {"empty": 0},
    {"files": ()},
    {"rejected": ()},
]


@pytest.mark.parametrize("change", WRONG, ids=lambda change: next(iter(change)))
def test_verify_sees_a_manifest_whose_counts_do_not_add_up(lake, change):
    few = [b"[" + A + b"]", b"[]", b"[7]", b"{"]
    manifest = landed(lake, pipeline(event=ARRAYS), few)
    assert list(_sums(manifest)) == []
    assert list(_sums(replace(manifest, **change)))


def test_the_event_as_a_whole_goes_without_row_numbers(lake):
    manifest = landed(lake, pipeline(), [A, B])
    assert (manifest.rows, manifest.landed) == (None, 2)
    assert "_row" not in rows(lake, manifest.files)[0]


def test_type_and_time_may_be_the_messages_own(lake):
    spec = pipeline(event={"type": {"topic": True}, "time": {"record": True}, "rows": "array"})
    manifest = landed(lake, spec, [b'[{"a":1},{"a":2}]', b"[3]"])
    assert manifest.rows_by_type() == {"bids": 2}
    assert [r["_payload"] for r in rows(lake, manifest.rejected)] == [b"3"]
    assert json.loads(rows(lake, manifest.files)[1]["_payload"]) == {"a": 2}


def file(rows: int, hour: str = "2026-01-01T00") -> WrittenFile:
    return WrittenFile("dc1", "s", "click" if hour else None, hour, "k", rows, 1, "")


def seen(records: int, rejected_records: int = 0, rows: int | None = None, lost: int = 0) -> SeenOffsets:
    reasons, lost_reasons = {"not JSON": rejected_records}, {"no type": lost}
    return SeenOffsets("dc1", "s", "t", 0, 0, records - 1, records, (), reasons, rows, lost_reasons)


@pytest.mark.parametrize(
    ("parts", "files", "fits"),
    [
        ([seen(5, 1)], [file(4), file(1, "")], True),
        ([seen(5, 1)], [file(5)], False),
        ([seen(5, 1)], [file(4)], False),
        ([seen(5, 1, 20, 3)], [file(17), file(4, "")], True),
        ([seen(5, 1, 20, 3)], [file(16), file(4, "")], False),
        ([seen(5, 1, 20, 3)], [file(17), file(1, "")], False),
        ([seen(5, 1, 20, 3), seen(1, 0, 0)], [file(10), file(7), file(4, "")], True),
        ([], [], True),
        ([], [file(1)], False),
    ],
)
def test_a_unit_commits_only_with_all_its_rows_in_files(parts, files, fits):
    unit = Unit(Slice(START, pipeline().slice), "dc1")
    if fits:
        check_rows(unit, parts, files)
    else:
        with pytest.raises(Conservation, match="nothing was committed"):
            check_rows(unit, parts, files)


def test_an_array_is_not_held_beside_each_of_its_rows():
    """Of 60 messages of 80 KB with 300 rows each that would be 1.5 GB."""
    rows, size = 2_000, 1 << 20
    records = record_table([b"[" + b",".join([b"{}"] * rows) + b" " * size + b"]"])
    usual = pa.default_memory_pool()
    pa.set_memory_pool(COUNTED)
    try:
        [found] = exploded(records, elements)
    finally:
        pa.set_memory_pool(usual)
    assert found.events.select(["_payload", "_offset", "_row"]).to_pylist() == [
        {"_payload": b"{}", "_offset": 0, "_row": number} for number in range(rows)
    ]
    assert 0 < COUNTED.max_memory() < size
