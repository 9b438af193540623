"""The embedded stack on free ports, with the demo's pipeline, three roles, and events of our own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import clickhouse_connect
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from local import airflow_api
from local.demo import create_tables
from local.environment import Settings, environment
from local.readiness import free_port, wait_until
from local.sample_events import late, on_time
from local.versions import ROOT

HOUR = timedelta(hours=1)
HOURS, PER_HOUR, PARTITIONS = 20, 300, 3
ROLES = "admin:admin,viewer:viewer,user:user"
# Whatever an event's type or payload says has to stay text.
MARKUP = "<img src=x onerror=alert(1)>"
# The patience of a loaded machine.
SECONDS = 300

RESOLVE = """
import sys
from sluice.config.files import find, read
from sluice.slices import Slice, SliceRange
from sluice.flow.steps import resolve_range
first = Slice.from_id(sys.argv[1])
resolve_range(read(find("adx")), SliceRange(first.start, first.end))
"""


@dataclass
class PageStack:
    """`hours` are the starts of the last complete hours, the oldest first."""

    settings: Settings
    env: dict[str, str]
    hours: list[datetime]

    @classmethod
    def start(cls, home: Path) -> PageStack:
        settings = Settings(home, free_port(neighbours=1), free_port(), free_port())
        own = {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ROLES, "AIRFLOW__API__EXPOSE_CONFIG": "False"}
        env = environment(settings, {**os.environ, **own})
        end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        stack = cls(settings, env, [end - number * HOUR for number in range(HOURS, 0, -1)])
        stack._run("-m", "local.stack", "up")
        return stack

    def stop(self) -> None:
        self._run("-m", "local.stack", "down")

    @property
    def url(self) -> str:
        return self.settings.airflow_url

    def passwords(self) -> dict[str, str]:
        return json.loads(airflow_api.password_file(self.settings).read_text())

    @property
    def airflow(self) -> airflow_api.Airflow:
        return airflow_api.Airflow(self.settings)

    def backfilled(self) -> list[str]:
        """The states of the runs that Airflow's own backfill has made."""
        return [run["state"] for run in self.airflow.runs("adx", 50) if run["run_type"] == "backfill"]

    def client(self) -> clickhouse_connect.driver.Client:
        return clickhouse_connect.get_client(**self.settings.clickhouse_login)

    def prepare(self) -> None:
        """Tables, events, and the first hour resolved: from it on the pipeline has hours to wait for."""
        create_tables(self.client())
        self._publish()
        self._run("-c", RESOLVE, f"{self.hours[0]:%Y-%m-%dT%HZ}")
        airflow = self.airflow
        wait_until(lambda: airflow.has_dag("adx_backfill"), "the DAG adx_backfill", SECONDS)

    def verify(self) -> subprocess.CompletedProcess[str]:
        end = self.hours[-1] + HOUR
        span = ("--from", f"{self.hours[0]:%Y-%m-%dT%HZ}", "--to", f"{end:%Y-%m-%dT%HZ}")
        return self.command("sluice", "verify", "adx", *span)

    def _publish(self) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.settings.bootstrap)
        admin.create_topics([NewTopic("adx", PARTITIONS, 1, topic_configs={"retention.ms": "-1"})])
        admin.close()
        producer = KafkaProducer(bootstrap_servers=self.settings.bootstrap, linger_ms=50)
        for hour in self.hours:
            lines = lines_of(hour)
            for number, line in enumerate(lines):
                at = hour.timestamp() * 1000 + number * (3_600_000 // (len(lines) + 1))
                partition = number % PARTITIONS
                producer.send("adx", line.encode(), partition=partition, timestamp_ms=int(at))
        producer.close()

    def _run(self, *words: str) -> None:
        done = self.command("python", *words)
        assert done.returncode == 0, done.stdout + done.stderr

    def command(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [Path(sys.executable).with_name(program), *words]
        return subprocess.run(
            command, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=2 * SECONDS
        )


def lines_of(hour: datetime) -> list[str]:
    """What is published with record times of the hour."""
    return [*on_time(hour, PER_HOUR), *late(hour, PER_HOUR), *strange(hour)]


def strange(hour: datetime) -> list[str]:
    """A type and payloads with markup in them: one that lands, one misfit, one without a type."""
    at = hour.isoformat()
    return [
        json.dumps({"type": MARKUP, "timestamp": at, "id": "strange"}),
        json.dumps({"type": "click", "timestamp": at, "id": "1", "price": f"free {MARKUP}"}),
        json.dumps({"timestamp": at, "note": MARKUP}),
    ]
