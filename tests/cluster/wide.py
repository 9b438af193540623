"""The wide stack under test: started once, its parts killed by name, its Airflow asked over REST and SQL."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import clickhouse_connect
import psutil
import psycopg2

from local.airflow_api import Airflow, healthy
from local.cluster.environment import BUCKET, environment
from local.cluster.postgres import PASSWORD
from local.cluster.settings import PORTS, ClusterSettings
from local.environment import HOST
from local.readiness import answers, broker_ready, clickhouse_ready, free_port, listens, wait_until
from local.services import ClickHouseAt
from local.versions import ROOT
from tests.integration.airflow.test_airflow import END

START_SECONDS, BACK_SECONDS, RUN_SECONDS = 900, 300, 900
LAKE = f"s3://{BUCKET}/landing"
CLICKHOUSE = {
    "shards": [
        {"name": "s1", "connection": "clickhouse_default"},
        {"name": "s2", "connection": "clickhouse_2"},
    ]
}
# The product waits 30 s and more before it tries again.
DEFAULTS = "airflow: {retry_delay: 5s}\n"
# Nothing but what a test asks for may run.
DAG_FILE = """\
from datetime import datetime
from pathlib import Path
from sluice.airflow.dags import pipeline_dags
# An Airflow DAG file over pipeline files elsewhere.
found = pipeline_dags(Path({folder!r}))
for each in found.values():
    each.end_date = datetime.fromisoformat({end!r})
    each.is_paused_upon_creation = False
