"""A loader killed after any step: the next one leaves in target, view and rejected exactly what landed."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from sluice.crash_points import TableLoad
from sluice.flow.load.fencing import fences, stagings
from tests.integration.landed import World, client_of, event, land, unit
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]
# Loads in a process of its own, which kills itself right after a step, as `kill -9` would.
LOADER = """
import os, signal, sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from sluice import crash_points as points
from sluice.crash_points import TableLoad
from tests.integration.landed import World, client_of, unit

root, port, database, table, last, mode = sys.argv[1:]
world = World(Path(root), client_of(SimpleNamespace(host="127.0.0.1", port=int(port))), database)

def reached(step):
    if not isinstance(step, TableLoad):
        return
    print(step.value, flush=True)
    if step.value == last:
        os.kill(os.getpid(), signal.SIGKILL)
    if last == f"wait after {step.value}":
        sys.stdin.readline()

points.reached = reached
pipeline = world.pipeline({"click": table}, clickhouse={"lease": "1s"})
world.load(pipeline, unit(0), unit(1), unit(2), mode=mode)
"""


def start(world: World, port: int, table: str, last: str, mode: str = "fill") -> subprocess.Popen:
    paths = f"{ROOT / 'plugins'}{os.pathsep}{ROOT}"
    return subprocess.Popen(
        [sys.executable, "-c", LOADER, str(world.root), str(port), world.database, table, last, mode],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def world(clickhouse_server, tmp_path_factory) -> World:
    made = World(tmp_path_factory.mktemp("lake"), client_of(clickhouse_server), "load_kills")
    made.sql("CREATE DATABASE {db}")
    rows = [event(n=n, kind=f"k{n % 3}") for n in range(50)]
    land(made.lake, unit(0), [*rows, event(n="x", kind="k0"), event(n=-1, kind="k1")])
    land(made.lake, unit(1), [])
    land(made.lake, unit(2), rows[:20])
    return made


def make_tables(world: World, table: str, view: bool) -> None:
    world.sql(
        f"CREATE TABLE {{db}}.{table} (n UInt16, kind LowCardinality(String), _slice DateTime('UTC'), "
        "_cluster LowCardinality(String)) ENGINE = MergeTree PARTITION BY n % 4 ORDER BY n"
    )
    if view:
        world.sql(
            f"CREATE MATERIALIZED VIEW {{db}}.{table}_kinds ENGINE = SummingMergeTree "
            f"ORDER BY (kind, _slice, _cluster) AS SELECT kind, _slice, _cluster, toUInt64(count()) "
            f"AS events FROM {{db}}.{table} "
            "GROUP BY kind, _slice, _cluster"
        )


def expect_exact(world: World, table: str, view: bool) -> None:
    numbers = Counter([*range(50), *range(20)])
    assert Counter(row[0] for row in world.sql(f"SELECT n FROM {{db}}.{table}")) == numbers
    assert len(world.sql(f"SELECT n FROM sluice.`{{db}}.{table}`")) == 70
    rejected = world.sql(f"SELECT column, value FROM sluice.rejected WHERE target = '{{db}}.{table}'")
    assert sorted(rejected) == [("n", "-1"), ("n", "x")]
    if view:
        kinds = Counter(f"k{n % 3}" for n in numbers.elements())
        found = world.sql(f"SELECT kind, sum(events) FROM {{db}}.{table}_kinds GROUP BY kind")
        assert dict(found) == kinds
    target = f"{world.database}.{table}"
    tables = [name for (name,) in world.sql("SELECT name FROM system.tables WHERE database = 'sluice'")]
    assert [name for name in tables if name.startswith((fences(target), stagings(target)))] == []


# With a view there are more staging tables, and more to attach: from there on the two differ.
DIFFERENT = [
    TableLoad.STAGED,
    TableLoad.REHEARSED,
    TableLoad.REVOKED,
    TableLoad.DELETED,
    TableLoad.MOVED,
    TableLoad.COUNTED,
    TableLoad.COMMITTED,
]
PLACES = [*((step, True) for step in TableLoad), *((step, False) for step in DIFFERENT)]


@pytest.mark.parametrize(("step", "view"), per_commit(PLACES[5:] + PLACES[:5], 2))
def test_killed_after_a_step(world: World, clickhouse_server, step: TableLoad, view: bool, fault_log):
    table = f"t_{step.name.lower()}_{'view' if view else 'parts'}"
    make_tables(world, table, view)
    pipeline = world.pipeline({"click": table}, clickhouse={"lease": "1s"})
    if step is TableLoad.REVOKED:
        world.load(pipeline, unit(0), unit(1), unit(2))
    mode = "reload" if step is TableLoad.REVOKED else "fill"
    killed = start(world, clickhouse_server.port, table, step.value, mode)
    out, errors = killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL, errors
    assert out.splitlines()[-1] == step.value
    with fault_log.trial("kill", step, victim="loading process"):
        result = world.load(pipeline, unit(0), unit(1), unit(2))
        committed = step in (TableLoad.COMMITTED, TableLoad.DROPPED, TableLoad.RELEASED)
        assert len(result.loaded) == (0 if committed else 3)
        assert sum(u.rows for u in result.units) == 70
        expect_exact(world, table, view)


def test_two_loaders_at_once(world: World, clickhouse_server):
    make_tables(world, "raced", view=True)
    racers = [start(world, clickhouse_server.port, "raced", "none", "fill") for _ in range(3)]
    for racer in racers:
        _, errors = racer.communicate(timeout=120)
        assert racer.returncode == 0 or "Busy" in errors, errors
    expect_exact(world, "raced", view=True)
    assert world.sql("SELECT count() FROM sluice.ledger WHERE target = '{db}.raced'") == [(3,)]


@pytest.mark.parametrize(
    "step",
    per_commit([TableLoad.MOVED, TableLoad.STAGED, TableLoad.REVOKED, TableLoad.DELETED, TableLoad.COUNTED]),
)
def test_a_loader_that_wakes_up_late_does_no_harm(world: World, clickhouse_server, step: TableLoad):
    """Stopped after a step, overtaken by another one, and let go on: it fails and changes nothing."""
    table = f"late_{step.name.lower()}"
    make_tables(world, table, view=True)
    sleeper = start(world, clickhouse_server.port, table, f"wait after {step.value}")
    try:
        while sleeper.stdout.readline().strip() != step.value:
            assert sleeper.poll() is None
        stop_outside_locks(sleeper, world.lake.root)
        pipeline = world.pipeline({"click": table}, clickhouse={"lease": "1s"})
        world.load(pipeline, unit(0), unit(1), unit(2))
        sleeper.send_signal(signal.SIGCONT)
        _, errors = sleeper.communicate("\n", timeout=60)
        assert "Fenced" in errors
    finally:
        sleeper.kill()
    expect_exact(world, table, view=True)


def stop_outside_locks(process: subprocess.Popen, root: Path) -> None:
    """Stops it while its renewals hold no lock of the lake folder: nobody can break a stopped one's lock."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        process.send_signal(signal.SIGSTOP)
        if not any(held(lock) for lock in root.glob(".sluice/locks/*")):
            return
        process.send_signal(signal.SIGCONT)
    raise AssertionError("the loader never let go of its locks")


def held(lock: Path) -> bool:
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
