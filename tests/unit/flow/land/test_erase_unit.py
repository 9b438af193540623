"""An erasure takes rows out of files: all others stay as they are, whatever the pipeline file says now."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.config.event import Event
from sluice.errors import CannotErase
from sluice.flow.land.amend.erase_unit import erase_owed
from sluice.manifest import LandedFile, Manifest
from sluice.slices import Unit
from sluice.state.erasures import unerased
from sluice.state.manifests import read_manifests
from tests.support.erased import ask, entry
from tests.support.fakes import MemoryLake
from tests.support.landed_contents import contents
from tests.support.landing_world import World, event, hours, pipeline
from tests.support.long_form import per_commit
from tests.unit.flow.land.test_landing_crashes import ENOUGH, FreshLake, Killed, Mortal, visible
from tests.unit.flow.land.test_landing_erased import PERSON, array, check, whole
from tests.unit.flow.land.test_remake import BIDS, BY_FIELD, CHANGES, SLICES, landed, spec, units, worlds

UNIT = Unit(next(iter(hours(1))), "dc1")


def manifests(lake: Any) -> dict[Unit, Manifest]:
    return read_manifests(lake, units(spec()))


def table_of(lake: Any, file: LandedFile) -> list[dict]:
    with lake.local(file.key) as path:
        return pq.read_table(path).to_pylist()


@pytest.mark.parametrize("change", per_commit(CHANGES, 6))
def test_what_is_left_is_what_a_landing_without_the_person_has(change: str):
    """The oracle reads Kafka by the file by which the units had landed, and knows the list before."""
    before, _ = (spec(**changes) for changes in CHANGES[change])
    _, lake = landed(before, worlds())
    ask(lake, PERSON)
    erase_owed(lake, units(before))
    world, oracle = World(worlds()), MemoryLake()
    world.resolve(before, oracle, SLICES)
    ask(oracle, PERSON)
    world.land(before, oracle, SLICES)
    assert b'"k1"' not in whole(lake)
    assert unerased(lake, read_manifests(lake, units(before))) == {}
    check(lake, list(read_manifests(lake, units(before)).values()))
    assert bare(contents(lake, units(before))) == bare(contents(oracle, units(before)))


def bare(found: dict[str, tuple[list, Manifest]]) -> dict[str, tuple[list, Manifest]]:
    """Without what only one of them has: what it amends. Rows of counts are numbered with gaps."""

    def row(one: tuple) -> tuple:
        return one if not one[0].startswith("_counts") else tuple(v for v in one if "_offset" not in v)

    return {
        unit: (sorted(map(row, rows)), replace(manifest, amends=(), erasures=0, long_numbers=True))
        for unit, (rows, manifest) in found.items()
    }


def test_each_other_file_stays_and_each_other_row_with_all_its_columns():
    _, lake = landed(spec(), worlds())
    old = manifests(lake)
    rows = {f.key: table_of(lake, f) for m in old.values() for f in m.all_files}
    ask(lake, PERSON)
    erase_owed(lake, units(spec()))
    kept = changed = 0
    for unit, new in manifests(lake).items():
        assert new.amends == ((old[unit].id,) if new != old[unit] else ())
        left = {f.key: f for f in new.all_files}
        for file in old[unit].all_files:
            wanted = (
                [r for r in rows[file.key] if b'"k1"' not in bytes(r["_payload"] or b"", "utf8")]
                if (file.hour)
                else [r for r in rows[file.key] if b'"k1"' not in (r["_payload"] or b"")]
            )
            if file.key in left:
                assert (table_of(lake, left[file.key]), left[file.key]) == (rows[file.key], file)
                kept += 1
                assert wanted == rows[file.key]
            elif wanted:
                changed += 1
                assert wanted in [table_of(lake, f) for f in new.all_files if f.hour == file.hour]
    assert kept > 3 and changed > 3
    named = {f.key for m in manifests(lake).values() for f in m.all_files}
    assert {key for key in lake.objects if key.endswith(".parquet")} == named


def test_a_file_that_reads_none_of_the_others_any_more_takes_none_of_them_away():
    """The time field was renamed in events and file. A remake by it would reject the other 19."""
    log = [event("click", n, grade="k1" if n == 7 else f"user-{n}") for n in range(20)]
    world, lake = World({BIDS: [log]}), MemoryLake()
    world.resolve(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1))
    [file] = read_manifests(lake, [UNIT])[UNIT].files
    rows = table_of(lake, file)
    ask(lake, PERSON)
    erase_owed(lake, [UNIT])
    manifest = read_manifests(lake, [UNIT])[UNIT]
    [left] = manifest.files
    assert table_of(lake, left) == [row for row in rows if '"k1"' not in row["_payload"]]
    assert (manifest.landed, manifest.erased, dict(manifest.rejected_records)) == (19, 1, {})


def avsc(*fields: str) -> str:
    named = [{"name": name, "type": "string"} for name in fields]
    return json.dumps({"type": "record", "name": "Click", "fields": named})


def test_bare_avro_whose_schema_file_has_its_fields_in_another_order_since(tmp_path):
    """Read again by it, each row would have its values exchanged."""
    names = ("type", "at", "who", "to")
    schema = fastavro.parse_schema(json.loads(avsc(*names)))
    messages = []
    for n in range(9):
        out = io.BytesIO()
        texts = ("click", "2026-01-01T00:01:00Z", f"from-{n % 3}", f"to-{n}")
        fastavro.schemaless_writer(out, schema, dict(zip(names, texts, strict=True)))
        messages.append((out.getvalue(), event()[1]))
    (tmp_path / "a.avsc").write_text(avsc(*names))
    form = {**BY_FIELD, "format": {"avro": "a.avsc"}}
    decoded = Event.model_validate(form, context={"folder": tmp_path})
    now = pipeline().model_copy(update={"event": decoded})
    world, lake = World({BIDS: [messages]}), FolderLake(tmp_path / "demo")
    world.resolve(now, lake, hours(1))
    world.land(now, lake, hours(1))
    [file] = read_manifests(lake, [UNIT])[UNIT].files
    rows = table_of(lake, file)
    (tmp_path / "a.avsc").write_text(avsc("type", "at", "to", "who"))
    ask(lake, entry("who=from-1"))
    erase_owed(lake, [UNIT])
    [left] = read_manifests(lake, [UNIT])[UNIT].files
    assert table_of(lake, left) == [row for row in rows if row["_offset"] % 3 != 1]


def test_of_an_array_only_the_elements_go_and_it_stays_counted():
    arrays = pipeline(event={**BY_FIELD, "rows": "array"})
    bad = b'{"type":"click","at":"no time","grade":"k1"}'
    texts = [array("k1", "k0", "k2", "k1"), array("k1"), array(), array("k0"), b"no k1", b"7"]
    texts += [array("k0")[:-1] + b"," + bad + b"]", array("k1")[:-1] + b"," + bad + b"]"]
    world, lake = World({BIDS: [[(text, event()[1]) for text in texts]]}), MemoryLake()
    world.resolve(arrays, lake, hours(1))
    world.land(arrays, lake, hours(1))
    ask(lake, PERSON)
    erase_owed(lake, [UNIT])
    manifest = read_manifests(lake, [UNIT])[UNIT]
    check(lake, [manifest])
    numbers = (manifest.read, manifest.rows, manifest.erased, manifest.rows_erased, manifest.empty)
    assert numbers == (8, 4, 2, 6, 1)
    [file] = manifest.files
    seen = sorted((r["_offset"], r["_row"], json.loads(r["_payload"])["grade"]) for r in table_of(lake, file))
    assert seen == [(0, 1, "k0"), (0, 2, "k2"), (3, 0, "k0"), (6, 0, "k0")]
    assert manifest.kept_by_reason() == {"not JSON": 1, "not an array": 1}
    # Its rows have gaps now, and are whole records all the same.
    ask(lake, entry("grade=k2"))
    erase_owed(lake, [UNIT])
    assert [*read_manifests(lake, [UNIT])[UNIT].amends][-1] == manifest.amends[0]


@pytest.mark.parametrize("rows", ["one", "array"])
@pytest.mark.parametrize("mask", [{}, {"mask": {"header:h": "keep_first"}}], ids=["plain", "masked"])
def test_counts_by_headers_lose_the_rows_that_go(rows: str, mask: dict):
    """Each record's last header counts, one that is no UTF-8 too, and a record may lack it."""
    by = {"h": "header:h", "grade": "grade"}
    form = {**BY_FIELD, "rows": rows}
    counted = pipeline(event=form, counts=[{"table": "db.traffic", "by": by}], **mask)
    given = [[("h", b"xy")], [("h", b"xy")], None, [("h", b"y"), ("h", b"\xff")], [("g", b"xy")]]
    texts = [event(grade="k1" if n % 2 else "k2") for n in range(5)]
    log = [(b"[%s]" % text if rows == "array" else text, at) for text, at in texts]
    records = [(*one, headers) for one, headers in zip(log, given, strict=True)]
    world, lake = World({BIDS: [records]}), MemoryLake()
    world.resolve(counted, lake, hours(1))
    world.land(counted, lake, hours(1))
    ask(lake, PERSON)
    erase_owed(lake, [UNIT])
    manifest = read_manifests(lake, [UNIT])[UNIT]
    check(lake, [manifest])
    [traffic] = manifest.traffic
    sums = [json.loads(row["_payload"]) for file in traffic.files for row in table_of(lake, file)]
    found = {(one["h"], one["grade"], one["count"]) for one in sums}
    assert found == {("x***" if mask else "xy", "k2", 1), (None, "k2", 2)}
    assert dict(traffic.sums) == {"click": 3}


