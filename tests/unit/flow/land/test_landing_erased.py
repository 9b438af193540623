"""What is on the erasure list lands nowhere, from Kafka or out of the lake, and every equation counts it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from sluice.flow.contents.check_lake_rows import IdentityCounter
from sluice.flow.contents.read_rows import read
from sluice.flow.land.amend.erase_unit import erase_owed
from sluice.flow.verify.check_files import check_conservation
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import LandedFile, Manifest
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.erased import ask, entry, is_of
from tests.support.fakes import MemoryLake
from tests.support.landed_contents import contents
from tests.support.landing_world import GAP, World, event, hours, pipeline, rows_in
from tests.support.long_form import per_commit
from tests.support.verified import FACTS, FOUND
from tests.unit.flow.land.test_landing_crashes import ENOUGH, FreshLake, Killed, Mortal, visible
from tests.unit.flow.land.test_remake import (
    BIDS,
    BY_FIELD,
    CHANGES,
    SLICES,
    landed,
    remade,
    spec,
    units,
    worlds,
)

PERSON = entry("grade=k1")


def whole(lake: MemoryLake) -> bytes:
    """Every byte of every file's columns, decompressed, and every other object."""
    found = []
    for key, (data, _) in lake.objects.items():
        if key.endswith(".parquet"):
            with lake.local(key) as path:
                rows = pq.read_table(path).to_pylist()
            found.append(repr(rows).encode())
        else:
            found.append(data)
    return b"\n".join(found)


def check(lake: MemoryLake, manifests: list[Manifest]) -> None:
    for manifest in manifests:
        facts = replace(FACTS, statuses=(replace(FOUND[0], manifest=manifest),))
        assert list(check_conservation(facts, Repairs("demo"))) == []
        counter = IdentityCounter(manifest)
        for file in (*manifest.files, *manifest.rejected):
            with lake.local(file.key) as path, pq.ParquetFile(path) as parquet:
                for rows in read(parquet, headers=False):
                    counter.take(rows)
        assert list(counter.faults()) == []
        gone = sum(count.erased for count in manifest.counts)
        assert manifest.read == manifest.parsed + sum(manifest.rejected_records.values()) + gone
        assert manifest.erased == gone


@pytest.mark.parametrize("change", per_commit(CHANGES, 5))
def test_out_of_the_lake_as_out_of_kafka(change: str):
    """Landed with the person, and remade without; the oracle is landed by the same list."""
    before, after = (spec(**changes) for changes in CHANGES[change])
    world, lake = landed(before, worlds())
    assert b'"k1"' in whole(lake)
    ask(lake, PERSON)
    remade(world, lake, after)
    assert b'"k1"' not in whole(lake)
    found = contents(lake, units(after))
    check(lake, list(read_manifests(lake, units(after)).values()))
    world, oracle = World(worlds()), MemoryLake()
    world.resolve(before, oracle, SLICES)
    ask(oracle, PERSON)
    world.land(after, oracle, SLICES)
    assert contents(oracle, units(after)) == found
    assert sum(manifest.erased for _, manifest in found.values()) > 20
    # What is erased stays counted when it is made again.
    remade(world, lake, after, "third")
    assert contents(lake, units(after)) == found


def test_exactly_the_rows_of_the_person_are_gone():
    world, lake = landed(spec(), worlds())
    before = list(rows_in(lake, list(read_manifests(lake, units(spec())).values())))
    ask(lake, PERSON)
    remade(world, lake, spec())
    after = rows_in(lake, list(read_manifests(lake, units(spec())).values()))
    assert after == [row for row in before if not is_of(row[5].encode(), "grade", "k1")]
    assert 0 < len(after) < len(before)


def array(*grades: str) -> bytes:
    return b"[" + b",".join(event("click", 1, grade=grade)[0] for grade in grades) + b"]"


def numbered(lake: MemoryLake, files: Iterable[LandedFile]) -> set[tuple[int, int | None, str]]:
    """Offset and number of each row, and its grade or what else it is."""
    found: set[tuple[int, int | None, str]] = set()
    for file in files:
        with lake.local(file.key) as path:
            for row in pq.read_table(path).to_pylist():
                event = json.loads(row["_payload"]) if "_type" in row else row["_payload"].decode()
                found.add((row["_offset"], row["_row"], event["grade"] if "_type" in row else event))
    return found


