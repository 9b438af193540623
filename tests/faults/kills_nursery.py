"""Runs whole flows, resolve to publish, each in a process forked for it: hundreds of kills are affordable.

The nursery is a process that has imported everything and started no thread. It reads one flow a line,
forks, and prints the child's process id and, when it has ended, its exit code. Kafka and Spark are in the
child (tests/support/landing_world.py), or Kafka is a real one; lake and ClickHouse are real.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas  # noqa: F401 - pyarrow imports it at the first list: not in each child again
import pendulum

from local.versions import ROOT
from sluice import crash_points
from sluice.clients.kafka.topics import open_topics
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.flow import steps
from sluice.flow.forget import forget_window
from sluice.flow.land.land import land
from sluice.flow.land.read import Engine
from sluice.flow.resolve.resolve import resolve
from sluice.slices import SliceRange
from sluice.state.boundaries import log
from tests.faults import kills_effects
from tests.faults.kills_broker import PIECE, FromBroker
from tests.faults.kills_points import Reaper
from tests.faults.kills_state import unnamed
from tests.support.clickhouse_at import at
from tests.support.landing_world import InProcess, World

ROWS_PER_READ = 4  # so that each place has several small files, which are merged


@dataclass(frozen=True)
class Flow:
    """`logs` are Kafka's records (kills_events.logs), or None: the pipeline's own cluster is asked.

    `orders` is the folder of kills_points; `effects`: what is written is noted in its trace as well. `piece`:
    records of a task, where Kafka is real.
    """

    pipeline: Pipeline
    slices: SliceRange
    clickhouse: int
    orders: Path
    logs: dict | None
    mode: str = "fill"
    token: str = "t"
    effects: bool = False
    piece: int = PIECE

    def run(self) -> None:
        os.environ["AIRFLOW_CONN_CLICKHOUSE_DEFAULT"] = at(self.clickhouse).variable
        crash_points.reached = Reaper(self.orders)
        log.CHECKPOINT_EVERY = 1  # each entry: it is a step like others
        if self.effects:
            kills_effects.record(self.orders)
        topics_of, engine = self._kafka()
        lake = open_lake(self.pipeline)
        if self.mode == "forget":
            forget_window(self.pipeline, lake, self.slices, pendulum.now("UTC"))
            return
        resolution = resolve(self.pipeline, lake, list(self.slices), self.slices.end, topics_of)
        for error in resolution.unreachable.values():
            raise error
        land(self.pipeline, lake, self.slices, self.mode, self.token, engine, _silent, topics_of)
        for target in self.pipeline.targets:
            steps.load_table(self.pipeline, target.table, self.slices, self.mode, self.token, _silent)
        left = unnamed(lake.root)  # before verify, which tidies up
        assert left == [], left
        steps.verify_range(self.pipeline, self.slices)
        steps.publish_range(self.pipeline, self.slices)

    def _kafka(self) -> tuple[Callable, Engine]:
        if self.logs is None:
            return open_topics, FromBroker(self.piece)
        world = World(self.logs)
        return world.topics_of, InProcess(world, ROWS_PER_READ)


class Nursery:
    """`start` a flow, then `wait` for its exit code; one at a time. What children say is in `said`."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "nursery.log"
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.kills_nursery"],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'plugins'}{os.pathsep}{ROOT}"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                text=True,
            )

    def start(self, flow: Flow) -> int:
        """The child's process id."""
        print(pickle.dumps(flow).hex(), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def wait(self) -> int:
        """0: done; 1: it failed, as `said` has it; -9: it was killed."""
        return int(self._process.stdout.readline())

    def run(self, flow: Flow) -> int:
        self.start(flow)
        return self.wait()

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(30)


def _silent(_: str) -> None:
    pass


def _child(flow: Flow) -> int:
    try:
        flow.run()
    except SluiceError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 1
    except BaseException:
        traceback.print_exc()
        return 2
    return 0


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os._exit(_child(pickle.loads(bytes.fromhex(line))))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
