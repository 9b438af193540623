"""Both DAGs of a pipeline, run by Airflow itself (`airflow dags test`) on the real services."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import clickhouse_connect
import pyarrow.parquet as pq
import pytest
import yaml
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

# Two minutes; tests/browser starts both DAGs in each commit.
pytestmark = [pytest.mark.integration, pytest.mark.long]

HOURS, PER_HOUR, PARTITIONS = 3, 40, 2
START = (datetime.now(UTC) - timedelta(hours=HOURS + 1)).replace(minute=0, second=0, microsecond=0)
END = START + timedelta(hours=HOURS)
TYPES = ("click", "bid", "view")  # `view` has no table of its own
DAG_FILE = """\
# An Airflow DAG file over pipeline files elsewhere.
from pathlib import Path
from sluice.airflow.dags import pipeline_dags
globals().update(pipeline_dags(Path({folder!r})))
"""

# id, type and the hour that it is published into
EVENTS = [
    (f"{hour}-{number}", TYPES[number % 3], START + timedelta(hours=hour, seconds=number))
    for hour in range(HOURS)
    for number in range(PER_HOUR)
]


class Stack:
    """One pipeline of its own in an Airflow of its own, beside the session's broker and ClickHouse."""

    def __init__(self, name: str, folder: Path, environment: dict[str, str], clickhouse) -> None:
        self.name, self.folder, self.home = name, folder, folder / "airflow"
        self.lake = folder / "lake" / name
        self.environment = {
            **environment,
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        }
        self.client = clickhouse_connect.get_client(**clickhouse.at.login, autogenerate_session_id=False)

    def airflow(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [Path(sys.executable).parent / "airflow", *arguments],
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=600,
        )

    def run(self, dag_id: str, *arguments: str, **environment: str) -> tuple[bool, str]:
        """(success, everything said) of one run of the DAG."""
        ran = self.airflow("dags", "test", dag_id, *arguments, **environment)
        return ran.returncode == 0, ran.stdout + ran.stderr

    def backfill(self, **params: object) -> tuple[bool, str]:
        given = {"from": START.isoformat(), "to": END.isoformat(), **params}
        return self.run(f"{self.name}_backfill", "-c", json.dumps(given))

    def rows(self) -> list[tuple]:
        """(table, id, slice) of every row, in order."""
        found = []
        for table in ("clicks", "other"):
            sql = f"SELECT '{table}', id, _slice FROM {self.name}.{table} ORDER BY id"
            found += self.client.query(sql).result_rows
        return sorted((table, key, at.replace(tzinfo=UTC)) for table, key, at in found)

    def files(self) -> dict[str, int]:
        """Everything in the lake, with when it was written; not what steps note of every run."""
        return {
            str(path.relative_to(self.lake)): path.stat().st_mtime_ns
            for path in self.lake.rglob("*")
            if path.is_file() and path.relative_to(self.lake).parts[0] not in ("_timings", "_verify")
        }

    def marks(self) -> list[str]:
        """Those of complete event hours."""
        return sorted(str(path.relative_to(self.lake)) for path in self.lake.glob("type=*/**/_SUCCESS"))

    def landed_ids(self) -> list[str]:
        """The events in the lake's type/date/hour folders."""
        payloads = [
            json.loads(value)
            for path in self.lake.glob("type=*/**/*.parquet")
            for value in pq.ParquetFile(path).read(["_payload"])["_payload"].to_pylist()
        ]
        return sorted(payload["id"] for payload in payloads)

    def database(self, sql: str) -> list[tuple]:
        with closing(sqlite3.connect(self.home / "airflow.db")) as connection:
            return connection.execute(sql).fetchall()

    def hour_keys(self) -> list[tuple[str, str]]:
        """(asset, partition key) of every event of an asset of hours; a key that is None is none."""
        sql = "SELECT asset.uri, partition_key FROM asset_event JOIN asset ON asset.id = asset_id"
        return sorted(self.database(f"{sql} WHERE asset.uri LIKE '%/hours'"))

    def states(self) -> dict[str, set[str]]:
        """The states of the last run's task instances, by task."""
        last = "(SELECT run_id FROM dag_run ORDER BY id DESC LIMIT 1)"
        found: dict[str, set[str]] = {}
        for task, state in self.database(f"SELECT task_id, state FROM task_instance WHERE run_id = {last}"):
            found.setdefault(task, set()).add(state)
        return found


def expected_rows() -> list[tuple]:
    return sorted(
        ("clicks" if kind == "click" else "other", key, at.replace(minute=0, second=0))
        for key, kind, at in EVENTS
    )


def proven_keys(name: str) -> list[tuple[str, str]]:
    """Of both tables; the last hour waits for the slice after it."""
    keys = [f"{START + timedelta(hours=hour):%Y-%m-%dT%H}:00:00" for hour in range(HOURS - 1)]
    return [(f"sluice://{name}/{name}.{table}/hours", key) for table in ("clicks", "other") for key in keys]


def publish(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, topic_configs={"retention.ms": "-1"})])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number, (key, kind, at) in enumerate(EVENTS):
        event = {"id": key, "type": kind, "at": at.isoformat()}
        producer.send(
            topic,
            json.dumps(event).encode(),
            partition=number % PARTITIONS,
            timestamp_ms=int(at.timestamp() * 1000),
        )
    producer.close()


