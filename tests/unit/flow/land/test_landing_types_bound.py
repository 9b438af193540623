"""Types that a task knows, and files that types and event hours make together, have a bound. Every row has
its place or its reason."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.flow.land.task import type_folders
from sluice.flow.land.task.type_folders import OVERFLOW, Admission, TypeCodes
from sluice.slices import Unit, to_ms
from sluice.state.manifests import read_manifests
from tests.support.landing_world import START, World, hours, pipeline

BIDS = ("dc1", "bids")
Row = tuple[str, str]


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    return FolderLake(tmp_path / "demo")


def landed(lake: FolderLake, values: list[bytes], **spec) -> tuple[Counter, Counter, list]:
    """(folder's type, type, event hour) of the rows, (reason, type) of rejected ones, and the files."""
    own = pipeline(**spec)
    world = World({BIDS: [[(value, to_ms(START)) for value in values]]})
    world.resolve(own, lake, hours(1))
    world.land(own, lake, hours(1), rows_per_read=100_000)
    manifest = read_manifests(lake, [Unit(next(iter(hours(1))), "dc1")]).popitem()[1]
    rows, refused = Counter(), Counter()
    for file in manifest.files:
        folder = file.key.split("/")[0].removeprefix("type=")
        for row in pq.read_table(lake.root / file.key).to_pylist():
            told = json.loads(row["_payload"])
            assert row["_type"] == told["type"] and folder in (told["type"], "_overflow")
            assert file.hour == told["at"][:13]
            rows[folder, told["type"], file.hour] += 1
    for file in manifest.rejected:
        for row in pq.read_table(lake.root / file.key).to_pylist():
            refused[row["_reason"], json.loads(row["_payload"])["type"]] += 1
    counted = Counter(manifest.rejected_records) + Counter(manifest.rejected_elements)
    assert counted == Counter(reason for reason, _ in refused.elements())
    return rows, refused, list(manifest.files)


def told(kind: str, late: int = 0) -> dict[str, str]:
    return {"type": kind, "at": START.subtract(hours=late).isoformat(timespec="seconds")}


@pytest.mark.parametrize("count", [20, 21, 60])
@pytest.mark.parametrize("arrays", [False, True])
def test_types_of_a_task_have_a_bound(lake, monkeypatch, count: int, arrays: bool):
    """Messages that are arrays bring any number of types. Those under `tables` have no bound."""
    monkeypatch.setattr(type_folders, "MOST_TYPES", 20)
    kinds = [f"k{n:02}" for n in range(count)] + ["click", "k00", f"k{count - 1:02}"]
    events = [told(kind) for kind in kinds]
    values = [json.dumps(events[at : at + 7]) for at in range(0, len(events), 7)]
    event = {"type": {"field": "type"}, "time": {"field": "at"}}
    spec = {"event": {**event, "rows": "array"}} if arrays else {"event": event}
    sent = [text.encode() for text in (values if arrays else map(json.dumps, events))]
    rows, refused, _ = landed(lake, sent, **spec)
    good = [kind for kind in kinds if kind == "click" or int(kind[1:]) < 20]
    assert Counter(kind for _, kind, _ in rows.elements()) == Counter(good)
    assert refused == Counter(("too many types", kind) for kind in kinds if kind not in good)


@pytest.mark.parametrize("hour_count", [4, 5, 30])
def test_files_of_types_and_hours_have_a_bound(lake, monkeypatch, hour_count: int):
    """Beyond it a type goes to the overflow, whole; none is rejected, and those under `tables` stay."""
    monkeypatch.setattr(type_folders, "MOST_FILES", 40)
    events = [told(kind, late) for late in range(hour_count) for kind in (*map(str, range(9)), "click")]
    rows, refused, files = landed(lake, [json.dumps(one).encode() for one in events])
    assert Counter((kind, hour) for _, kind, hour in rows.elements()) == Counter(
        (one["type"], one["at"][:13]) for one in events
    )
    assert not refused
    folders = {kind: {folder for folder, own, _ in rows if own == kind} for _, kind, _ in rows}
    assert folders.pop("click") == {"click"}
    if hour_count == 4:
        assert folders == {kind: {kind} for kind in folders}
    elif hour_count == 30:
        assert folders == {kind: {"_overflow"} for kind in folders}
        assert len(files) <= 2 * 40 + 2 * hour_count


def test_admitted_files_are_counted_by_slice():
    admission = Admission({"click"}, 1_000)
    names = [f"t{n}" for n in range(200)] + ["click"]
    slices, hours_ = np.repeat([0, 1], 201 * 100), np.tile(np.arange(100), 2 * 201)
    types = np.tile(np.repeat(np.arange(201, dtype=np.int32), 100), 2)
    found = admission.codes(slices, types, hours_, names)
    kept = Counter(slices[(found != OVERFLOW) & (types != 200)].tolist())
    assert kept == {0: type_folders.MOST_FILES, 1: type_folders.MOST_FILES}
    assert (found[types == 200] == 200).all()
    again = admission.codes(slices, types, hours_, names)
    assert again.tolist() == found.tolist()


def test_types_at_the_bound_are_known_for_ever(monkeypatch):
    monkeypatch.setattr(type_folders, "MOST_TYPES", 3)
    codes = TypeCodes({"click"})
    found, refused = codes.encode(pa.array(["a", "b", "click", "c", "d", "a"]))
    assert (found.tolist(), refused) == ([0, 1, 2, 3, -1, 0], {4: "too many types"})
    found, refused = codes.encode(pa.array(["c", "e", "click", "a"]))
    assert (found.tolist(), refused) == ([3, -1, 2, 0], {1: "too many types"})
    assert codes.names == ["a", "b", "click", "c"]


def test_a_row_that_does_not_land_uses_up_no_type(monkeypatch):
    """Not its own type's name, nor the place of one that comes after it."""
    monkeypatch.setattr(type_folders, "MOST_TYPES", 2)
    codes, lands = TypeCodes(), np.array([False, True, False, True, True, False])
    found, refused = codes.encode(pa.array(["a", "b", "c", "a", "c", "c"]), lands)
    assert codes.names == ["b", "a"]
    assert (found[lands].tolist(), refused) == ([0, 1, -1], {4: "too many types"})
