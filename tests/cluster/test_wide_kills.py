"""Every process of the wide stack is killed once while a run needs it; Airflow's retries suffice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from local.versions import ROOT
from tests.cluster.stacks import WideStack
from tests.cluster.wide import Wide
from tests.integration.airflow.test_airflow import EVENTS, START, expected_rows, publish

pytestmark = [pytest.mark.integration, pytest.mark.faults]

PROCFILE = ROOT / "local" / "Procfile.cluster"
# One hour: several small ones would be read by a single Spark task.
END = START + timedelta(hours=1)
LANDING = "landing"  # some of the attempt's files are written
TRIES = 4  # the first, and the DAG's three retries
# By run of the DAG: at which moment (a task that has begun, or LANDING) which part is killed.
KILLS: dict[str, list[tuple[str, str]]] = {
    "fill": [(LANDING, "executor"), (LANDING, "spark_worker1"), ("batch.load.", "clickhouse1")],
    "reland": [(LANDING, "spark_master"), (LANDING, "kafka"), ("batch.load.", "s3"), ("batch.", "triggerer")],
    "reload": [("batch.load.", "clickhouse2"), ("batch.verify", "redis"), ("batch.publish", "postgres")],
    "reload again": [
        ("resolve", "dag_processor"),
        ("resolve", "scheduler"),
        ("batch.load.", "its worker"),
        ("batch.verify", "api_server"),
    ],
}
# Of a pair that takes turns one is killed; what serves Airflow's logs takes no part in a run.
SPARED = {"spark_worker2", "celery1", "celery2", "logs1", "logs2"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory, cluster: Wide, kafka_broker: str) -> WideStack:
    stack = WideStack("kills", tmp_path_factory.mktemp("kills"), cluster)
    publish(kafka_broker, "kills")
    stack.prepare(rows_per_read=1)  # a task for each record, so that landing has a middle
    return stack


def test_no_process_is_forgotten():
    parts = {line.partition(":")[0] for line in PROCFILE.read_text().splitlines() if ":" in line}
    killed = {part for kills in KILLS.values() for _, part in kills}
    assert parts - SPARED == killed - {"executor", "its worker"}


@pytest.mark.parametrize("name", list(KILLS))
def test_a_run_outlives_the_kills(stack: WideStack, cluster: Wide, name: str):
    mode = name.split()[0]
    conf = {"from": START.isoformat(), "to": END.isoformat(), "mode": mode}
    run = cluster.trigger("kills_backfill", conf=conf)
    for moment, part in KILLS[name]:
        cluster.wait(reached(stack, run, moment), f"{moment}, to kill {part}", 600)
        assert not over(cluster, run), f"the run was over before {part} was killed"
        strike(stack, run, moment, part)
    assert cluster.wait_for_run("kills_backfill", run) == "success"
    tries = f"SELECT task_id, max(try_number) FROM task_instance WHERE run_id = '{run}' GROUP BY task_id"
    assert max(number for _, number in cluster.sql(tries)) <= TRIES
    assert stack.rows() == [row for row in expected_rows() if row[-1] == START]
    assert stack.landed_ids() == sorted(key for key, _, at in EVENTS if at < END)
    assert verified(stack) == []


def reached(stack: WideStack, run: str, moment: str) -> Callable[[], bool]:
    """Also when the run is over before."""
    begun = (
        f"SELECT 1 FROM task_instance WHERE run_id = '{run}' AND task_id LIKE '{moment}%' "
        "AND start_date IS NOT NULL"
    )
    if moment == LANDING:
        return lambda: any((stack.lake / "_attempts").rglob("*.parquet")) or over(stack.wide, run)
    return lambda: bool(stack.wide.sql(begun)) or over(stack.wide, run)


def over(cluster: Wide, run: str) -> bool:
    sql = f"SELECT 1 FROM dag_run WHERE run_id = '{run}' AND state IN ('success', 'failed')"
    return bool(cluster.sql(sql))


def strike(stack: WideStack, run: str, moment: str, part: str) -> None:
    cluster = stack.wide
    if part == "executor":
        executors = cluster.executors("spark_worker2")
        for executor in executors:
            executor.kill()
        assert executors
        return
    if part == "its worker":
        sql = (
            f"SELECT hostname FROM task_instance WHERE run_id = '{run}' AND task_id LIKE '{moment}%' "
            "AND hostname <> '' ORDER BY start_date DESC LIMIT 1"
        )
        part = f"celery{cluster.sql(sql)[0][0].rpartition('.')[2]}"
    cluster.kill(part)


def verified(stack: WideStack) -> list[dict]:
    """The anomalies that `sluice verify` finds."""
    config = stack.wide.folder / "pipelines" / f"{stack.name}.yaml"
    program = Path(sys.executable).with_name("sluice")
    span = ["--from", START.isoformat(), "--to", END.isoformat()]
    done = subprocess.run(
        [program, "verify", stack.name, *span, "--config", config, "--json"],
        env=stack.wide.env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return json.loads(done.stdout)["anomalies"]
