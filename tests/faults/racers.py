"""Processes that land and load the same slices at once, and can be stopped or killed at a named point.

They are forked from a server that has imported everything, so that sixteen of them start in a second.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from sluice import crash_points
from sluice.clients.clickhouse.connect import connect
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.flow import steps
from sluice.flow.load.load import load
from sluice.slices import SliceRange
from sluice.state.file_moves import finish_moves
from sluice.state.units import units_of
from tests.faults.published import publish
from tests.faults.traps import Armed, Trap, TrappedClient, TrappedLake

_CONTEXT = multiprocessing.get_context("forkserver")
# pyarrow imports pandas at the first list: not in each process again.
_CONTEXT.set_forkserver_preload(["tests.faults.racers", "sluice.clients.lake.s3", "pandas"])
DEADLINE_SECONDS = 240


@dataclass(frozen=True)
class Job:
    """What one process does over `slices`: land of what is published, load, and `audit`.

    With 0 hours `published` nothing is landed.
    """

    pipeline: Pipeline
    slices: SliceRange
    environment: Mapping[str, str]
    published: int
    mode: str = "fill"
    token: str = "t"
    audit: bool = False
    trap: Trap | None = None


@dataclass(frozen=True)
class Outcome:
    """How a process ended: units it landed and loaded, and the error's class and text, or neither."""

    landed: int = 0
    loaded: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    text: str = ""


class Racer:
    """A process at work on a job."""

    def __init__(self, job: Job) -> None:
        self._answer, theirs = _CONTEXT.Pipe(duplex=False)
        self.process: BaseProcess = _CONTEXT.Process(target=_run, args=(job, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def send_signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def stopped(self) -> bool:
        """Whether it is asleep at its trap. Raises AssertionError when it has ended instead."""
        if self._answer.poll():
            raise AssertionError(f"it never came to its trap: {self._answer.recv()}")
        status = Path(f"/proc/{self.process.pid}/stat").read_text()
        return status.rpartition(")")[2].split()[0] == "T"

    def outcome(self) -> Outcome | None:
        """How it ended; None when it was killed."""
        try:
            if not self._answer.poll(DEADLINE_SECONDS):
                raise AssertionError("a racer did not end in time")
            return self._answer.recv()
        except EOFError:
            return None
        finally:
            self.process.kill()
            self.process.join()


def race(*jobs: Job) -> list[Outcome]:
    """All at once; each has to end without an error."""
    racers = [Racer(job) for job in jobs]
    outcomes = [racer.outcome() for racer in racers]
    ended = [outcome for outcome in outcomes if outcome is not None]
    errors = [f"{o.error}: {o.text}" for o in ended if o.error]
    assert not errors, "\n".join(errors)
    assert len(ended) == len(jobs), "a racer was killed"
    return ended


def _run(job: Job, answer: Connection) -> None:
    os.environ.update(job.environment)
    try:
        answer.send(_once(job) if job.trap else _retried(job))
    except SluiceError as error:
        answer.send(Outcome(error=type(error).__name__, text=str(error)))


def _retried(job: Job) -> Outcome:
    """As Airflow does it: what a retry can cure is tried again."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            return _all_steps(job)
        except SluiceError as error:
            if not error.retryable or time.monotonic() > deadline:
                raise


def _all_steps(job: Job) -> Outcome:
    landed, loaded = _land(job), {}
    for target in job.pipeline.targets:
        did = steps.load_table(job.pipeline, target.table, job.slices, job.mode, job.token, _say)
        loaded[target.table] = did["loaded"]
    if job.audit:
        steps.verify_range(job.pipeline, job.slices)
        steps.publish_range(job.pipeline, job.slices)
    return Outcome(landed, loaded)


def _land(job: Job, lake: Any = None) -> int:
    if not job.published:
        return 0
    lake = lake or open_lake(job.pipeline)
    world, _ = publish(job.published)
    world.resolve(job.pipeline, lake, job.slices)
    return len(world.land(job.pipeline, lake, job.slices, job.mode, job.token).landed)


def _once(job: Job) -> Outcome:
    """With the trap in the lake and in the client; no retries."""
    assert job.trap is not None
    armed = Armed(job.trap)
    crash_points.reached = armed.reached
    lake = TrappedLake(open_lake(job.pipeline), armed)
    landed, loaded = _land(job, lake), {}
    units = list(finish_moves(lake, units_of(job.pipeline, job.slices)))
    with connect(job.pipeline) as client:
        for target in job.pipeline.targets:
            did = load(
                job.pipeline,
                target,
                units,
                lake,
                TrappedClient(client, armed),
                mode=job.mode,
                token=job.token,
            )
            loaded[target.table] = len(did.loaded)
    return Outcome(landed, loaded)


def _say(_: str) -> None:
    """Progress is nobody's business here."""
