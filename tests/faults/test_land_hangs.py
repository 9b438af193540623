"""Spark that stands still: its timeout ends all of its processes, and the retry lands each record once."""

from __future__ import annotations

import json
import os
import signal
import threading
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
import yaml
from airflow.sdk.exceptions import AirflowTaskTimeout
from airflow.sdk.execution_time.task_runner import _run_execute_callable
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from local.readiness import wait_until
from sluice.airflow.land_operator import LandOperator, marked
from sluice.airflow.run_params import to_xcom
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.crash_points import Land
from sluice.flow.steps import resolve_range
from sluice.slices import SliceRange, to_ms
from sluice.state.manifests import read_manifests
from sluice.state.units import units_of
from tests.faults.kills_points import ENVIRONMENT, SITE, Order, give, name_of, obeyed
from tests.support.long_form import per_commit
from tests.support.spark_world import START, hours

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]
RECORDS = 400
BATCH: SliceRange = hours(0, 2)


@pytest.fixture
def lake(name: str, tmp_path: Path, kafka_broker: str, stack_env, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hours of records that are resolved and not landed, in many small reads."""
    for key, value in stack_env.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    monkeypatch.setenv("SLUICE_PIPELINES", str(tmp_path))
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (SITE, ROOT / "plugins", ROOT))))
    admin = AdminClient({"bootstrap.servers": kafka_broker, "log_level": 0})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
    producer = Producer({"bootstrap.servers": kafka_broker, "log_level": 0})
    for number in range(RECORDS):
        at = START.add(seconds=number * 7200 // RECORDS)
        event = {"id": number, "type": "click" if number % 3 else "bid", "at": at.isoformat()}
        producer.produce(name, json.dumps(event).encode(), partition=number % 2, timestamp=to_ms(at))
    assert producer.flush(60) == 0
    pipeline = {
        "kafka": [{"cluster": "dc1", "bootstrap": kafka_broker, "topics": [name]}],
        "event": {"type": {"field": "type"}, "time": {"field": "at"}},
        "lake": f"file://{tmp_path}/lake",
        "rows_per_read": 4,
    }
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(pipeline))
    resolve_range(read(path), BATCH)
    return tmp_path / "lake" / name


def run(name: str, tries: int, task: LandOperator | None = None) -> None:
    land = task or land_task(name)
    context = {"params": {}, "run_id": "run 7", "ti": SimpleNamespace(try_number=tries)}
    _run_execute_callable(context=context, execute=land.execute, task=land)


def land_task(name: str) -> LandOperator:
    return LandOperator(
        task_id="land",
        pipeline=name,
        connection="spark_default",
        batch=to_xcom(BATCH),
        execution_timeout=timedelta(minutes=30),
    )


def stop(land: LandOperator, orders: Path, victims: str) -> list[int]:
    """Stops Spark once a worker has written its first file and paused there, and then ends the task's time;
    gives its processes."""
    wait_until(lambda: obeyed(orders), "Spark has written a file", 180)
    pids = marked(land._mark)
    for pid in pids:
        is_java = Path(f"/proc/{pid}/exe").resolve().name == "java"
        os.kill(pid, signal.SIGSTOP if victims == "all" or is_java else signal.SIGCONT)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    return pids


def events(lake: Path) -> list[int]:
    return sorted(
        json.loads(payload)["id"]
        for path in lake.glob("type=*/**/*.parquet")
        for payload in pq.ParquetFile(path).read(["_payload"])["_payload"].to_pylist()
    )


@pytest.mark.parametrize("victims", per_commit(["all", "java"]))
@pytest.mark.long
def test_spark_that_stands_still_is_ended_and_the_retry_lands_each_record_once(
    name, lake: Path, victims: str
):
    land, orders, pids = land_task(name), lake.parents[1], []
    give(orders, Order(name_of(Land.FILE_WRITTEN), victim="pause"))
    stopper = threading.Thread(target=lambda: pids.extend(stop(land, orders, victims)))
    stopper.start()
    with pytest.raises(AirflowTaskTimeout):
        run(name, 1, land)
    stopper.join()
    assert len(pids) >= 3, "JVM, driver and workers"
    assert marked(land._mark) == []
    pipeline = read(lake.parents[1] / f"{name}.yaml")
    units = units_of(pipeline, BATCH)
    assert read_manifests(open_lake(pipeline), units) == {}

    run(name, 2)
    assert events(lake) == list(range(RECORDS))
    manifests = read_manifests(open_lake(pipeline), units)
    assert [manifests[unit].read for unit in units] == [RECORDS // 2] * 2
