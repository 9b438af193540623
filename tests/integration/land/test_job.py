"""`sluice run --lookback` as a job: real Kafka and Spark, no Airflow, an environment with nothing else."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
import yaml
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from local.java import java_home
from tests.integration.landed import client_of

pytestmark = pytest.mark.integration

HOURS, EACH = 3, 400
START = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS)
NO_AIRFLOW = 'raise ModuleNotFoundError("No module named \'airflow\'", name="airflow")\n'
SENT = [
    (n, "click" if n % 3 else "bid", START + timedelta(seconds=n * 3600 // EACH)) for n in range(HOURS * EACH)
]


class Job:
    """Its pipeline file, its connections as mounted files, and a topic with the events of `SENT`."""

    def __init__(self, name: str, folder: Path, broker: str, server) -> None:
        self.name, self.folder, self.client = name, folder, client_of(server)
        self.client.run(f"CREATE DATABASE {name}")
        columns = "id UInt64, _slice DateTime('UTC'), _cluster LowCardinality(String)"
        for table in ("click", "bid"):
            self.client.run(f"CREATE TABLE {name}.{table} ({columns}) ENGINE = MergeTree ORDER BY id")
        connections = {
            "kafka_dc1": {"conn_type": "kafka", "extra": {"bootstrap.servers": broker}},
            "clickhouse_default": server.at.place,
            "spark_default": {"conn_type": "spark", "host": "local[2]"},
        }
        for conn_id, place in connections.items():
            self.write(f"secrets/{conn_id}", json.dumps(place))
        spec = {
            "kafka": [{"cluster": "dc1", "connection": "kafka_dc1", "topics": [name]}],
            "event": {"type": {"field": "type"}, "time": {"field": "at"}},
            "lake": f"file://{folder}/lake",
            "start": START.isoformat(),
            "settle": "0s",
            "rows_per_read": 100,
            "tables": {"click": f"{name}.click", "bid": f"{name}.bid"},
            "clickhouse": {"lease": "1s"},
            "alarms": {"disk_free": 0},  # how full the machine is, is not the question
        }
        self.write("pipelines/ads.yaml", yaml.safe_dump(spec))
        self.write("none/airflow.py", NO_AIRFLOW)
        with closing(KafkaAdminClient(bootstrap_servers=broker)) as admin:
            admin.create_topics([NewTopic(name, 2, 1, topic_configs={"retention.ms": "-1"})])
        producer = KafkaProducer(bootstrap_servers=broker)
        for n, kind, at in SENT:
            value = json.dumps({"type": kind, "at": at.isoformat(), "id": n}).encode()
            producer.send(name, value, timestamp_ms=round(at.timestamp() * 1000))
        producer.flush()

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def start(self, *words: str) -> subprocess.Popen:
        environment = {
            "PATH": os.defpath,
            "HOME": str(self.folder),
            "JAVA_HOME": str(java_home()),
            "PYTHONPATH": str(self.folder / "none"),
            "SLUICE_PIPELINES": str(self.folder / "pipelines"),
            "SLUICE_CONNECTIONS_DIR": str(self.folder / "secrets"),
        }
        command = [Path(sys.executable).with_name("sluice"), *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, cwd="/", stdout=pipe, stderr=pipe, text=True)

    def run(self) -> tuple[int, str]:
        process = self.start("run", "ads", "--lookback")
        out, err = process.communicate(timeout=300)
        return process.returncode, out + err

    def rows(self) -> list[tuple[str, int, int]]:
        return sorted(
            (table, n, stamp)
            for table in ("bid", "click")
            for n, stamp in self.client.rows(f"SELECT id, toUnixTimestamp(_slice) FROM {self.name}.{table}")
        )

    def live_and_die(self, seconds: float, spark_too: bool) -> None:
        """kill -9. `spark_too`: as a container ends; else Spark goes on without who has started it."""
        process = self.start("run", "ads", "--lookback")
        time.sleep(seconds)
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        for each in [process, *(children if spark_too else ())]:
            each.kill()
        process.communicate(timeout=60)


EXPECTED = sorted(
    (kind, n, int(at.replace(minute=0, second=0).timestamp()) // 3600 * 3600) for n, kind, at in SENT
)


@pytest.fixture
def job(name: str, tmp_path: Path, kafka_broker: str, clickhouse_server) -> Job:
    return Job(name, tmp_path, kafka_broker, clickhouse_server)


def test_it_brings_each_record_once_and_the_watch_has_nothing_to_say(job: Job):
    code, said = job.run()
    assert code == 0, said
    assert job.rows() == EXPECTED
    code, said = job.run()
    assert code == 0 and "nothing to do: every slice is complete" in said, said
    watch = job.start("watch", "ads", "--once")
    assert (watch.communicate(timeout=60)[0], watch.returncode) == ("", 0)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_time_it_brings_each_record_once(job: Job, seed: int):
    dice = random.Random(seed)
    for number in range(6):
        job.live_and_die(dice.uniform(2, 25), spark_too=bool(number % 2))
        assert len(set(job.rows())) == len(job.rows()), "a row is there twice"
    for _ in range(5):  # a Spark that was left may still work
        code, said = job.run()
        if code == 0:
            break
        assert code == 3, said
    assert (code, job.rows()) == (0, EXPECTED), said
