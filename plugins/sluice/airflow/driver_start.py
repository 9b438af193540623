"""Starts the driver of a landing whose task is deferred, or attaches to the one that is still running."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import pendulum
from airflow.sdk.exceptions import AirflowException

from sluice import __version__
from sluice.airflow.driver_end import REPLACED
from sluice.airflow.driver_trigger import WatchedDriver
from sluice.airflow.spark_processes import end_all
from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError, WrongUse
from sluice.safe_text import line
from sluice.state.driver_record import DriverRecord, may_attach
from sluice.state.driver_store import change_driver, leave_driver, read_driver, stop_driver, sweep_drivers

START_SECONDS = 120.0
"""A keeper that has not renewed its record for so long after its start has not started."""
_POLL_SECONDS = 0.2
# Airflow sets them where a task's process, and all that it has started, end with their container.
_CONTAINERS = ("AIRFLOW_IS_K8S_EXECUTOR_POD", "AIRFLOW_IS_EXECUTOR_CONTAINER")


@dataclass
class DriverStart:
    """`landing` names the landing: pipeline, task, run, range and mode. `command` is spark-submit's."""

    pipeline: Pipeline
    landing: Sequence[str]
    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    seconds: float | None
    say: Callable[[str], None]
    keeper: subprocess.Popen[bytes] | None = field(default=None, init=False)
    driver: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)

    def watched(self) -> WatchedDriver:
        """Returns the driver to wait for. Raises AirflowException when it does not start, and what the lake
        raises."""
        lake, key, new_record = open_lake(self.pipeline), landing_key(self.landing), self._record()
        sweep_drivers(lake, pendulum.now("UTC"))

        def attach_or_replace(record: DriverRecord | None) -> DriverRecord:
            return record if record is not None and may_attach(record, new_record.work) else new_record

        record = change_driver(lake, key, attach_or_replace) or new_record
        if record.id == new_record.id:
            self._start(lake, key)
            self.say(f"the driver has started: process {self.keeper and self.keeper.pid} keeps it")
        else:
            self.say(f"the driver of an earlier try is running on {record.host}, since {record.started}")
        if leave_driver(lake, key, record.id) is None:
            raise AirflowException(REPLACED)
        at = (self.pipeline.lake, self.pipeline.name, self.pipeline.lake_connection)
        return WatchedDriver(*at, key, record.id, record.host, record.started)

    def end(self) -> list[int]:
        """Ends the driver that was started here, and its keeper first; returns what does not end."""
        if self.keeper is None:
            return []
        self.keeper.kill()
        self.keeper.wait()
        return end_all(self.driver)

    def give_up(self) -> None:
        """Stores in the lake, where that answers, that the driver is to end: the next try starts one."""
        with suppress(SluiceError):
            stop_driver(open_lake(self.pipeline), landing_key(self.landing), self.driver)

    def _record(self) -> DriverRecord:
        work = work_of(self.pipeline, self.command)
        now = pendulum.now("UTC").isoformat()
        return DriverRecord(self.driver, work, socket.gethostname(), now)

    def _start(self, lake: Lake, key: str) -> None:
        log = Path(tempfile.gettempdir()) / f"sluice-driver-{self.driver}.log"
        # No secret is on the command line: they are in the environment, as spark-submit gets them.
        words = [sys.executable, "-m", "sluice.airflow.driver_keeper", "--key", key, "--driver", self.driver]
        words += ["--lake", self.pipeline.lake, "--pipeline", self.pipeline.name, "--log", str(log)]
        words += ["--lake-connection", self.pipeline.lake_connection] if self.pipeline.lake_connection else []
        words += [] if self.seconds is None else ["--seconds", str(self.seconds)]
        with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as output:
            self.keeper = subprocess.Popen(
                [*words, "--", *self.command],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._wait_for_a_beat(lake, key, log)

    def _wait_for_a_beat(self, lake: Lake, key: str, log: Path) -> None:
        until = time.monotonic() + START_SECONDS
        while True:
            record = read_driver(lake, key)
            if record is None or record.id != self.driver:
                raise AirflowException(REPLACED)
            if record.beat or record.end is not None:
                return
            ended = self.keeper is None or self.keeper.poll() is not None
            if ended or time.monotonic() > until:
                stop_driver(lake, key, self.driver)
                raise AirflowException(f"landing: its driver does not start: {_last_line(log)}")
            time.sleep(_POLL_SECONDS)


def refuse_containers(environment: Mapping[str, str] = os.environ) -> None:
    """Raises WrongUse where the driver would end with its task."""
    if any(environment.get(name) for name in _CONTAINERS):
        raise WrongUse(
            "airflow.deferrable: this executor ends a task's container when the task defers, and the driver "
            "with it: take the key out of the pipeline file or _defaults.yaml, or let `land` run in workers "
            "that stay (`airflow.steps: {land: {queue: …}}`)"
        )


def landing_key(landing: Sequence[str]) -> str:
    return layout.driver(sha256(json.dumps(list(landing)).encode()).hexdigest()[:32])


def work_of(pipeline: Pipeline, command: Sequence[str]) -> str:
    """Returns what a driver was started with, as a checksum: pipeline file, spark-submit, version."""
    text = json.dumps([pipeline.model_dump_json(), list(command), __version__])
    return sha256(text.encode()).hexdigest()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="backslashreplace").strip().splitlines()
    return f"{line(lines[-1], 500)} ({log})" if lines else f"its log {log} is empty"
