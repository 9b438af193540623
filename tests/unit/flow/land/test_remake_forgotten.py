"""A unit whose rejected records the lake has forgotten is made again: they stay counted, all else is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.flow.land.remake import forecast, outcomes, sampled
from sluice.flow.verify.check_files import check_files, dead
from sluice.flow.verify.facts import LakeFacts
from sluice.flow.verify.read_lake import list_files
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import ForgottenRecords, Manifest, PartitionCount
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.erased import ask, entry
from tests.support.fakes import MemoryLake
from tests.support.landed_contents import counts_of, rows_of
from tests.support.landing_world import GAP, World, event, hours, pipeline
from tests.support.long_form import per_commit
from tests.support.verified import FACTS
from tests.unit.flow.forget.test_forget_killed import (
    NOW,
    UNITS,
    Held,
    forget,
    found_at_any_age,
    held,
    statuses,
)
from tests.unit.flow.land.test_landing_crashes import ENOUGH, FreshLake, Killed, Mortal
from tests.unit.flow.land.test_landing_erased import check
from tests.unit.flow.land.test_remake import BIDS, BY_FIELD, CHANGES, TWO_TOPICS, WINS, log

SLICES = hours(3)
OLD = UNITS[:2]  # of which rejected records are forgotten; the third hour is too young
ON = f"{NOW:%Y-%m-%dT%H:%M:%SZ}"
REJECTED = {"lake": "900d", "rejected": "399d"}
PERSON = entry("grade=k1")
NO_ARRAYS = [name for name, (before, _) in CHANGES.items() if "rows" not in before.get("event", {})]
Logs = dict[tuple[str, str], list[list[tuple]]]
__all__ = ["held"]


def logs() -> Logs:
    return {BIDS: [log(0, 90), log(7, 30), []], WINS: [log(3, 40)]}


def spec(**changes: Any) -> Pipeline:
    return pipeline(**{"kafka": TWO_TOPICS, "event": BY_FIELD, **changes})


def filled(before: Pipeline, lake: MemoryLake, records: Logs) -> World:
    world = World(records)
    world.resolve(before, lake, SLICES)
    world.land(before, lake, SLICES)
    world.kafka.silent = frozenset(before.clusters)
    return world


def forgotten(before: Pipeline, monkeypatch: pytest.MonkeyPatch) -> tuple[World, MemoryLake, Logs]:
    """Landed, rejected records forgotten; and the logs as if Kafka never had had these."""
    lake, left = FreshLake(), logs()
    world = filled(before, lake, logs())
    for topic, partition, offset in rejected_places(lake):
        stamp = left["dc1", topic][partition][offset][1]
        left["dc1", topic][partition][offset] = (GAP, stamp)
    assert len(forget(lake, monkeypatch, **REJECTED).units) == 2
    return world, lake, left


def rejected_places(lake: MemoryLake) -> Iterator[tuple[str, int, int]]:
    for file in (file for manifest in read_manifests(lake, OLD).values() for file in manifest.rejected):
        with lake.local(file.key) as path:
            for row in pq.read_table(path).to_pylist():
                yield row["_topic"], row["_partition"], row["_offset"]


def expected(old: Manifest, bare: Manifest) -> Manifest:
    """What the landing of a Kafka without them gives, and the forgotten ones added by hand."""
    gone = {(c.topic, c.partition): c.rejected_records for c in old.counts if c.rejected_records}
    count = sum(gone.values())
    counts = {(c.topic, c.partition): c for c in bare.counts}
    rows = None if bare.rows is None else 0
    for place, own in gone.items():
        one = counts.get(place, PartitionCount(*place, 0, 0, rows))
        counts[place] = replace(
            one, read=one.read + own, rejected_records=one.rejected_records + own, without_bytes=own
        )
    return replace(
        bare,
        read=bare.read + count,
        gaps=bare.gaps - count,
        rejected_records=dict(
            sorted((Counter(bare.rejected_records) + Counter(old.rejected_records)).items())
        ),
        counts=tuple(counts[place] for place in sorted(counts)),
        times=old.times,
        without_bytes=(ForgottenRecords(ON, old.rejected_records),),
    )


def sound(lake: MemoryLake) -> None:
    """Verify finds nothing wrong, in manifests, files, and rows."""
    manifests = read_manifests(lake, UNITS)
    named: Mapping[Any, Any] = {(unit.slice.id, "dc1"): m for unit, m in manifests.items()}
    facts = replace(
        FACTS, statuses=tuple(statuses(lake)), lake=LakeFacts(sizes=list_files(lake), named=named)
    )
    assert (list(check_files(facts, Repairs("demo"))), dead(facts)) == ([], [])
    whole = [manifest for manifest in manifests.values() if not manifest.forgotten_files]
    check(lake, whole)
    listed = {file.key for manifest in manifests.values() for file in manifest.held_files}
    files = {key for key in lake.objects if key.endswith(".parquet")}
    assert {key for key in files if not key.startswith("_attempts/")} == listed


@pytest.mark.parametrize("change", per_commit(NO_ARRAYS, 5))
def test_it_is_what_a_landing_without_these_records_gives(change: str, held: Held, monkeypatch):
    before, after = (spec(**changes) for changes in CHANGES[change])
    world, lake, left = forgotten(before, monkeypatch)
    old = read_manifests(lake, UNITS)
    ask(lake, PERSON)
    world.land(after, lake, SLICES, "remake", "again")
    new = read_manifests(lake, UNITS)
    oracle = MemoryLake()
    other = World(left)
    other.resolve(before, oracle, SLICES)
    ask(oracle, PERSON)
    other.land(after, oracle, SLICES)
    bare = read_manifests(oracle, UNITS)
    for unit in OLD:
        assert rows_of(lake, new[unit]) == rows_of(oracle, bare[unit])
        assert counts_of(new[unit]) == expected(old[unit], counts_of(bare[unit]))
        assert sum(new[unit].forgotten_by_reason().values()) == old[unit].kept > 3
    assert new[UNITS[2]].without_bytes == ()
    assert change != "nothing" or all(manifest.erased for manifest in new.values())
    sound(lake)
    stands = {unit: (rows_of(lake, m), counts_of(m)) for unit, m in new.items()}
    world.land(after, lake, SLICES, "remake", "and again")
    made = read_manifests(lake, UNITS)
    assert {unit: (rows_of(lake, m), counts_of(m)) for unit, m in made.items()} == stands
    assert {m.generation for m in made.values()} == {3}


def test_newly_rejected_ones_are_forgotten_later_and_all_of_it_in_the_end(held: Held, monkeypatch):
    world, lake, _ = forgotten(spec(), monkeypatch)
    first = read_manifests(lake, UNITS)
    other = spec(event={**BY_FIELD, "time": {"field": "at", "format": "epoch_ms"}})
    world.land(other, lake, SLICES, "remake", "other rules")
    second = read_manifests(lake, UNITS)
    for unit in OLD:
        assert second[unit].held_by_reason() == {"time not understood": first[unit].landed}
        assert second[unit].refused + second[unit].tombstones == first[unit].read
    assert found_at_any_age(lake) == set()
    assert [str(unit) for unit in forget(lake, monkeypatch, **REJECTED).units] == list(map(str, OLD))
    sound(lake)
    assert forget(lake, monkeypatch, **REJECTED).units == []
    world.land(spec(), lake, SLICES, "remake", "nothing is left to be read")
    third = read_manifests(lake, UNITS)
    for unit in OLD:
        assert (third[unit].files, third[unit].rejected, third[unit].forgotten) == ((), (), None)
        assert third[unit].rejected_records == second[unit].rejected_records
        assert third[unit].forgotten_records == (
            ForgottenRecords(ON, first[unit].rejected_records),
            ForgottenRecords(ON, {"time not understood": first[unit].landed}),
        )
    sound(lake)
    assert forget(lake, monkeypatch, **REJECTED).units == []
    assert [str(unit) for unit in forget(lake, monkeypatch, lake="399d").units] == list(map(str, OLD))
    assert read_manifests(lake, OLD)[OLD[0]].forgotten_on == ON
    assert all(UNITS[2].slice.id in key for key in lake.objects if key.endswith(".parquet"))


def test_a_forecast_says_what_the_remake_does(held: Held, monkeypatch):
    world, lake, _ = forgotten(spec(), monkeypatch)
    other = spec(event={**BY_FIELD, "type": {"field": "grade"}})
    old = read_manifests(lake, UNITS)
    found = {one.unit: one for one in forecast(other, lake, old)}
    world.land(other, lake, SLICES, "remake", "again")
    for unit, manifest in read_manifests(lake, UNITS).items():
        assert (found[unit].before, found[unit].after) == (outcomes(old[unit]), outcomes(manifest))
    gone = sum(old[OLD[0]].rejected_records.values())
    assert str(found[OLD[0]]).endswith(f"; {gone} rejected ones stay: the lake forgot their bytes")
    assert "stay" not in str(found[UNITS[2]])
    # What is tried first has most records that may come in.
    assert sampled(old, 1) == [UNITS[2]]


def test_an_array_without_some_of_its_elements_is_refused(held: Held, monkeypatch):
    arrays = pipeline(event={**BY_FIELD, "rows": "array"})
    texts = [b"[%b,7]" % event("click", 1)[0], b"[%b]" % event("click", 2)[0], b"7"]
    own = {
        BIDS: [[(text, event("click", minute)[1]) for minute in (1, 61) for text in texts[minute == 61 :]]]
    }
    lake = FreshLake()
    world = filled(arrays, lake, own)
    forget(lake, monkeypatch, **REJECTED)
    before = dict(lake.objects)
    why = r"forgot the bytes of 1 rejected .* joined again; .*: `sluice run \S+ --from .* --mode reland`"
    with pytest.raises(SluiceError, match=why):
        world.land(arrays, lake, SLICES, "remake", "again")
    found = read_manifests(lake, UNITS)
    # Only a whole message was rejected there.
    assert [found[unit].generation for unit in UNITS] == [1, 2, 2]
    assert found[UNITS[1]].without_bytes == (ForgottenRecords(ON, {"not an array": 1}),)
    assert {k: v for k, v in lake.objects.items() if UNITS[0].slice.id in k} == {
        k: v for k, v in before.items() if UNITS[0].slice.id in k
    }
    sound(lake)


def prepared(monkeypatch: pytest.MonkeyPatch) -> tuple[World, MemoryLake]:
    world, lake, _ = forgotten(spec(), monkeypatch)
    ask(lake, PERSON)
    return world, lake


def made(lake: MemoryLake) -> dict[Unit, Any]:
    found = read_manifests(lake, UNITS)
    return {unit: (rows_of(lake, m), counts_of(m), m.generation) for unit, m in found.items()}


@pytest.mark.parametrize("first", per_commit(range(6)))
def test_killed_before_any_step_and_repeated(first: int, held: Held, monkeypatch):
    world, whole = prepared(monkeypatch)
    counting = Mortal(whole, ENOUGH)
    world.land(spec(), counting, SLICES, "remake", "one")
    expected, steps = made(whole), ENOUGH - counting.left
    assert steps > 30
    for kill in range(first, steps, 6):
        world, lake = prepared(monkeypatch)
        with pytest.raises(Killed):
            world.land(spec(), Mortal(lake, kill), SLICES, "remake", "one")
        world.land(spec(), lake, SLICES, "remake", "one")
        assert made(lake) == expected, kill
        sound(lake)


def test_a_forgetting_that_was_killed_and_then_a_remake(held: Held, monkeypatch):
    """Whether the manifest said it already, or not: what is read is what it still expects."""
    deaths = 0
    for kill in range(ENOUGH):
        lake = FreshLake()
        world = filled(spec(), lake, logs())
        try:
            forget(lake, monkeypatch, Mortal(lake, kill), **REJECTED)
        except Killed:
            deaths += 1
        else:
            break
        old = read_manifests(lake, UNITS)
        world.land(spec(), lake, SLICES, "remake", "one")
        for unit, manifest in read_manifests(lake, UNITS).items():
            gone = old[unit].rejected_forgotten_on
            assert (manifest.read, manifest.rejected_records) == (old[unit].read, old[unit].rejected_records)
            assert manifest.held_by_reason() == ({} if gone else old[unit].rejected_records)
        sound(lake)
        forget(lake, monkeypatch, **REJECTED)
        sound(lake)
        for unit, manifest in read_manifests(lake, OLD).items():
            assert (manifest.held_by_reason(), manifest.forgotten_by_reason()) == (
                {},
                old[unit].rejected_records,
            )
        assert found_at_any_age(lake) == set()
    assert deaths > 6


@pytest.fixture(autouse=True)
def temporary_files_of_its_own(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
