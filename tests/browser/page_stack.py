"""The embedded stack on free ports, with the demo's pipeline, three roles, and events of our own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree

import clickhouse_connect
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic

from local import airflow_api
from local.demo import create_tables
from local.environment import Settings, environment
from local.readiness import free_port, wait_until
from local.sample_events import late, on_time
from local.versions import ROOT

HOUR = timedelta(hours=1)
DAY, WEEK = 24 * HOUR, 7 * 24 * HOUR
HOURS, PER_HOUR, PARTITIONS = 20, 300, 3
LESS = 20  # events an hour, each day further back
TABLES = ("adx.bids", "adx.impressions", "adx.clicks", "adx.other", "adx.traffic")
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


WATCH = """
import sys
import pendulum
from sluice.clients.lake.open import open_lake
from sluice.config.files import find, read
from sluice.watch.watch import watch
pipeline = read(find("adx"))
watch(pipeline, open_lake(pipeline), pendulum.parse(sys.argv[1]), lambda *_: None)
"""


@dataclass
class PageStack:
    """`hours` are the starts of the last complete hours, the oldest first; Kafka also has the week before."""

    settings: Settings
    env: dict[str, str]
    hours: list[datetime]

    @classmethod
    def start(cls, home: Path) -> PageStack:
        settings = Settings(home, free_port(neighbours=1), free_port(), free_port())
        own = {
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ROLES,
            "AIRFLOW__API__EXPOSE_CONFIG": "False",
            "SLUICE_PIPELINES": str(home / "pipelines"),
        }
        copytree(ROOT / "include" / "pipelines", home / "pipelines")
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
        return self.command("sluice", "verify", "adx", *span(self.hours[0], self.hours[-1] + HOUR))

    def sluice(self, command: str, start: datetime, end: datetime, *words: str) -> None:
        """A command of a range, which has to end well."""
        self._ended(self.command("sluice", command, "adx", *span(start, end), *words))

    def watch(self, at: datetime) -> None:
        """One run of the watch, which notes the lag that it sees as that of the hour of `at`."""
        self._run("-c", WATCH, at.isoformat())

    def edit(self, old: str, new: str) -> None:
        """Edits the pipeline file."""
        path = self.settings.home / "pipelines" / "adx.yaml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def keep(self, time: timedelta) -> None:
        """Bounds how long Kafka keeps the topic."""
        settings = {"retention.ms": str(int(time.total_seconds() * 1000))}
        admin = KafkaAdminClient(bootstrap_servers=self.settings.bootstrap)
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "adx", settings)])
        admin.close()

    def expire(self, hour: datetime) -> int:
        """Deletes the first half of the hour's records of a partition in Kafka. Returns how many."""
        partition = TopicPartition("adx", 0)
        consumer = KafkaConsumer(bootstrap_servers=self.settings.bootstrap)
        edges = (hour, hour + HOUR)
        first, end = (consumer.offsets_for_times({partition: int(at.timestamp() * 1000)}) for at in edges)
        consumer.close()
        start, half = first[partition].offset, (end[partition].offset - first[partition].offset) // 2
        admin = KafkaAdminClient(bootstrap_servers=self.settings.bootstrap)
        admin.delete_records({partition: start + half})
        admin.close()
        return half

    def loaded(self, table: str) -> set[datetime]:
        """The hours of which the table has rows, as ClickHouse says."""
        found = self.client().query(f"SELECT DISTINCT toUnixTimestamp(_slice) FROM {table}").result_rows
        return {datetime.fromtimestamp(at, UTC) for (at,) in found}

    def rows(self, table: str, hour: datetime) -> int:
        return self.client().query(f"SELECT count() FROM {table} WHERE _slice = '{hour:%F %T}'").first_row[0]

    def delete_a_row(self, hour: datetime) -> None:
        """Deletes the first bid of the hour, in each partition that has one of its offset; once."""
        if self.rows("adx.bids", hour) < sum('"bid_request"' in line for line in self.lines(hour)):
            return
        of_hour = f"FROM adx.bids WHERE _slice = '{hour:%F %T}'"
        (offset,) = self.client().query(f"SELECT min(_offset) {of_hour}").first_row
        self.client().command(f"DELETE {of_hour} AND _offset = {offset}")

    def double_rows(self, hour: datetime, count: int) -> None:
        """Inserts rows of the hour a second time; once."""
        published = sum('"type":"impression"' in line for line in self.lines(hour))
        if self.rows("adx.impressions", hour) == published:
            rows = (
                f"SELECT * FROM adx.impressions WHERE _slice = '{hour:%F %T}' ORDER BY _offset LIMIT {count}"
            )
            self.client().command(f"INSERT INTO adx.impressions {rows}")

    def lose_a_file(self, hour: datetime) -> Path:
        """Deletes the hour's file of bids in the lake."""
        folder = self.settings.home / "lake" / "adx" / "type=bid_request" / f"{hour:date=%Y-%m-%d/hour=%H}"
        (found,) = folder.glob(f"{hour:%Y-%m-%dT%HZ}-*.parquet")
        found.unlink()
        return found

    def lines(self, hour: datetime) -> list[str]:
        """What is published with record times of the hour: each day further back a little less."""
        return lines_of(hour, PER_HOUR - LESS * max((self.hours[-1] - hour) // DAY, 0))

    def records(self, hours: Iterable[datetime]) -> int:
        return sum(len(self.lines(hour)) for hour in hours)

    def publish(self, hour: datetime, lines: Sequence[str], within: timedelta = HOUR) -> None:
        """Evenly over the hour, or its beginning, and over the partitions."""
        producer = Producer({"bootstrap.servers": self.settings.bootstrap, "log_level": 0, "linger.ms": 50})
        for number, line in enumerate(lines):
            at = (hour + number * (within / (len(lines) + 1))).timestamp() * 1000
            producer.produce("adx", line.encode(), partition=number % PARTITIONS, timestamp=int(at))
        assert producer.flush(SECONDS) == 0

    def _publish(self) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.settings.bootstrap)
        admin.create_topics([NewTopic("adx", PARTITIONS, 1, topic_configs={"retention.ms": "-1"})])
        admin.close()
        newest = self.hours[-1]
        for number in range(WEEK // HOUR, -1, -1):
            self.publish(newest - number * HOUR, self.lines(newest - number * HOUR))

    def _run(self, *words: str) -> None:
        self._ended(self.command("python", *words))

    def _ended(self, done: subprocess.CompletedProcess[str]) -> None:
        assert done.returncode == 0, done.stdout + done.stderr

    def command(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [Path(sys.executable).with_name(program), *words]
        return subprocess.run(
            command, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=2 * SECONDS
        )


def span(start: datetime, end: datetime) -> tuple[str, ...]:
    return "--from", f"{start:%Y-%m-%dT%HZ}", "--to", f"{end:%Y-%m-%dT%HZ}"


def lines_of(hour: datetime, per_hour: int) -> list[str]:
    return [*on_time(hour, per_hour), *late(hour, per_hour), *strange(hour)]


def strange(hour: datetime) -> list[str]:
    """A type and payloads with markup in them: one that lands, one rejected row, one without a type."""
    at = hour.isoformat()
    return [
        json.dumps({"type": MARKUP, "timestamp": at, "id": "strange"}),
        json.dumps({"type": "click", "timestamp": at, "id": "1", "price": f"free {MARKUP}"}),
        json.dumps({"timestamp": at, "note": MARKUP}),
    ]