@pytest.fixture
def stack(
    name: str, tmp_path: Path, stack_env: dict[str, str], kafka_broker: str, clickhouse_server
) -> Stack:
    stack = Stack(name, tmp_path, stack_env, clickhouse_server)
    publish(kafka_broker, name)
    stack.client.command(f"CREATE DATABASE {name}")
    for table in ("clicks", "other"):
        stack.client.command(
            f"CREATE TABLE {name}.{table} (id String, type String, _slice DateTime('UTC'), "
            "_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY id"
        )
    pipeline = {
        "kafka": [{"cluster": "dc1", "connection": "kafka_default", "topics": [name]}],
        "event": {"type": {"field": "type"}, "time": {"field": "at"}},
        "lake": f"file://{tmp_path}/lake",
        "tables": {"click": f"{name}.clicks", "*": f"{name}.other"},
        "start": START.isoformat(),
        "lookback": f"{HOURS}h",
        "rows_per_read": 25,
    }
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / f"{name}.yaml").write_text(yaml.safe_dump(pipeline))
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "pipelines.py").write_text(DAG_FILE.format(folder=str(tmp_path / "pipelines")))
    migrated = stack.airflow("db", "migrate")
    assert migrated.returncode == 0, migrated.stderr
    return stack


def test_the_hourly_dag_lands_its_hour_and_heals_the_ones_before(stack: Stack):
    done, said = stack.run(stack.name, END.isoformat())
    assert done, said
    assert stack.rows() == expected_rows()
    assert stack.landed_ids() == sorted(key for key, _, _ in EVENTS)
    assert {state for states in stack.states().values() for state in states} == {"success"}

    events = stack.database(
        "SELECT asset.uri, asset_event.extra FROM asset_event JOIN asset ON asset.id = asset_id "
        "WHERE partition_key IS NULL"
    )
    announced = {(uri, at): rows for uri, extra in events for at, rows in json.loads(extra)["slices"].items()}
    per_hour = {"clicks": 14, "other": 26}  # of 40 numbers, those that 3 divides, and the rest
    assert announced == {
        (f"sluice://{stack.name}/{stack.name}.{table}", f"{START + timedelta(hours=h):%Y-%m-%dT%HZ}"): rows
        for table, rows in per_hour.items()
        for h in range(HOURS)
    }
    assert stack.hour_keys() == proven_keys(stack.name)

    before = stack.files()
    done, said = stack.run(stack.name, END.isoformat())
    assert done, said
    assert stack.rows() == expected_rows()
    assert stack.files() == before
    assert stack.states()["batch.land"] == {"skipped"}
    assert stack.states()["verify_all"] == {"success"}
    assert stack.hour_keys() == proven_keys(stack.name)


def test_the_backfill_dag(stack: Stack):
    done, said = stack.backfill(dry_run=True)
    assert done, said
    assert stack.states().pop("plan") == {"success"}
    assert stack.states()["batch.land"] == {"skipped"}
    assert f"{START:%Y-%m-%dT%HZ}/dc1" in said
    assert (stack.rows(), stack.files()) == ([], {})

    done, said = stack.backfill()
    assert done, said
    assert stack.rows() == expected_rows()
    filled = stack.files()

    done, said = stack.backfill(mode="reland")
    assert done, said
    assert stack.rows() == expected_rows()
    assert stack.landed_ids() == sorted(key for key, _, _ in EVENTS)
    replaced = {path for path in filled if path.startswith("type=") and path.endswith(".parquet")}
    assert replaced
    assert replaced & set(stack.files()) == set()


def test_a_backfill_of_one_table_leaves_the_other_and_marks_nothing(stack: Stack):
    """What is left is done by a run without a choice, which publishes."""
    done, said = stack.backfill(tables=[f"{stack.name}.clicks"])
    assert done, said
    assert stack.rows() == [row for row in expected_rows() if row[0] == "clicks"]
    states, load = stack.states(), f"batch.load.{stack.name}"
    assert (states[f"{load}.clicks"], states[f"{load}.other"]) == ({"success"}, {"skipped"})
    steps = ("batch.land", "batch.verify", "batch.publish", "verify_all")
    assert [states[step] for step in steps] == [{"success"}] * 4
    assert stack.database("SELECT * FROM asset_event") == []
    assert stack.marks() == []

    done, said = stack.backfill()
    assert done, said
    assert stack.rows() == expected_rows()
    assert stack.states()["batch.publish"] == {"success"}
    assert len(stack.database("SELECT * FROM asset_event WHERE partition_key IS NULL")) == 2
    assert stack.hour_keys() == proven_keys(stack.name)
    assert stack.marks()


def test_a_landing_that_cannot_begin_fails_the_run_and_changes_nothing(stack: Stack):
    pipeline = stack.folder / "pipelines" / f"{stack.name}.yaml"
    pipeline.write_text(pipeline.read_text() + "spark_connection: spark_elsewhere\n")
    done, said = stack.backfill()
    assert not done
    assert "Airflow has no Spark connection 'spark_elsewhere'" in said
    states = stack.states()
    assert states["batch.land"] == {"failed"}
    assert states["batch.load." + stack.name + ".clicks"] == {"success"}
    assert states["batch.publish"] == states["verify_all"] == {"upstream_failed"}
    assert stack.rows() == []
    assert stack.landed_ids() == []
