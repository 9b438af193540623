"""The page's exact look: what it remembers between two looks, and what it must see anew."""

from __future__ import annotations

import pytest

from sluice.lake import layout
from sluice.lake.open import open_lake
from sluice.manifest import encode
from sluice.page import look
from sluice.page.look import Eyes, Memory
from sluice.slices import SliceRange
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
        return [(at, "dc1", m, ["click"], n, n, 0, "run", 1) for at, m, n in starts]


@pytest.fixture
def world(tmp_path, monkeypatch):
    """(eyes, lake, the units whose manifests were read)."""
    own = pipeline(lake=f"file://{tmp_path}")
    read: list[str] = []
    reading = look.read_manifest
    monkeypatch.setattr(look, "read_manifest", lambda lake, u: (read.append(u.slice.id), reading(lake, u))[1])
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
        found = eyes.look(RANGE, ledger, NOW).statuses
        done = {s.unit: s.tables[TABLE].rows for s in found if s.state is State.COMPLETE}
        assert done == {unit(0): 5, unit(15): 7}
    assert sorted(read) == ["2026-11-20T10Z", "2026-11-21T01Z"]
    assert set(ledger.asked) == {(int(RANGE.start.timestamp()), int(RANGE.end.timestamp()))}

    land(lake, 0, 6_000, generation=2)
    states = {s.unit: s.state for s in eyes.look(RANGE, ledger, NOW).statuses}
    assert (states[unit(0)], states[unit(15)]) == (State.STALE, State.COMPLETE)
    assert read.count("2026-11-20T10Z") == 2 and read.count("2026-11-21T01Z") == 1


def test_a_manifest_that_is_gone_is_missing(world):
    eyes, lake, _ = world
    ledger = Ledger((0, land(lake, 0, 5), 5))
    assert eyes.look(RANGE, ledger, NOW).statuses[0].state is State.COMPLETE
    lake.delete([layout.manifest(unit(0).slice.id, "dc1")])
    assert eyes.look(RANGE, ledger, NOW).statuses[0].state is State.MISSING


def test_memory_is_bounded(world, monkeypatch):
    eyes, lake, _ = world
    monkeypatch.setattr(look, "_REMEMBERED", 3)
    for hour in range(6):
        land(lake, hour, 1)
    found = eyes.look(RANGE, Ledger(), NOW).statuses
    assert sum(s.state is State.LANDED for s in found) == 6
    assert len(eyes.manifests) == 3


def test_a_changed_pipeline_file_begins_anew():
    memory, own = Memory(), pipeline()
    assert memory.of(own) is memory.of(pipeline())
    assert memory.of(own) is not memory.of(pipeline(settle="5m"))
