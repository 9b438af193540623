"""The page's exact look: what it remembers between two looks, and what it must see anew."""

from __future__ import annotations

from array import array

import pytest

from sluice.boundaries.boundary import CODE, Found
from sluice.boundaries.columns import Column, TopicBoundaries
from sluice.boundaries.log import BoundaryLog
from sluice.boundaries.model import Boundaries, Entry
from sluice.clickhouse.shards import Server
from sluice.lake import layout
from sluice.lake.open import open_lake
from sluice.load.shares import ledgers_of
from sluice.manifest import encode
from sluice.page import look
from sluice.page.ledgers import Answer
from sluice.page.look import Eyes, Memory
from sluice.slices import HOUR, SliceRange
from sluice.state import State
from tests.page_world import START, TABLE, file, manifest, pipeline, unit

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
        return [(name, lake, TABLE, at, "dc1", m, ["click"], n, n, 0, "run", 1, "") for at, m, n in starts]


def told(client: Ledger) -> Answer:
    servers = (Server(pipeline().clickhouse.parts[0], client),)
    return lambda: ledgers_of(servers, pipeline(), "file:///lake", RANGE)


@pytest.fixture
def world(tmp_path, monkeypatch):
    """(eyes, lake, the units whose manifests were read)."""
    own = pipeline(lake=f"file://{tmp_path}")
    read: list[str] = []
    reading = look.read_manifests

    def noted(lake, units):
        read.extend(u.slice.id for u in units)
        return reading(lake, units)

    monkeypatch.setattr(look, "read_manifests", noted)
    return Eyes(own), open_lake(own), read


def land(lake, hour: int, rows: int, generation: int = 1) -> str:
    place = unit(hour)
    made = manifest(place, [file("click", "2026-11-20T10", rows)], generation)
    lake.put(layout.manifest(place.slice.id, "dc1"), encode(made))
    return made.id


def test_a_manifest_is_read_once_until_it_is_replaced(world):
    eyes, lake, read = world
    first, second = land(lake, 0, 5), land(lake, 15, 7)
    ledger = Ledger((0, first, 5), (15, second, 7))
    for _ in range(2):
        found = eyes.look(RANGE, told(ledger), NOW).statuses
        done = {s.unit: s.tables[TABLE].rows for s in found if s.state is State.COMPLETE}
        assert done == {unit(0): 5, unit(15): 7}
    assert sorted(read) == ["2026-11-20T10Z", "2026-11-21T01Z"]
    assert set(ledger.asked) == {(int(RANGE.start.timestamp()), int(RANGE.end.timestamp()))}

    land(lake, 0, 6_000, generation=2)
    states = {s.unit: s.state for s in eyes.look(RANGE, told(ledger), NOW).statuses}
    assert (states[unit(0)], states[unit(15)]) == (State.STALE, State.COMPLETE)
    assert read.count("2026-11-20T10Z") == 2 and read.count("2026-11-21T01Z") == 1


def test_a_manifest_that_is_gone_is_missing(world):
    eyes, lake, _ = world
    ledger = Ledger((0, land(lake, 0, 5), 5))
    assert eyes.look(RANGE, told(ledger), NOW).statuses[0].state is State.COMPLETE
    lake.delete([layout.manifest(unit(0).slice.id, "dc1")])
    assert eyes.look(RANGE, told(ledger), NOW).statuses[0].state is State.MISSING


def test_what_nothing_has_changed_is_not_worked_out_again(world, monkeypatch):
    """A commit, an hour that has ended since, and a new boundary are seen; all else keeps its status."""
    eyes, lake, _ = world
    ids = [land(lake, hour, 5) for hour in range(3)]
    early = START.add(hours=3, minutes=30)
    first = eyes.look(RANGE, told(Ledger((0, ids[0], 5), (1, ids[1], 5))), early)
    assert [s.state for s in first.statuses[:5]] == [
        *(State.COMPLETE, State.COMPLETE, State.LANDED, State.NOT_OVER, State.NOT_OVER)
    ]
    again = eyes.look(RANGE, told(Ledger(*((n, ids[n], 5) for n in range(3)))), early.add(hours=1))
    same = [mine is others for mine, others in zip(first.statuses, again.statuses, strict=True)]
    assert same[:3] == [True, True, False]
    assert [s.state for s in again.statuses[2:5]] == [State.COMPLETE, State.MISSING, State.NOT_OVER]
    assert again.summaries[2].rows == 5

    at = array("q", [int(START.timestamp()), int(START.add(hours=1).timestamp())])
    zeros, offsets = array("q", [0, 0]), array("q", [100, 109])
    column = Column(0, offsets, zeros, zeros, array("b", [CODE[Found.RECORD]] * 2))
    entry = Entry(HOUR, (TopicBoundaries("dc1", "t", "u", at, {0: column}),))
    assert BoundaryLog(lake).append(Boundaries(), entry, NOW)
    resolved = eyes.look(RANGE, told(Ledger((0, ids[0], 5))), early)
    assert resolved.statuses[0].offsets == 9


def test_memory_is_bounded(world, monkeypatch):
    eyes, lake, _ = world
    monkeypatch.setattr(look, "_REMEMBERED", 3)
    for hour in range(6):
        land(lake, hour, 1)
    found = eyes.look(RANGE, told(Ledger()), NOW).statuses
    assert sum(s.state is State.LANDED for s in found) == 6
    assert len(eyes.manifests) == 3


def test_a_changed_pipeline_file_begins_anew():
    memory, own = Memory(), pipeline()
    assert memory.of(own) is memory.of(pipeline())
    assert memory.of(own) is not memory.of(pipeline(settle="5m"))
