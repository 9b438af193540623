"""Airflow with its scheduler and local executor, whose task processes obey orders to be killed."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from local.environment import Settings, environment
from local.readiness import free_port, wait_until

PARTS = (("scheduler", "--skip-serve-logs"), ("dag-processor",), ("api-server",))
START_SECONDS, RUN_SECONDS = 300, 900
# The product waits 30 s and more before it tries again.
DEFAULTS = "airflow: {retry_delay: 1s}\n"
DAG_FILE = """\
from pathlib import Path
from sluice.airflow.dags import pipeline_dags
globals().update(pipeline_dags(Path({folder!r})))
"""


def kill_with_children(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        victim = psutil.Process(pid)
        for one in (victim, *victim.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                one.kill()


@dataclass
class Airflow:
    folder: Path
    pipelines: Path
    more: Mapping[str, str]
    port: int = field(default_factory=free_port)
    parts: list[subprocess.Popen] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.folder / "airflow"

    @property
    def log(self) -> Path:
        return self.folder / "airflow.log"

    def start(self) -> None:
        (self.folder / "dags").mkdir(exist_ok=True)
        (self.folder / "plugins").mkdir()
        (self.folder / "dags" / "pipelines.py").write_text(DAG_FILE.format(folder=str(self.pipelines)))
        self.pipelines.mkdir(exist_ok=True)
        (self.pipelines / "_defaults.yaml").write_text(DEFAULTS)
        self.command("db", "migrate")
        self.start_parts()

    def start_parts(self) -> None:
        for part in PARTS:
            with self.log.open("ab") as log:
                started = subprocess.Popen(
                    [self._program, *part],
                    env=self._environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            self.parts.append(started)

    def kill(self) -> None:
        """Kills all of Airflow at once, with the tasks it runs."""
        for part in self.parts:
            kill_with_children(part.pid)
            part.wait(60)
        self.parts.clear()

    def stop(self) -> None:
        for part in self.parts:
            part.terminate()
        for part in self.parts:
            try:
                part.wait(60)
            except subprocess.TimeoutExpired:
                part.kill()

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self._program, *words], env=self._environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done

    def rows(self, sql: str) -> list[tuple]:
        with closing(sqlite3.connect(self.home / "airflow.db", timeout=60)) as connection:
            return connection.execute(sql).fetchall()

    def wait_for_dag(self, dag: str) -> None:
        found = f"SELECT 1 FROM serialized_dag WHERE dag_id = '{dag}'"
        self._wait(lambda: bool(self.rows(found)) or self._refused(), f"DAG {dag}", START_SECONDS)

    def _refused(self) -> bool:
        """Raises what Airflow says of DAG files that it cannot import."""
        errors = self.rows("SELECT filename, stacktrace FROM import_error")
        assert not errors, errors
        return False

    def trigger(self, dag: str, run: str, params: Mapping[str, str]) -> None:
        self.command("dags", "trigger", dag, "--run-id", run, "--conf", json.dumps(params))

    def wait_for_run(self, run: str) -> str:
        """The state in which it ended."""
        sql = f"SELECT state FROM dag_run WHERE run_id = '{run}' AND state IN ('success', 'failed')"
        self._wait(lambda: bool(self.rows(sql)), f"run {run}", RUN_SECONDS)
        return self.rows(sql)[0][0]

    def wait_for(self, ready: Callable[[], bool], what: str) -> None:
        self._wait(ready, what, RUN_SECONDS)

    def kill_task(self, dag: str, task: str) -> None:
        """Waits until a task whose name begins so runs, and kills its processes."""
        kill_with_children(self.wait_for_task(dag, task))

    def wait_for_task(self, dag: str, task: str) -> int:
        """Waits until a task whose name begins so runs; returns its process."""
        sql = f"SELECT pid FROM task_instance WHERE dag_id = '{dag}' AND task_id LIKE '{task}%'"
        sql += " AND state = 'running' AND pid IS NOT NULL"
        self._wait(lambda: bool(self.rows(sql)), f"{task} of {dag}", RUN_SECONDS)
        return self.rows(sql)[0][0]

    def tries(self, run: str) -> dict[str, int]:
        sql = f"SELECT task_id, max(try_number) FROM task_instance WHERE run_id = '{run}' GROUP BY task_id"
        return dict(self.rows(sql))

    def announced(self) -> list[tuple[str, str, int]]:
        """(asset, slice, rows) of every slice of every asset event."""
        sql = "SELECT asset.uri, asset_event.extra FROM asset_event JOIN asset ON asset.id = asset_id"
        sql += " WHERE partition_key IS NULL"
        found = [(uri, json.loads(extra)) for uri, extra in self.rows(sql)]
        return sorted(
            (uri, slice_id, rows) for uri, extra in found for slice_id, rows in extra["slices"].items()
        )

    def _wait(self, ready: Callable[[], bool], what: str, seconds: float) -> None:
        wait_until(ready, what, seconds, check=self._all_alive, poll=0.5)

    def _all_alive(self) -> None:
        ended = [part.args for part in self.parts if part.poll() is not None]
        assert not ended, f"{ended} ended: {self.log.read_text(errors='replace')[-2000:]}"

    @property
    def _program(self) -> Path:
        return Path(sys.executable).with_name("airflow")

    @property
    def _environment(self) -> dict[str, str]:
        settings = Settings(self.folder, airflow_port=self.port)
        return {
            **environment(settings, os.environ),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.folder / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(self.folder / "plugins"),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "600",
            **self.more,
        }
