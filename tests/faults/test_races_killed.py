"""A reload or a reland that is killed in its middle, and a statement that goes on without its client: a plain
`fill` afterwards leaves each row once."""

from __future__ import annotations

import fcntl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, Signals

import pytest

from local.readiness import wait_until
from sluice.crash_points import TableLoad
from sluice.flow.load.fencing import digest
from tests.faults.race_world import Scene
from tests.faults.racers import DEADLINE_SECONDS, Racer, race
from tests.faults.test_races import clickhouse_at
from tests.faults.traps import LAKE, Trap
from tests.integration.landed import client_of
from tests.support.landing_world import hours

pytestmark = pytest.mark.faults

HOURS = 2
NEVER = Trap("run", number=1_000_000)


@pytest.fixture(scope="module")
def make_scene(clickhouse_server, tmp_path_factory) -> Callable[[str], Scene]:
    """A scene of its own for each name, landed and loaded once."""

    def make(name: str) -> Scene:
        root = f"file://{tmp_path_factory.mktemp(name)}"
        client, environment = client_of(clickhouse_server), clickhouse_at(clickhouse_server)
        return Scene(root, f"killed_{name}", client, environment, HOURS, lease="1s").make_tables()

    return make


def expect_exact(scene: Scene) -> None:
    scene.expect_lake(hours(HOURS))
    scene.expect_tables(hours(HOURS))


KINDS = {
    TableLoad.LEASED: "lease",
    TableLoad.CLAIMED: "rows",
    TableLoad.CHECKED: "rows",
    TableLoad.COUNTED: "rows",
}
KINDS |= {TableLoad.RELEASED: "lease"}
KILLED = [
    (TableLoad.REVOKED, True),
    (TableLoad.DELETED, True),
    (TableLoad.REJECTED, True),
    (TableLoad.MOVED, True),
]


@pytest.mark.long
def test_a_reload_that_is_killed_is_finished_by_a_fill(make_scene, fault_log, long_form: bool):
    scene = make_scene("reload")
    race(scene.job(0, HOURS))
    for step, after in [(s, a) for s in TableLoad for a in (False, True)] if long_form else KILLED:
        trap = Trap(KINDS.get(step, "run"), step, after=after, signal=SIGKILL)
        with fault_log.trial("kill", f"reload, {trap}", victim="reload"):
            assert Racer(scene.job(0, HOURS, mode="reload", token=str(trap), trap=trap)).outcome() is None
            race(scene.job(0, HOURS))
            expect_exact(scene)


@pytest.mark.long
def test_a_reland_that_is_killed_is_finished_by_a_fill(make_scene, fault_log, long_form: bool):
    scene = make_scene("reland")
    race(scene.job(0, HOURS))
    killed = 0
    for number in range(0, 1000, 1 if long_form else 5):
        trap = Trap(LAKE, number=number, signal=SIGKILL)
        outcome = Racer(scene.job(0, HOURS, mode="reland", token=str(number), trap=trap)).outcome()
        with fault_log.trial("kill", f"reland, before write {number}", victim="reland"):
            race(scene.job(0, HOURS))
            expect_exact(scene)
        if outcome is not None:
            assert not outcome.error
            break
        killed += 1
    assert killed >= (20 if long_form else 4)


def make_slow(scene: Scene) -> None:
    """Two views, one after the other, of which each lets the staging of rows take seconds."""
    seconds = 2.5 / sum(record.kind == "click" for record in scene.records)
    for name in ("slow", "slower"):
        scene.sql(
            f"CREATE MATERIALIZED VIEW {scene.database}.{name} ENGINE = MergeTree ORDER BY n AS SELECT n, "
            f"_slice, _cluster FROM {scene.database}.clicks WHERE sleepEachRow({seconds:.3f}) = 0"
        )


@pytest.mark.parametrize("ending", [SIGKILL, Signals.SIGSTOP], ids=["dead", "asleep"])
@pytest.mark.long
def test_a_statement_that_goes_on_without_its_client(make_scene, fault_log, ending: Signals):
    scene = make_scene(ending.name.lower())
    make_slow(scene)
    prefix = f"sluice-{digest(f'{scene.database}.clicks')}-"
    running = f"SELECT query_id FROM system.processes WHERE query_id LIKE '{prefix}%-stage-%' "
    running += "AND query LIKE 'INSERT%'"
    racer = Racer(scene.job(0, HOURS, trap=NEVER))
    with fault_log.trial("race", f"client {ending.name} while the server stages rows"):
        wait_until(lambda: bool(scene.sql(running)), "the staging", DEADLINE_SECONDS)
        if ending is SIGKILL:
            racer.send_signal(SIGKILL)
        else:
            stop_outside_locks(racer, scene.lake.root)
        assert scene.sql(running), "it was over too soon to prove anything"
        race(scene.job(0, HOURS))
        expect_exact(scene)
        assert scene.sql(running) == []
        if ending is Signals.SIGSTOP:
            racer.send_signal(SIGCONT)
        outcome = racer.outcome()
        assert outcome is None if ending is SIGKILL else outcome is not None and outcome.error
        expect_exact(scene)
        for name in ("slow", "slower"):
            twice = f"SELECT n FROM {scene.database}.{name} GROUP BY n HAVING count() > 1"
            assert scene.sql(twice) == []


def stop_outside_locks(process: subprocess.Popen, root: Path) -> None:
    """Stops it while its renewals hold no lock of the lake folder: nobody can break a stopped one's lock."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        process.send_signal(SIGSTOP)
        if not any(held(lock) for lock in root.glob(".sluice/locks/*")):
            return
        process.send_signal(SIGCONT)
    raise AssertionError("the loader never let go of its locks")


def held(lock: Path) -> bool:
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
