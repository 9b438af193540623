"""A retry brings in rejected records by the file of now; no row that has landed changes or leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pendulum
import pyarrow.parquet as pq
import pytest

from sluice.config.pipeline import Pipeline
from sluice.flow.land.amend.retry_unit import Tried, UnitRetry
from sluice.flow.land.reject_reasons import NO_FIX
from sluice.flow.rejected.rejections import retryable
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.file_moves import finish_moves
from sluice.state.manifests import read_manifests
from sluice.state.rules import RulesReader
from tests.support.erased import ask, entry
from tests.support.fakes import MemoryLake
from tests.support.landing_world import World, event, hours, pipeline
from tests.support.long_form import per_commit
from tests.unit.flow.land.test_landing_crashes import ENOUGH, FreshLake, Killed, Mortal, visible
from tests.unit.flow.land.test_landing_erased import array, check, whole
from tests.unit.flow.land.test_remake import BIDS, BY_FIELD, SLICES, any_file, landed, spec, units, worlds

UNIT = Unit(next(iter(hours(1))), "dc1")
NOW = pendulum.datetime(2026, 2, 2)


def retry(lake: Any, now: Pipeline, of: list[Unit]) -> list[Tried]:
    """The forecast says what is done."""
    done = []
    for unit, manifest in read_manifests(lake, of).items():
        expected = UnitRetry(now, lake).forecast(unit, manifest)
        done.append(UnitRetry(now, lake).retry(unit, manifest, NOW))
        assert done[-1] == expected
    return done


def rows(lake: Any, manifest: Manifest, rejected: bool = False) -> list[tuple]:
    """Folder and identity of each row, and all of its columns."""
    found = []
    for file in manifest.rejected if rejected else manifest.files:
        with lake.local(file.key) as path:
            for row in pq.read_table(path).to_pylist():
                place = (row["_topic"], row["_partition"], row["_offset"], row.get("_row"))
                found.append((place, file.key.rpartition("/")[0], repr(sorted(row.items()))))
    return sorted(found, key=repr)


@pytest.mark.parametrize("seed", per_commit(range(60), 8))
def test_it_brings_in_what_a_landing_by_the_file_of_now_would_and_leaves_all_else(seed: int):
    chance = Random(seed)
    before, after = any_file(chance), any_file(chance)
    if before.event.arrays and not after.event.arrays:
        after = after.model_copy(update={"event": after.event.model_copy(update={"rows": "array"})})
    world, lake = landed(before, worlds())
    of = units(before)
    old = read_manifests(lake, of)
    rows_before = {unit: rows(lake, m) for unit, m in old.items()}
    rejected_before = {unit: rows(lake, m, rejected=True) for unit, m in old.items()}
    done = {tried.unit: tried for tried in retry(lake, after, of)}
    world, oracle = World(worlds()), MemoryLake()
    world.resolve(after, oracle, SLICES)
    world.land(after, oracle, SLICES)
    new = read_manifests(lake, of)
    check(lake, list(new.values()))
    for unit, manifest in new.items():
        now = rows(lake, manifest)
        assert [row for row in now if row in rows_before[unit]] == rows_before[unit]
        records = {place[:3] for place, _, text in rejected_before[unit] if tryable(text)}
        landed_now = [row for row in rows(lake, manifest) if row not in rows_before[unit]]
        fresh = read_manifests(oracle, [unit])[unit] if unit.cluster in after.clusters else None
        if fresh is not None and not before.event.arrays:
            wanted = [row for row in rows(oracle, fresh) if row[0][:3] in records]
            assert [(p, t) for p, _, t in landed_now] == [(p, t) for p, _, t in wanted]
        left = rows(lake, manifest, rejected=True)
        untried = [row for row in rejected_before[unit] if not tryable(row[2])]
        assert all(row in left for row in untried)
        if manifest.generation == 1:
            assert done[unit].came_in == 0 and not landed_now
        else:
            assert manifest.amends == (old[unit].id,)
            assert done[unit].came_in > 0
            assert [
                t for t in (manifest.rules, *manifest.retried) if RulesReader(lake).landing(t) is None
            ] == []


def tryable(row: str) -> bool:
    return not any(f"'_reason', '{reason}'" in row for reason in NO_FIX)


def test_a_net_gain_takes_no_good_row_with_it():
    """20 rows have the old field, 30 rejected ones the new one: a remake would exchange them."""
    old = [event("click", n, grade=f"old-{n}") for n in range(20)]
    new = [(text.replace(b'"at"', b'"when"').replace(b"old", b"new"), at) for text, at in old + old[:10]]
    world, lake = World({BIDS: [[*old, *new]]}), MemoryLake()
    world.resolve(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1))
    before = rows(lake, read_manifests(lake, [UNIT])[UNIT])
    now = pipeline(event={"type": {"field": "type"}, "time": {"field": "when"}})
    [tried] = retry(lake, now, [UNIT])
    assert (tried.came_in, dict(tried.tried), dict(tried.still)) == (30, {"no time": 30}, {})
    manifest = read_manifests(lake, [UNIT])[UNIT]
    assert (manifest.landed, manifest.refused) == (50, 0)
    assert [row for row in rows(lake, manifest) if row in before] == before
    assert len(before) == 20


def test_of_the_reasons_that_are_asked_for_and_no_others():
    """The file cures two; what is left of the other comes in by the next call."""
    text, at = event("click", 1, grade="k1")
    log = [(text.replace(b'"at"', b'"when"'), at), (text.replace(b'"type"', b'"kind"'), at), (b"{", at)]
    world, lake = World({BIDS: [log]}), MemoryLake()
    world.resolve(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1))
    now = pipeline(event={"type": {"field": "kind"}, "time": {"record": True}})
    old = read_manifests(lake, [UNIT])[UNIT]
    type_alone = UnitRetry(now, lake, "no type".__eq__)
    tried = Tried(UNIT, {"no type": 1}, {}, {("click", "2026-01-01T00"): 1})
    assert type_alone.forecast(UNIT, old) == tried == type_alone.retry(UNIT, old, NOW)
    manifest = read_manifests(lake, [UNIT])[UNIT]
    check(lake, [manifest])
    assert dict(manifest.refused_by_reason()) == {"no time": 1, "not JSON": 1}


def test_of_an_array_only_the_rejected_element_comes_in_with_its_own_number():
    arrays = pipeline(event={**BY_FIELD, "rows": "array"}, counts=[{"table": "db.n", "by": ["grade"]}])
    late = b'{"type":"click","when":"2026-01-01T00:05:00Z","grade":"k9"}'
    texts = [array("k0", "k1")[:-1] + b"," + late + b"," + array("k2")[1:], array("k3"), b"7"]
    world, lake = World({BIDS: [[(text, event()[1]) for text in texts]]}), MemoryLake()
    world.resolve(arrays, lake, hours(1))
    world.land(arrays, lake, hours(1))
    before = rows(lake, read_manifests(lake, [UNIT])[UNIT])
    event_now = {"type": {"field": "type"}, "time": {"field": "when"}, "rows": "array"}
    now = arrays.model_copy(update={"event": pipeline(event=event_now).event})
    [tried] = retry(lake, now, [UNIT])
    assert (tried.came_in, dict(tried.still)) == (1, {"not an array": 1})
    manifest = read_manifests(lake, [UNIT])[UNIT]
    check(lake, [manifest])
    after = rows(lake, manifest)
    assert [row for row in after if row in before] == before
    [(place, _, text)] = [row for row in after if row not in before]
    assert place == ("bids", 0, 0, 2) and "k9" in text
    [traffic] = manifest.traffic
    assert dict(traffic.sums) == {"click": 5}
    with lake.local(traffic.files[0].key) as path:
        counted = [json.loads(row["_payload"]) for row in pq.read_table(path).to_pylist()]
    assert sorted((row["grade"], row["count"]) for row in counted) == [(f"k{n}", 1) for n in (0, 1, 2, 3, 9)]


def test_who_is_erased_is_not_brought_back_by_a_schema_that_reads_them_now():
    """What could not be read when the list was applied may be readable now."""
    text = event("click", 1, grade="k1")[0].replace(b'"at"', b'"when"')
    log = [(text, event()[1]), (text.replace(b"k1", b"k2"), event()[1])]
    world, lake = World({BIDS: [log]}), MemoryLake()
    world.resolve(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1))
    ask(lake, entry("grade=k1"))
    now = pipeline(event={"type": {"field": "type"}, "time": {"field": "when"}})
    [tried] = retry(lake, now, [UNIT])
    assert (tried.came_in, tried.erased) == (1, 1)
    manifest = read_manifests(lake, [UNIT])[UNIT]
    check(lake, [manifest])
    assert (manifest.landed, manifest.erased) == (1, 1)
    assert b'"k1"' not in whole(lake)


def test_killed_before_any_step_and_repeated():
    now = spec(event={"type": {"field": "type"}, "time": {"field": "at", "format": "epoch_ms"}})

    def prepared() -> MemoryLake:
        lake, world = FreshLake(), World(worlds())
        world.resolve(spec(), lake, SLICES)
        world.land(spec(), lake, SLICES)
        return lake

    def all_of(lake: Any) -> None:
        for unit, manifest in finish_moves(lake, units(spec())).items():
            UnitRetry(now, lake).retry(unit, manifest, NOW)

    oracle = prepared()
    all_of(Mortal(oracle, ENOUGH))
    assert sum(m.landed for m in read_manifests(oracle, units(spec())).values()) > 120
    expected, kills = visible(oracle), 0
    while True:
        lake = prepared()
        try:
            all_of(Mortal(lake, kills))
            break
        except Killed:
            kills += 5
        all_of(lake)
        assert visible(lake) == expected, f"killed before step {kills - 5}"
    assert kills > 30


def test_reasons_that_no_file_cures_are_those_that_are_not_tried():
    assert [reason for reason in NO_FIX if retryable(reason, unfit=False)] == []
    assert replace(Tried(UNIT, {"a": 3}, {"b": 1}, {}), erased=1).came_in == 1


@pytest.fixture(autouse=True)
def temporary_files_of_its_own(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
