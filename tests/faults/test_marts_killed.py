"""The guide's DAG builds marts with a real dbt, over two days of hours; tasks and Airflow are killed."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread

import clickhouse_connect
import pytest
import yaml
from clickhouse_connect.driver.client import Client
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from sluice.cli.commands import commands
from tests.faults.kills_airflow import Airflow
from tests.integration.downstream.mart_world import Ended, installed, write_dbt_project
from tests.integration.downstream.test_dbt import DBT
from tests.integration.stack.test_wheel import run
from tests.support.documents import ROOT, samples

pytestmark = [pytest.mark.faults, pytest.mark.long]  # Airflow, Spark and dbt for a quarter of an hour

HOURS, PER_HOUR, PARTITIONS, LACKS = 48, 30, 2, 20
SAMPLES = {one.language: one.text for one in samples((ROOT / "docs/guide/dbt.md").read_text())}
HOUR, REMADE = timedelta(hours=1), 100
BY_SLICE = """{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='_slice',
batch_size='hour', begin='%s', lookback=0, unique_key='_slice', order_by='(_slice, hour, kind)') }}
SELECT _slice, toStartOfHour(at) AS hour, kind, count() AS clicks, sum(n * factor) AS total
FROM {{ source('p', 'clicks') }} GROUP BY _slice, hour, kind
"""
BY_HOUR = """{{ config(materialized='view') }}
SELECT hour, kind, sum(by_slice.clicks) AS clicks, sum(by_slice.total) AS total
FROM {{ ref('by_slice') }} AS by_slice GROUP BY hour, kind
"""
QUICK = {
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
}


@dataclass(frozen=True)
class Click:
    """`slice` and `hour` are numbers of hours since the first: that of the record, and that of the event."""

    slice: int
    hour: int
    kind: str
    n: int


def clicks() -> list[Click]:
    """Returns two days of them; every fifth is late by one to three hours."""
    return [
        Click(at, max(0, at - (1 + n % 3 if n % 5 == 0 else 0)), "abc"[n % 3], at + n)
        for at in range(HOURS)
        for n in range(PER_HOUR)
    ]


STRAGGLERS = [Click(HOURS - 1, at, "d", 7) for at in (2, 5, 31)]
"""Kafka gets them at the end, with stamps of their event hours."""


@dataclass
class Expected:
    """What the marts have to hold, from what was sent. `factors` are those of slices that were done again."""

    sent: list[Click]
    factors: dict[int, int] = field(default_factory=dict)

    def by_slice(self, slices: set[int]) -> Counter[tuple]:
        return _summed(
            ((one.slice, one.hour, one.kind), one.n * self.factors.get(one.slice, 1))
            for one in self.sent
            if one.slice in slices
        )

    def by_hour(self, slices: set[int]) -> Counter[tuple]:
        return _summed(
            ((one.hour, one.kind), one.n * self.factors.get(one.slice, 1))
            for one in self.sent
            if one.slice in slices
        )


def _summed(pairs: Iterator[tuple[tuple, int]]) -> Counter[tuple]:
    counts, totals = Counter(), Counter()
    for key, n in pairs:
        counts[key] += 1
        totals[key] += n
    return Counter((*key, counts[key], totals[key]) for key in counts)


@dataclass
class Marts:
    """A pipeline `p`, its table and topic, and a dbt project over them."""

    name: str
    folder: Path
    bootstrap: str
    server: object
    dbt: Path
    first: datetime = field(
        default_factory=lambda: datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - HOURS * HOUR
    )

    def __post_init__(self) -> None:
        self.client = clickhouse_connect.get_client(**self.server.at.login, autogenerate_session_id=False)
        self.client.command(f"CREATE DATABASE {self.name}")
        self.client.command(
            f"CREATE TABLE {self.name}.clicks (kind String, n UInt32, at DateTime('UTC'), "
            "factor UInt32 DEFAULT 1, _slice DateTime('UTC'), _cluster LowCardinality(String)) "
            "ENGINE = MergeTree ORDER BY _slice"
        )
        self.client.command(
            f"CREATE TABLE {self.name}.other (kind String, _slice DateTime('UTC'), "
            "_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice"
        )
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        admin.create_topics([NewTopic(self.name, PARTITIONS, 1, topic_configs={"retention.ms": "-1"})])
        admin.close()
        pipeline = {
            "kafka": [{"cluster": "dc1", "connection": "kafka_default", "topics": [self.name]}],
            "event": {"type": {"field": "type"}, "time": {"field": "at"}},
            "lake": f"file://{self.folder}/lake",
            "tables": {"click": f"{self.name}.clicks", "*": f"{self.name}.other"},
            "start": self.at(0).isoformat(),
            "lookback": f"{HOURS + 2}h",
            "clickhouse": {"connection": "clickhouse_default", "lease": "5s"},
            "alarms": {"overdue": "6h"},
        }
        self.pipelines.mkdir()
        (self.pipelines / "p.yaml").write_text(yaml.safe_dump(pipeline))
        (self.project / "models").mkdir(parents=True)
        write_dbt_project(self.project, self.server, self.name)
        (self.project / "models" / "by_slice.sql").write_text(BY_SLICE % f"{self.at(0):%Y-%m-%d %H:%M:%S}")
        (self.project / "models" / "by_hour.sql").write_text(BY_HOUR)
        dag = SAMPLES["python"].replace("sluice://adx/adx.", f"sluice://p/{self.name}.")
        (self.folder / "dags").mkdir()
        (self.folder / "dags" / "marts.py").write_text(dag.replace("/opt/marts", str(self.project)))

    @property
    def pipelines(self) -> Path:
        return self.folder / "pipelines"

    @property
    def project(self) -> Path:
        return self.folder / "marts"

    def at(self, number: int) -> datetime:
        return self.first + number * HOUR

    def send(self, sent: list[Click], stamp: str) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap)
        for number, one in enumerate(sent):
            at, second = self.at(getattr(one, stamp)), timedelta(seconds=number % 3000)
            event = {"type": "click", "kind": one.kind, "n": one.n, "at": self.at(one.hour).isoformat()}
            value, millis = json.dumps(event).encode(), int((at + second).timestamp() * 1000)
            producer.send(self.name, value, partition=number % PARTITIONS, timestamp_ms=millis)
        producer.close()

    def ask_dbt(self, *words: str) -> Ended:
        return run(self.dbt, "--no-use-colors", *words, cwd=self.project)

    def build(self, first: int, end: int) -> Ended:
        edges = [f"{self.at(number):%Y-%m-%d %H:%M:%S}" for number in (first, end)]
        span = ["--event-time-start", edges[0], "--event-time-end", edges[1]]
        asked = f"{{sluice_from: '{edges[0]}', sluice_to: '{edges[1]}'}}"
        return self.ask_dbt("build", *span, "--vars", asked)

    @property
    def fresh(self) -> bool:
        done = self.ask_dbt("source", "freshness", "--select", "source:p.clicks")
        assert (done.returncode in (0, 1) and "ERROR STALE" in done.stdout) or done.returncode == 0, (
            done.stdout
        )
        return done.returncode == 0

    def by_slice(self, client: Client | None = None) -> Counter[tuple]:
        client = client or self.client
        if not client.command(f"EXISTS {self.name}.by_slice"):
            return Counter()
        read = "SELECT toUnixTimestamp(_slice), toUnixTimestamp(hour), kind, clicks, total"
        rows = client.query(f"{read} FROM {self.name}.by_slice").result_rows
        return Counter((self.number(at), self.number(hour), *rest) for at, hour, *rest in rows)

    def by_hour(self) -> Counter[tuple]:
        sql = f"SELECT toUnixTimestamp(hour), kind, clicks, total FROM {self.name}.by_hour"
        return Counter((self.number(hour), *rest) for hour, *rest in self.client.query(sql).result_rows)

    def number(self, at: int) -> int:
        return (at - int(self.first.timestamp())) // 3600


class Reader(Thread):
    """Reads the mart all the time, and notes slices that are there and not whole."""

    def __init__(self, marts: Marts, expected: Expected) -> None:
        super().__init__(daemon=True)
        self.marts, self.ended, self.wrong, self.reads = marts, Event(), [], 0
        self.client = clickhouse_connect.get_client(**marts.server.at.login, autogenerate_session_id=False)
        self.whole = {
            at: [Expected(expected.sent, {at: factor}).by_slice({at}) for factor in (1, 0, REMADE)]
            for at in range(HOURS)
        }

    def run(self) -> None:
        while not self.ended.wait(0.1):
            found: dict[int, Counter[tuple]] = {}
            for row, count in self.marts.by_slice(self.client).items():
                found.setdefault(row[0], Counter())[row] += count
            self.reads += 1
            self.wrong += [(at, rows) for at, rows in found.items() if rows not in self.whole[at]]


@pytest.fixture
def marts(name, tmp_path, kafka_broker, clickhouse_server, tmp_path_factory, stack_env, monkeypatch) -> Marts:
    dbt = installed(tmp_path_factory.mktemp("dbt") / "venv", DBT) / "dbt"
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    return Marts(name, tmp_path, kafka_broker, clickhouse_server, dbt)


@pytest.fixture
def airflow(marts: Marts, stack_env) -> Iterator[Airflow]:
    connections = {key: value for key, value in stack_env.items() if key.startswith("AIRFLOW_CONN_")}
    home = {"HOME": str(marts.folder)}  # bash reads the user's own files where its input is a socket
    more = {
        **connections,
        **QUICK,
        **home,
        "PATH": f"{marts.dbt.parent}:{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    started = Airflow(marts.folder, marts.pipelines, more)
    started.start()
    yield started
    started.stop()


def test_marts_are_those_of_all_hours_whatever_is_killed(marts: Marts, airflow: Airflow):
    expected = Expected([*clicks(), *STRAGGLERS])
    reader = Reader(marts, expected)
    marts.send(clicks(), "slice")
    place = ["--config", str(marts.pipelines / "p.yaml"), "--into", str(marts.project)]
    commands(["dbt", "p", *place], standalone_mode=False)
    for dag in ("p_backfill", "marts"):
        airflow.wait_for_dag(dag)
        airflow.command("dags", "unpause", dag)

    def do(first: int, end: int, mode: str = "fill", *, kills: list[str]) -> None:
        """Runs a backfill and what it starts. A kill is of a task, or with `!` of all that runs meanwhile."""
        name = f"{mode}_{first}_{end}"
        span = {"from": marts.at(first).isoformat(), "to": marts.at(end).isoformat(), "mode": mode}
        airflow.trigger("p_backfill", name, span)
        for kill in kills:
            dag = "marts" if kill.strip("!") == "build" else "p_backfill"
            if kill.endswith("!"):
                airflow.wait_for_task(dag, kill.strip("!"))
                airflow.kill()
                airflow.start_parts()
            else:
                airflow.kill_task(dag, kill)
        assert airflow.wait_for_run(name) == "success"
        airflow.wait_for(lambda: idle(airflow), "the marts' runs to end")
        states = {state for (state,) in airflow.rows("SELECT state FROM dag_run WHERE dag_id = 'marts'")}
        assert states == {"success"}

    def hold(*slices: range) -> None:
        there = {at for one in slices for at in one}
        assert marts.by_slice() == expected.by_slice(there)
        assert marts.by_hour() == expected.by_hour(there)

    reader.start()
    do(0, LACKS, kills=["batch.land", "batch.load", "batch.verify!", "build"])
    hold(range(LACKS))
    do(LACKS + 1, HOURS - 2, kills=["batch.publish", "build!"])
    hold(range(LACKS), range(LACKS + 1, HOURS - 2))
    assert not marts.fresh
    asked = marts.build(LACKS - 1, LACKS + 2)
    assert asked.returncode == 1 and "sluice_hour_complete" in asked.stdout
    hold(range(LACKS), range(LACKS + 1, HOURS - 2))

    do(LACKS, LACKS + 1, kills=["batch.load!"])
    hold(range(HOURS - 2))
    assert marts.fresh, "the two newest hours may still come"
    marts.send(STRAGGLERS, "hour")
    do(HOURS - 2, HOURS, kills=["build"])
    hold(range(HOURS))
    assert marts.fresh

    change, hour = f"ALTER TABLE {marts.name}.clicks", int(marts.at(11).timestamp())
    marts.client.command(f"{change} UPDATE n = 0 WHERE _slice = {hour} SETTINGS mutations_sync = 2")
    assert marts.build(11, 12).returncode == 0
    assert marts.by_slice() != expected.by_slice(set(range(HOURS)))
    do(10, 13, "reland", kills=["batch.land", "build"])
    hold(range(HOURS))

    marts.client.command(f"{change} MODIFY COLUMN factor UInt32 DEFAULT {REMADE}")
    do(30, 33, "remake", kills=["batch.load", "batch.publish!"])
    expected.factors.update(dict.fromkeys(range(30, 33), REMADE))
    hold(range(HOURS))
    assert marts.fresh
    reader.ended.set()
    reader.join(30)
    assert reader.reads > 100 and reader.wrong == []


def idle(airflow: Airflow) -> bool:
    waiting = "SELECT 1 FROM asset_dag_run_queue WHERE target_dag_id = 'marts'"
    running = "SELECT 1 FROM dag_run WHERE dag_id = 'marts' AND state IN ('queued', 'running')"
    return not airflow.rows(waiting) and not airflow.rows(running)