globals().update(found)
"""


@dataclass
class Wide:
    folder: Path
    settings: ClusterSettings
    env: dict[str, str]

    @classmethod
    def start(cls, folder: Path) -> Wide:
        for name in ("dags", "pipelines"):
            (folder / name).mkdir()
        # The schedule's own run would be that of the hour after the tests' hours.
        last = (END - timedelta(seconds=1)).isoformat()
        text = DAG_FILE.format(folder=str(folder / "pipelines"), end=last)
        (folder / "dags" / "pipelines.py").write_text(text)
        (folder / "pipelines" / "_defaults.yaml").write_text(DEFAULTS)
        ports = {"SLUICE_KAFKA_PORT": free_port(neighbours=1)}
        ports |= {name: free_port() for name in PORTS if name not in ports}
        given = {"SLUICE_CLUSTER_HOME": str(folder / "home"), "SLUICE_DAGS_FOLDER": str(folder / "dags")}
        base = {**os.environ, **given, **{name: str(port) for name, port in ports.items()}}
        settings = ClusterSettings.read(base)
        wide = cls(folder, settings, environment(settings, base))
        wide._command("up")
        return wide

    def stop(self) -> None:
        self._command("down")

    @property
    def objects(self) -> Path:
        """The lake as versitygw keeps it: a file per object."""
        return self.settings.home / "s3" / BUCKET / "landing"

    @property
    def servers(self) -> list[SimpleNamespace]:
        password = self.settings.single.clickhouse_password
        ports = [self.settings.port(name) for name in ("CLICKHOUSE", "CLICKHOUSE2")]
        return [SimpleNamespace(host=HOST, port=port, at=ClickHouseAt(port, password)) for port in ports]

    def port(self, name: str) -> int:
        return self.settings.port(name)

    @cached_property
    def airflow(self) -> Airflow:
        return Airflow(self.settings.single)

    def trigger(self, dag: str, **body: Any) -> str:
        """The id of a new run."""
        self.wait(lambda: healthy(self.settings.single.airflow_url), "Airflow", START_SECONDS)
        self.wait(lambda: self.airflow.has_dag(dag), f"DAG {dag}", START_SECONDS)
        asked = {"logical_date": None, **body}
        return self.airflow._call("POST", f"/api/v2/dags/{dag}/dagRuns", asked)["dag_run_id"]

    def wait_for_run(self, dag: str, run: str) -> str:
        """The state in which it ended."""
        sql = f"SELECT state FROM dag_run WHERE dag_id = '{dag}' AND run_id = '{run}'"
        over = ("success", "failed")
        self.wait(lambda: self.sql(sql)[0][0] in over, f"run {run} of {dag}", RUN_SECONDS)
        return self.sql(sql)[0][0]

    def sql(self, text: str) -> list[tuple]:
        """Airflow's own database."""
        connection = psycopg2.connect(
            host=HOST,
            port=self.port("POSTGRES"),
            user="airflow",
            dbname="airflow",
            password=self.env[PASSWORD],
        )
        try:
            with connection.cursor() as cursor:
                cursor.execute(text)
                return cursor.fetchall()
        finally:
            connection.close()

    def wait(self, ready: Callable[[], bool], what: str, seconds: float = BACK_SECONDS) -> None:
        wait_until(ready, f"{what} (log: {self.settings.home}/logs/stack.log)", seconds, poll=0.3)

    def process(self, part: str) -> int:
        """The process id of a part, which is also its session."""
        return json.loads((self.settings.home / "stack.json").read_text())["sessions"][part]

    def kill(self, part: str) -> None:
        """kill -9 of everything that the part has started, as when its machine is lost; then it is back."""
        session = self.process(part)
        for pid in in_session(session):
            send(pid, signal.SIGKILL)
        self.wait(lambda: self.process(part) != session, f"another {part}")
        self.wait(self._answers(part), part)

    def executors(self, worker: str) -> list[psutil.Process]:
        """Spark's executors that this worker has started."""
        children = psutil.Process(self.process(worker)).children(recursive=True)
        return [p for p in children if any("CoarseGrainedExecutorBackend" in word for word in cmdline(p))]

    def _answers(self, part: str) -> Callable[[], bool]:
        port = self.port
        known: Mapping[str, Callable[[], bool]] = {
            "kafka": lambda: broker_ready(port("KAFKA")),
            "clickhouse1": lambda: clickhouse_ready(port("CLICKHOUSE")),
            "clickhouse2": lambda: clickhouse_ready(port("CLICKHOUSE2")),
            "s3": lambda: listens(port("S3")),
            "redis": lambda: listens(port("REDIS")),
            # Airflow's parts end with it, and are started again, too.
            "postgres": lambda: self._database_answers() and healthy(self.settings.single.airflow_url),
            "spark_master": lambda: answers(f"http://{HOST}:{port('SPARK_UI')}/json/"),
            "scheduler": lambda: healthy(self.settings.single.airflow_url),
            "api_server": lambda: healthy(self.settings.single.airflow_url),
        }
        return known.get(part, lambda: True)

    def _database_answers(self) -> bool:
        """It listens before it has recovered."""
        try:
            return bool(self.sql("SELECT 1"))
        except psycopg2.OperationalError:
            return False

    def _command(self, command: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "local.cluster", command],
            cwd=ROOT,
            env={**self.env, "SLUICE_CLUSTER_HOME": str(self.settings.home)},
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def in_session(session: int) -> list[int]:
    found = {session}
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session:
                found |= {process.pid, *(child.pid for child in process.children(recursive=True))}
        except (psutil.Error, ProcessLookupError):
            continue
    return sorted(found)


def send(pid: int, what: signal.Signals) -> None:
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        return


def cmdline(process: psutil.Process) -> Sequence[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return ()


class Everywhere:
    """A client of both servers: statements go to each, and a question is one over all of them."""

    def __init__(self, wide: Wide) -> None:
        self._clients = [
            clickhouse_connect.get_client(**server.at.login, autogenerate_session_id=False)
            for server in wide.servers
        ]
        addresses = ",".join(f"{HOST}:{wide.port(p)}" for p in ("CLICKHOUSE_TCP", "CLICKHOUSE2_TCP"))
        first = wide.servers[0].at
        self._remote = rf"FROM remote('{addresses}', \1.\2, '{first.user}', '{first.password}')"

    def command(self, sql: str) -> None:
        for client in self._clients:
            client.command(sql)

    def query(self, sql: str) -> Any:
        """`FROM db.table` reads the table of both servers, as a Distributed table over them does."""
        tables = re.compile(r"\bFROM ((?!system\.)[A-Za-z_]\w*)\.(\w+)")
        return self._clients[0].query(tables.sub(self._remote, sql))