def test_of_one_type_it_is_the_type_as_which_a_row_landed_and_all_that_was_rejected():
    log = [event(kind, n, grade="k1") for n, kind in enumerate(("click", "bid"))]
    log += [(text.replace(b"2026", b"soon"), at) for text, at in log]
    world, lake = World({BIDS: [log]}), MemoryLake()
    world.resolve(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1))
    ask(lake, entry("grade=k1", kind="click"))
    erase_owed(lake, [UNIT])
    manifest = read_manifests(lake, [UNIT])[UNIT]
    assert (manifest.rows_by_type(), manifest.kept, manifest.erased) == ({"bid": 1}, 0, 3)


def test_killed_before_any_step_and_repeated():
    def prepared() -> MemoryLake:
        lake, world = FreshLake(), World(worlds())
        world.resolve(spec(), lake, SLICES)
        world.land(spec(), lake, SLICES)
        ask(lake, PERSON)
        return lake

    oracle = prepared()
    erase_owed(Mortal(oracle, ENOUGH), units(spec()))
    expected, kills = visible(oracle), 0
    while True:
        lake = prepared()
        try:
            erase_owed(Mortal(lake, kills), units(spec()))
            break
        except Killed:
            kills += 3
        erase_owed(lake, units(spec()))
        assert visible(lake) == expected, f"killed before step {kills - 3}"
        assert b'"k1"' not in whole(lake)
    assert kills > 30


@pytest.fixture(autouse=True)
def temporary_files_of_its_own(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.mark.parametrize("damage", [None, b"no Parquet"])
def test_a_file_that_is_missing_or_damaged_is_named_and_nothing_changes(damage: bytes | None):
    log = [event("click", n, grade=f"k{n}") for n in range(4)]
    world, lake = World({BIDS: [log]}), MemoryLake()
    world.resolve(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1))
    manifest = read_manifests(lake, [UNIT])[UNIT]
    ask(lake, PERSON)
    lake.delete([manifest.files[0].key])
    if damage is not None:
        lake.put(manifest.files[0].key, damage)
    with pytest.raises(CannotErase, match=manifest.files[0].key):
        erase_owed(lake, [UNIT])
    assert read_manifests(lake, [UNIT])[UNIT] == manifest
    assert not [key for key in lake.objects if key.startswith("_attempts/")]
