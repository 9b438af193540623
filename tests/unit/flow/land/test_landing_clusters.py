"""Landing from several clusters, of which one cannot be read: before, or in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.errors import KafkaUnavailable, LakeUnavailable, SluiceError, SparkFailed
from sluice.flow.land.commit import sweep
from sluice.flow.land.land import Landing, land
from sluice.flow.land.read_plan import ReadGroup
from sluice.flow.land.task.reports import TaskReport
from sluice.flow.land.task.task import Task
from sluice.metrics import meter
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.fakes import MemoryLake
from tests.support.landing_world import NOW, InProcess, World, event, hours, pipeline, rows_in

CLUSTERS = [{"cluster": c, "bootstrap": "nowhere:1", "topics": ["bids"]} for c in ("dc1", "dc2")]
SPEC = pipeline(kafka=CLUSTERS)


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    return FolderLake(tmp_path / "demo")


@pytest.fixture
def world() -> World:
    """The same topic and offsets in both, with other records."""
    return World(
        {
            ("dc1", "bids"): [[event("click", m, place="one") for m in (5, 15, 65)]],
            ("dc2", "bids"): [[event("click", m, place="two") for m in (6, 16, 26, 66)]],
        }
    )


@dataclass
class Dying(InProcess):
    """The tasks of `dead` write their files, and then the job fails, as when a broker goes away."""

    dead: str = ""
    error: SluiceError = SparkFailed("a poll timed out")  # noqa: RUF009

    def land(self, reads: Sequence[tuple[ReadGroup, Task]]) -> TaskReport:
        report = super().land(reads)
        if any(run.cluster == self.dead for run, _ in reads):
            raise self.error
        return report


def landing(world: World, lake: FolderLake, mode: str = "fill", **engine) -> Landing:
    said: list[str] = []
    found = land(SPEC, lake, hours(2), mode, mode, Dying(world, **engine), said.append, world.topics_of)
    assert [line for line in said if "waits" in line] == [
        f"cluster {cluster} waits: {error}" for cluster, error in found.failed.items()
    ]
    return found


def landed(lake: FolderLake) -> dict[str, int]:
    """Records by unit."""
    units = [Unit(piece, c) for piece in hours(2) for c in ("dc1", "dc2")]
    return {str(unit): manifest.read for unit, manifest in read_manifests(lake, units).items()}


ONE = {"2026-01-01T00Z/dc1": 2, "2026-01-01T01Z/dc1": 1}
TWO = {"2026-01-01T00Z/dc2": 3, "2026-01-01T01Z/dc2": 1}


def test_the_other_cluster_lands_and_the_silent_one_catches_up(lake, world):
    world.resolve(SPEC, lake, hours(2))
    world.kafka.silent = {"dc2"}
    found = landing(world, lake)
    assert (found.failed.keys(), found.summary()["landed"], landed(lake)) == ({"dc2"}, 2, ONE)
    world.kafka.silent = set()
    assert landing(world, lake).failed == {}
    assert landed(lake) == ONE | TWO
    units = [Unit(piece, c) for piece in hours(2) for c in ("dc1", "dc2")]
    rows = rows_in(lake, list(read_manifests(lake, units).values()))
    expected = [(c, o, v.decode()) for (c, _), (log,) in world.logs.items() for o, (v, _) in enumerate(log)]
    assert sorted((row[1], row[4], row[5]) for row in rows) == sorted(expected)


def test_hours_that_were_never_resolved_wait_and_those_that_were_do_not(lake, world):
    world.resolve(SPEC, lake, hours(1))
    world.kafka.silent = {"dc2"}
    world.resolve(SPEC, lake, hours(2))
    world.kafka.silent = set()  # back, after the boundaries were asked for
    found = landing(world, lake)
    assert "2026-01-01T01Z of cluster 'dc2' is not resolved" in str(found.failed["dc2"])
    assert landed(lake) == ONE | {"2026-01-01T00Z/dc2": 3}


@pytest.mark.parametrize("dead", ["dc1", "dc2"])
def test_a_cluster_that_dies_in_the_middle_leaves_nothing_and_takes_nothing_with_it(lake, world, dead):
    world.resolve(SPEC, lake, hours(2))
    found = landing(world, lake, dead=dead)
    assert (found.failed.keys(), landed(lake)) == ({dead}, TWO if dead == "dc1" else ONE)
    keys = [item.key for item in lake.list("")]
    assert not [key for key in keys if key.startswith("_attempts/") or f"-{dead}-" in key]
    assert landing(world, lake).failed == {}
    assert landed(lake) == ONE | TWO


def test_it_fails_when_no_cluster_can_be_read(lake, world):
    world.resolve(SPEC, lake, hours(2))
    world.kafka.silent = {"dc1", "dc2"}
    with pytest.raises(KafkaUnavailable, match="dc1"):
        landing(world, lake)
    assert landed(lake) == {}


def test_a_lake_unavailable_is_nobodys_cluster(lake, world):
    world.resolve(SPEC, lake, hours(2))
    with pytest.raises(LakeUnavailable):
        landing(world, lake, dead="dc1", error=LakeUnavailable("file://x", "an outage"))


def test_a_reland_replaces_the_cluster_that_answers_and_leaves_the_other_as_it_was(lake, world):
    world.resolve(SPEC, lake, hours(2))
    landing(world, lake)
    world.kafka.silent = {"dc2"}
    assert landing(world, lake, mode="reland").failed.keys() == {"dc2"}
    units = [Unit(piece, c) for piece in hours(2) for c in ("dc1", "dc2")]
    generations = {str(u): m.generation for u, m in read_manifests(lake, units).items()}
    assert generations == dict.fromkeys(ONE, 2) | dict.fromkeys(TWO, 1)


def test_a_cluster_that_was_taken_away_is_not_asked_and_keeps_its_units(lake, world):
    world.resolve(SPEC, lake, hours(2))
    landing(world, lake)
    world.kafka.silent = {"dc2"}
    alone = pipeline(kafka=CLUSTERS[:1])
    world.resolve(alone, lake, hours(3))
    result = world.land(alone, lake, hours(3), "reland", "again")
    assert result.summary()["landed"] == 3
    assert landed(lake) == ONE | TWO


def test_what_a_manifest_of_a_cluster_taken_away_names_is_no_waste(world):
    lake = MemoryLake()  # everything in it is old
    world.resolve(SPEC, lake, hours(1))
    world.land(SPEC, lake, hours(1))
    (unit,) = (Unit(piece, "dc2") for piece in hours(1))
    named = f"_attempts/{unit.slice.id}/{read_manifests(lake, [unit])[unit].attempt}/0.parquet"
    nobodys = f"_attempts/{unit.slice.id}/nobodys/0.parquet"
    for key in (named, nobodys):
        lake.put(key, b"rows")
    meter.take()
    sweep(pipeline(kafka=CLUSTERS[:1]), lake, [], NOW)
    assert (lake.size(named), lake.size(nobodys)) == (4, None)
    assert meter.take().counts == (("bytes_discarded", {}, 4),)


def test_what_no_attempt_has_put_beside_them_stays():
    lake = MemoryLake()  # everything in it is old
    strays = ("_attempts/.DS_Store", "_attempts/backup/x/0.parquet", "_attempts/2026-01-01T00Z/.DS_Store")
    for key in (*strays, "_attempts/2026-01-01T00Z/nobodys/0.parquet"):
        lake.put(key, b"rows")
    sweep(SPEC, lake, [], NOW)
    assert {item.key for item in lake.list("")} == set(strays)