@pytest.mark.parametrize("how", ["fill", "erase", "reland", "remake"])
def test_elements_keep_their_numbers_where_others_are_erased(how: str):
    arrays, hour = pipeline(event={**BY_FIELD, "rows": "array"}), [Unit(piece, "dc1") for piece in hours(1)]
    mixed = b"[7," + array("k1", "k2", "k1")[1:-1] + b",8]"
    texts = [array("k1", "k0", "k2", "k1"), array("k1"), array(), array("k0"), b"no k1", b"7", mixed]
    stamp = event("click", 1)[1]
    world, lake = World({BIDS: [[(text, stamp) for text in texts]]}), MemoryLake()
    world.resolve(arrays, lake, hours(1))
    if how != "fill":
        world.land(arrays, lake, hours(1))
    ask(lake, PERSON)
    if how == "erase":
        erase_owed(lake, hour)
    else:
        world.land(arrays, lake, hours(1), how, how)
    for more in (0, 1):
        [manifest] = read_manifests(lake, hour).values()
        check(lake, [manifest])
        assert (manifest.read, manifest.erased, manifest.empty) == (7, 1, 1)
        assert (manifest.rows, manifest.rows_erased) == (6 - 2 * more, 5 + 2 * more)
        assert manifest.kept_by_reason() == {"not JSON": 1, "not an array": 1, "not an object": 2}
        k2 = set() if more else {(0, 2, "k2"), (6, 2, "k2")}
        assert numbered(lake, manifest.files) == {(0, 1, "k0"), (3, 0, "k0"), *k2}
        rejected = numbered(lake, manifest.rejected)
        assert rejected == {(4, None, "no k1"), (5, None, "7"), (6, 0, "7"), (6, 4, "8")}
        ask(lake, entry("grade=k2"))
        world.land(arrays, lake, hours(1), "remake", "again")


def test_by_the_records_key_also_what_has_no_bytes():
    log = [(*event("click", n), None, b"k%d" % (n % 3)) for n in range(9)] + [
        (None, event("click", 9)[1], None, b"k1")
    ]
    world, lake = World({BIDS: [log]}), MemoryLake()
    world.resolve(pipeline(), lake, hours(1))
    ask(lake, entry("_key=k1"))
    world.land(pipeline(), lake, hours(1))
    [manifest] = read_manifests(lake, [Unit(piece, "dc1") for piece in hours(1)]).values()
    assert (manifest.landed, manifest.erased, dict(manifest.rejected_records)) == (6, 4, {})
    assert {row[4] % 3 for row in rows_in(lake, [manifest])} == {0, 2}


@pytest.mark.parametrize(
    ("ask_for", "left"),
    [
        (entry("grade=k1", kind="click"), ["bid k0", "bid k1", "click k0"]),
        (entry("grade=k1", start="2026-01-01T01:00:00Z"), ["bid k0", "bid k1", "click k0", "click k1"]),
        (entry("grade=k1", until="2026-01-01T00:00:00Z"), ["bid k0", "bid k1", "click k0", "click k1"]),
        (entry("grade=k1", until="2026-01-01T01:00:00Z"), ["bid k0", "click k0"]),
        (entry("grade=k1", "grade=k0"), []),
        (entry("_key=k1", kind="click"), ["bid k0", "bid k1", "click k0"]),
        (entry("_key=k1", kind="bid"), ["bid k0", "bid k1", "click k0", "click k1"]),
    ],
)
def test_only_its_type_and_its_slices(ask_for: Any, left: list[str]):
    log = [event(kind, n, grade=grade) for n, kind in enumerate(("click", "bid")) for grade in ("k0", "k1")]
    world, lake = World({BIDS: [log]}), MemoryLake()
    world.resolve(pipeline(), lake, hours(1))
    ask(lake, ask_for)
    world.land(pipeline(), lake, hours(1))
    manifests = list(read_manifests(lake, [Unit(piece, "dc1") for piece in hours(1)]).values())
    assert sorted(f"{row[6]} {json.loads(row[5])['grade']}" for row in rows_in(lake, manifests)) == left


def test_lines_that_were_shipped_twice_are_erased_with_their_copies():
    once = pipeline(event={**BY_FIELD, "batch": {"header": "sluice_batch"}})
    value, stamp = event("click", 1, grade="k1")
    other = event("click", 1, grade="k0")[0]
    log = [(text, stamp, [("sluice_batch", b"b:%d" % line)]) for text, line in ((value, 0), (other, 1)) * 2]
    world, lake = World({BIDS: [log]}), MemoryLake()
    world.resolve(once, lake, hours(1))
    ask(lake, PERSON)
    world.land(once, lake, hours(1))
    [manifest] = read_manifests(lake, [Unit(piece, "dc1") for piece in hours(1)]).values()
    assert (manifest.landed, manifest.erased, dict(manifest.rejected_records)) == (1, 2, {"shipped twice": 1})
    assert b'"k1"' not in whole(lake)


@pytest.mark.parametrize("mode", per_commit(["remake", "reland"]))
def test_killed_before_any_step_and_repeated(mode: str):
    def prepared() -> tuple[World, MemoryLake]:
        lake, logs = FreshLake(), worlds()
        logs[BIDS][0][5] = (GAP, logs[BIDS][0][5][1])
        world = World(logs)
        world.resolve(spec(), lake, SLICES)
        world.land(spec(), lake, SLICES)
        ask(lake, PERSON)
        return world, lake

    world, oracle = prepared()
    counting = Mortal(oracle, ENOUGH)
    world.land(spec(), counting, SLICES, mode, "one")
    expected, kills = visible(oracle), 0
    while True:
        world, lake = prepared()
        try:
            world.land(spec(), Mortal(lake, kills), SLICES, mode, "one")
            break
        except Killed:
            kills += 3
        world.land(spec(), lake, SLICES, mode, "one")
        assert visible(lake) == expected, f"killed before step {kills - 3}"
        assert b'"k1"' not in whole(lake)
    assert kills > 30


@pytest.fixture(autouse=True)
def temporary_files_of_its_own(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
