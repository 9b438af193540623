"""The page's exact look: what it remembers between two looks, and what it must see anew."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from sluice.clients.clickhouse.shards import Server
from sluice.clients.lake import layout
from sluice.clients.lake.open import open_lake
from sluice.manifest import FieldSeen, OffsetRange, TypeFields, decode, encode
from sluice.page import status_cache
from sluice.page.status_cache import (
    BoundedCache,
    PendingLedgers,
    PipelineCache,
    StatusCache,
    size_of_boundaries,
    size_of_manifest,
    size_of_status,
)
from sluice.slices import HOUR, SliceRange
from sluice.state.boundaries.boundary import CODE, FoundBy, PartitionColumn, TopicBoundaries
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries, LogEntry
from sluice.state.ledger import LedgerRow
from sluice.state.manifests import read_manifests
from sluice.state.shard_ledgers import ledgers_of
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.long_form import per_commit
from tests.support.page_world import START, TABLE, file, manifest, pipeline, unit

NOW = START.add(days=2)
RANGE = SliceRange(START, START.add(hours=20))  # over midnight: two days of listings


class Ledger:
    """A ClickHouse whose ledger holds these units, as (hour, manifest id, rows)."""

    def __init__(self, *rows: tuple[int, str, int]) -> None:
        self.held, self.asked = rows, []

    def rows(self, sql: str, parameters: dict) -> list[tuple]:
        self.asked.append((parameters["start"], parameters["end"]))
        starts = [(int(unit(h).slice.start.timestamp()), m, n) for h, m, n in self.held]
        name, lake = pipeline().name, "file:///lake"
        more = ("", "", [], True, {}, {}, {}, 1)
        return [(name, lake, TABLE, at, "dc1", m, ["click"], n, n, 0, "run", 1, *more) for at, m, n in starts]


def answered(client: Ledger) -> PendingLedgers:
    servers = (Server(pipeline().clickhouse.parts[0], client),)
    return lambda: ledgers_of(servers, pipeline(), "file:///lake", RANGE)


@pytest.fixture
def world(tmp_path, monkeypatch):
    """(cache, lake, the units whose manifests were read)."""
    own = pipeline(lake=f"file://{tmp_path}")
    read: list[str] = []
    reading = status_cache.read_manifests

    def noted(lake, units):
        read.extend(u.slice.id for u in units)
        return reading(lake, units)

    monkeypatch.setattr(status_cache, "read_manifests", noted)
    return PipelineCache(own), open_lake(own), read


def land(lake, hour: int, rows: int, generation: int = 1) -> str:
    place = unit(hour)
    made = manifest(place, [file("click", "2026-11-20T10", rows)], generation)
    lake.put(layout.manifest(place.slice.id, "dc1"), encode(made))
    return made.id


def test_a_manifest_is_read_once_until_it_is_replaced(world):
    cache, lake, read = world
    first, second = land(lake, 0, 5), land(lake, 15, 7)
    ledger = Ledger((0, first, 5), (15, second, 7))
    for _ in range(2):
        found = cache.snapshot(RANGE, answered(ledger), NOW).statuses
        done = {s.unit: s.tables[TABLE].rows for s in found if s.state is UnitState.COMPLETE}
        assert done == {unit(0): 5, unit(15): 7}
    assert sorted(read) == ["2026-11-20T10Z", "2026-11-21T01Z"]
    assert set(ledger.asked) == {(int(RANGE.start.timestamp()), int(RANGE.end.timestamp()))}

    land(lake, 0, 6_000, generation=2)
    states = {s.unit: s.state for s in cache.snapshot(RANGE, answered(ledger), NOW).statuses}
    assert (states[unit(0)], states[unit(15)]) == (UnitState.STALE, UnitState.COMPLETE)
    assert read.count("2026-11-20T10Z") == 2 and read.count("2026-11-21T01Z") == 1


def test_a_manifest_that_is_gone_is_missing(world):
    cache, lake, _ = world
    ledger = Ledger((0, land(lake, 0, 5), 5))
    assert cache.snapshot(RANGE, answered(ledger), NOW).statuses[0].state is UnitState.COMPLETE
    lake.delete([layout.manifest(unit(0).slice.id, "dc1")])
    assert cache.snapshot(RANGE, answered(ledger), NOW).statuses[0].state is UnitState.MISSING


def test_what_nothing_has_changed_is_not_worked_out_again(world, monkeypatch):
    """A commit, an hour that has ended since, and a new boundary are seen; all else keeps its status."""
    cache, lake, _ = world
    ids = [land(lake, hour, 5) for hour in range(3)]
    early = START.add(hours=3, minutes=30)
    first = cache.snapshot(RANGE, answered(Ledger((0, ids[0], 5), (1, ids[1], 5))), early)
    assert [s.state for s in first.statuses[:5]] == [
        *(UnitState.COMPLETE, UnitState.COMPLETE, UnitState.LANDED, UnitState.NOT_OVER, UnitState.NOT_OVER)
    ]
    again = cache.snapshot(RANGE, answered(Ledger(*((n, ids[n], 5) for n in range(3)))), early.add(hours=1))
    same = [mine is others for mine, others in zip(first.statuses, again.statuses, strict=True)]
    assert same[:3] == [True, True, False]
    assert [s.state for s in again.statuses[2:5]] == [
        UnitState.COMPLETE,
        UnitState.MISSING,
        UnitState.NOT_OVER,
    ]
    assert again.summaries[2].rows == 5

    at = array("q", [int(START.timestamp()), int(START.add(hours=1).timestamp())])
    zeros, offsets = array("q", [0, 0]), array("q", [100, 109])
    column = PartitionColumn(0, offsets, zeros, zeros, array("b", [CODE[FoundBy.RECORD]] * 2))
    entry = LogEntry(HOUR, (TopicBoundaries("dc1", "t", "u", at, {0: column}),))
    assert BoundaryLog(lake).append(Boundaries(), entry, NOW)
    resolved = cache.snapshot(RANGE, answered(Ledger((0, ids[0], 5))), early)
    assert resolved.statuses[0].offsets == 9


def test_memory_is_bounded_in_bytes(world):
    """Manifests of 400 files each: a room of three keeps no more, and answers are whole."""
    cache, lake, read = world
    wide = [file(f"t{number}", "2026-11-20T10", 1) for number in range(400)]
    made = [manifest(unit(hour), wide) for hour in range(12)]
    for hour, one in enumerate(made):
        lake.put(layout.manifest(unit(hour).slice.id, "dc1"), encode(one))
    room = 3 * size_of_manifest(len(encode(made[0]))) + 200_000  # and all statuses
    cache.shelf = BoundedCache(room)
    for _ in range(2):
        found = list(cache.walk(cache.facts(RANGE, answered(Ledger()), NOW)))
        assert [one.status.manifest for one in found[:12]] == made
        assert {one.status.manifest for one in found[12:]} == {None}
    assert len(read) > 12
    kept = [hour for hour in range(12) if cache.shelf.get((cache.number, "manifest", unit(hour)))]
    assert len(kept) == 3 and cache.shelf.used <= room


def test_a_look_at_statuses_needs_no_manifest_again(world):
    """Though none is kept: a status and its summary say all that the overview shows."""
    cache, lake, read = world
    ids = [land(lake, hour, 5) for hour in range(3)]
    ledger = Ledger(*((hour, one, 5) for hour, one in enumerate(ids)))
    first = cache.snapshot(RANGE, answered(ledger), NOW)
    for hour in range(3):
        cache.shelf.put((cache.number, "manifest", unit(hour)), None, 1 << 40)
    again = cache.snapshot(RANGE, answered(ledger), NOW)
    assert len(read) == 3 and again.summaries == first.summaries
    assert [one.read for one in again.summaries[:4]] == [5, 5, 5, 0]
    assert {status.manifest for status in again.statuses} == {None}


def test_a_walk_holds_a_few_manifests_at_a_time(world, monkeypatch):
    """Ten manifests of 1,000 types: who keeps none of them needs room for two."""
    cache, lake, _ = world
    wide = [file(f"type{number:04}", "2026-11-20T10", 1) for number in range(1000)]
    data = encode(manifest(unit(0), wide))
    for hour in range(10):
        lake.put(layout.manifest(unit(hour).slice.id, "dc1"), encode(manifest(unit(hour), wide)))
    cache.shelf = BoundedCache(0)
    monkeypatch.setattr(status_cache, "_AT_ONCE", len(data))
    facts = cache.facts(RANGE, answered(Ledger()), NOW)
    one = peak_of(lambda: read_manifests(lake, [unit(0)]))
    assert peak_of(lambda: Counter(s.summary.files for s in cache.walk(facts))) < 3 * one
    assert Counter(s.summary.files for s in cache.walk(facts)) == {1000: 10, 0: 10}


def peak_of(work: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize(
    ("files", "partitions", "types", "fields"),
    per_commit([(1, 1, 1, 0), (3, 800, 1, 0), (2000, 1, 2000, 0), (1, 1, 1, 1000)], 2),
)
def test_what_is_said_to_be_kept_is_no_less_than_what_is_kept(
    files: int, partitions: int, types: int, fields: int
):
    ranges = tuple(OffsetRange("t", "u" * 22, p, 100 + p, 10_000 + p) for p in range(partitions))
    made = manifest(unit(0), [file(f"type{n}", f"2026-11-20T{n % 24:02}", n) for n in range(files)])
    seen = {str(n): FieldSeen(300 + n, {"integer": 300 + n}, 300 + n) for n in range(fields)}
    data = encode(replace(made, ranges=ranges, fields=(TypeFields("t", 5000, True, seen),)))
    kept: list[object] = []
    gc.collect()
    tracemalloc.start()
    kept.append(decode(data, "here"))
    manifests, _ = tracemalloc.get_traced_memory()
    row = LedgerRow(unit(0), "1-a", tuple(f"type{n}" for n in range(types)), 1, 1, 0, "run", 1)
    ranges = tuple(OffsetRange("t", "u" * 22, p, 100_000 + p, 200_000 + p) for p in range(partitions))
    kept.append(UnitStatus(unit(0), UnitState.COMPLETE, ranges, (), None, {TABLE: row}, (), 1))
    both, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.15 < manifests / size_of_manifest(len(data)) < 1
    assert 0.15 < (both - manifests) / size_of_status(kept[1]) < 1


def test_boundaries_that_are_kept_are_counted():
    """A year of hours in 64 partitions, by the arrays' own sizes."""
    hours, zeros = array("q", range(8761)), array("q", [0]) * 8761
    columns = {p: PartitionColumn(0, hours[:], zeros[:], zeros[:], array("b", [0]) * 8761) for p in range(64)}
    block = TopicBoundaries("dc1", "t", "u", hours, columns)
    arrays = [hours, *(a for c in columns.values() for a in (c.offsets, c.floors, c.log_starts, c.codes))]
    said = size_of_boundaries(Boundaries(1, HOUR, {block.key: block}))
    assert 0.8 < sum(map(sys.getsizeof, arrays)) / said < 1


def test_what_was_used_longest_ago_goes_first():
    shelf = BoundedCache(10)
    for name, size in (("a", 4), ("b", 4), ("c", 2)):
        shelf.put(name, name.upper(), size)
    assert shelf.get("a") == "A"
    shelf.put("d", "D", 3)
    assert [shelf.get(name) for name in "abcd"] == ["A", None, "C", "D"] and shelf.used == 9
    shelf.put("a", "large", 11)
    assert shelf.get("a") is None and (len(shelf), shelf.used) == (2, 5)


def test_pipelines_share_one_room():
    memory = StatusCache()
    assert memory.of(pipeline()).shelf is memory.of(pipeline(name="q")).shelf is memory.shelf


def test_a_changed_pipeline_file_begins_anew():
    memory, own = StatusCache(), pipeline()
    assert memory.of(own) is memory.of(pipeline())
    assert memory.of(own) is not memory.of(pipeline(settle="5m"))
