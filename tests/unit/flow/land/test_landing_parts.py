"""A batch in which some units cannot land lands the others, and then fails with their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.errors import (
    BatchUnreadable,
    Conservation,
    KafkaUnavailable,
    NotAllLanded,
    SluiceError,
    SparkFailed,
)
from sluice.flow.land.land import land
from sluice.flow.land.read_plan import ReadGroup
from sluice.flow.land.task.reports import TaskReport
from sluice.flow.land.task.task import Task
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.landing_world import InProcess, World, event, hours, pipeline, rows_in
from tests.support.long_form import per_commit

HOURS = 8
BIDS = ("dc1", "bids")
UNREADABLE = BatchUnreadable("dc1", "bids", 0, 3, 4, "gzip ends too early")


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    return FolderLake(tmp_path / "demo")


@pytest.fixture
def world() -> World:
    logs = [[event("click", 60 * n + m, n=n, m=m) for n in range(HOURS) for m in range(4)] for _ in range(2)]
    return World({BIDS: logs})


@dataclass
class Failing(InProcess):
    """The tasks write their files, and then the job fails, where it holds one of the hours `bad`."""

    bad: frozenset[int] = frozenset()
    error: SluiceError = UNREADABLE
    jobs: list[list[str]] = field(default_factory=list)

    def land(self, reads: Sequence[tuple[ReadGroup, Task]]) -> TaskReport:
        report = super().land(reads)
        slices = [unit.unit.slice for run, _ in reads for unit in run.units]
        self.jobs.append([piece.id for piece in slices])
        if {piece.start.hour for piece in slices} & self.bad:
            raise self.error
        return report


def landing(world: World, lake: FolderLake, bad: set[int], **more) -> Failing:
    """The engine, after it has landed what it could; the error is its last word."""
    engine = Failing(world, bad=frozenset(bad), **more)
    land(pipeline(), lake, hours(HOURS), "fill", "t", engine, lambda line: None, world.topics_of)
    return engine


def payloads(lake: FolderLake) -> dict[int, list[str]]:
    """By hour what the lake holds of it."""
    units = [Unit(piece, "dc1") for piece in hours(HOURS)]
    found = read_manifests(lake, units)
    return {u.slice.start.hour: sorted(row[5] for row in rows_in(lake, [m])) for u, m in found.items()}


def expected(world: World, without: set[int]) -> dict[int, list[str]]:
    sent = [value.decode() for log in world.logs[BIDS] for value, _ in log]
    return {n: sorted(v for v in sent if f'"n":"{n}"' in v) for n in range(HOURS) if n not in without}


def files(lake: FolderLake) -> list[str]:
    return [item.key for item in lake.list("") if item.key.startswith("_attempts/")]


ERRORS = [UNREADABLE, SparkFailed("the JVM has gone"), Conservation("slice …: counted wrong")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("bad", per_commit([{0}, {2, 3}, {3}, {7}, {1, 6}], 2), ids=str)
def test_the_others_land_and_those_that_cannot_are_named(lake, world, bad, error):
    world.resolve(pipeline(), lake, hours(HOURS))
    with pytest.raises(NotAllLanded) as told:
        landing(world, lake, bad, error=error)
    assert payloads(lake) == expected(world, bad)
    assert told.value.units == ", ".join(f"2026-01-01T{n:02}Z/dc1" for n in sorted(bad))
    assert (told.value.landed, told.value.retryable) == (HOURS - len(bad), error.retryable)
    assert str(error) in str(told.value)
    assert files(lake) == []


def test_the_next_landing_tries_them_alone_and_lands_them_once_they_can(lake, world):
    world.resolve(pipeline(), lake, hours(HOURS))
    with pytest.raises(NotAllLanded):
        landing(world, lake, {3})
    with pytest.raises(BatchUnreadable):
        landing(world, lake, {3})
    assert landing(world, lake, set()).jobs == [["2026-01-01T03Z"]]
    assert payloads(lake) == expected(world, set())


def test_where_all_fail_it_gives_up_soon(lake, world):
    world.resolve(pipeline(), lake, hours(HOURS))
    engine = Failing(world, bad=frozenset(range(HOURS)))
    with pytest.raises(SluiceError, match="2026-01-01T00Z/dc1"):
        land(pipeline(), lake, hours(HOURS), "fill", "t", engine, lambda line: None, world.topics_of)
    assert len(engine.jobs) <= 2 * HOURS
    assert payloads(lake) == {} and files(lake) == []


@pytest.mark.parametrize("error", [KafkaUnavailable("dc1", "b:1", "away"), SparkFailed("a poll timed out")])
def test_what_is_no_units_fault_is_not_tried_in_parts(lake, world, error):
    world.resolve(pipeline(), lake, hours(HOURS))

    class Gone(Failing):
        def land(self, reads):
            self.world.kafka.silent = {"dc1"}
            return super().land(reads)

    engine = Gone(world, bad=frozenset({3}), error=error)
    with pytest.raises(type(error)) as told:
        land(pipeline(), lake, hours(HOURS), "fill", "t", engine, lambda line: None, world.topics_of)
    assert told.value is error
    assert len(engine.jobs) == 1 and payloads(lake) == {} and files(lake) == []


def test_an_unexplained_gap_costs_its_own_hour_only(lake, world):
    """Spark's source leaves one record out of hour 5; the second look meets it."""
    world.resolve(pipeline(), lake, hours(HOURS))
    with pytest.raises(NotAllLanded, match="2026-01-01T05Z/dc1 did not land, 7 other units did: slice"):
        world.land(pipeline(), lake, hours(HOURS), hidden=frozenset({5 * 4 + 1}))
    assert payloads(lake) == expected(world, {5})


def test_a_reland_replaces_the_others_and_leaves_the_hour_as_it_was(lake, world):
    world.resolve(pipeline(), lake, hours(HOURS))
    landing(world, lake, set())
    engine = Failing(world, bad=frozenset({3}))
    with pytest.raises(NotAllLanded, match="2026-01-01T03Z/dc1"):
        land(pipeline(), lake, hours(HOURS), "reland", "r", engine, lambda line: None, world.topics_of)
    units = {unit.slice.start.hour: unit for unit in (Unit(piece, "dc1") for piece in hours(HOURS))}
    found = read_manifests(lake, units.values())
    assert {n: found[unit].generation for n, unit in units.items()} == {n: 1 if n == 3 else 2 for n in units}
    assert payloads(lake) == expected(world, set())
