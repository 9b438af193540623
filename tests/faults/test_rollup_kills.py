"""A process killed between a source's commit and its rollup's, and inside the rollup's own protocol: the next
run leaves in source and rollups exactly what landed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.crash_points import TableLoad
from sluice.state.unit_state import UnitState
from tests.integration.landed import World, client_of, unit
from tests.integration.rolled import Rolled, clicks

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]
# Loads the source, then its rollups, and kills itself right after one table's step, as `kill -9` would.
LOADER = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
from sluice import crash_points as points
from tests.integration.landed import World, client_of, unit
from tests.integration.rolled import Rolled

root, port, database, table, step, mode = sys.argv[1:]
rolled = Rolled(World(Path(root), client_of(SimpleNamespace(host="127.0.0.1", port=int(port))), database))
loading = ""

def reached(point):
    if (loading, point.value) == (table, step):
        os.kill(os.getpid(), signal.SIGKILL)

points.reached = reached
for loading in ("clicks", "by_user", "by_hour"):
    rolled.load(unit(0), unit(1), table=loading, mode=mode)
"""
SHORT = [
    ("clicks", TableLoad.RELEASED),
    ("by_user", TableLoad.DELETED),
    ("by_hour", TableLoad.MOVED),
    ("by_hour", TableLoad.COMMITTED),
]
LONG = [(table, step) for table in ("clicks", "by_user", "by_hour") for step in TableLoad]


@pytest.fixture
def rolled(clickhouse_server, tmp_path, name) -> Rolled:
    made = Rolled(World(tmp_path, client_of(clickhouse_server), name))
    made.create()
    made.land(unit(0), clicks(50))
    made.land(unit(1), [*clicks(30, 1, seed=2), *clicks(20, 0, seed=3)])
    made.load_all(unit(0))
    made.land(unit(0), clicks(70, seed=8), generation=2)
    yield made
    made.world.sql("DROP DATABASE {db} SYNC")


def killed(rolled: Rolled, port: int, table: str, step: TableLoad) -> None:
    world, paths = rolled.world, f"{ROOT / 'plugins'}{os.pathsep}{ROOT}"
    words = [str(world.root), str(port), world.database, table, step.value, "fill"]
    done = subprocess.run(
        [sys.executable, "-c", LOADER, *words],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.long
def test_killed_beside_a_rollup(rolled: Rolled, clickhouse_server, long_form, fault_log):
    """A unit that was never loaded, and one that is loaded again; killed at one point after the other."""
    for table, step in LONG if long_form else SHORT:
        killed(rolled, clickhouse_server.port, table, step)
        with fault_log.trial("kill", step, victim="rolling process"):
            if not (
                table == "by_hour" and step in (TableLoad.COMMITTED, TableLoad.DROPPED, TableLoad.RELEASED)
            ):
                assert set(rolled.states(unit(0), unit(1))) <= {UnitState.LANDED, UnitState.STALE}
            rolled.load_all(unit(0), unit(1))
            assert rolled.seen() == rolled.expected()
            assert rolled.states(unit(0), unit(1)) == [UnitState.COMPLETE] * 2
        # The next kill finds another commit of the source to be caught up with.
        rolled.load(unit(0), unit(1), table="clicks", mode="reload")
        rolled.land(unit(1), clicks(40, 1, seed=len(step.value)), generation=3)
