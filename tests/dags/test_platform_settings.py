"""What a platform sets in `airflow` and `_defaults.yaml` is on the tasks, and nothing else changes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from sluice.airflow import raise_mistakes
from sluice.airflow.dags import pipeline_dags
from sluice.errors import WrongUse
from tests.dags.pipeline_texts import NO_TABLES, TWO_TABLES

DEFAULTS = """\
airflow:
  owner: platform
  tags: [tier-1]
  queue: etl
  pool: shared
  priority: 3
  timeout: 6h
  retries: 5
  retry_delay: 20m
  backfills: 2
  deadline: 45m
  on_failure: [{notifier: sluice.airflow.notifiers.WebhookNotifier, arguments: {http_conn_id: ops, text: x}}]
  access_control: {Ads: [can_read, can_edit, can_delete], Viewers: [can_read]}
  steps:
    land: {pool: sluice_land, queue: spark, priority: 9, timeout: 2h}
    load: {pool: sluice_load, timeout: none}
    watch: {queue: light}
"""
HOURLY = ["plan", "settle", "resolve", "batch.verify", "batch.publish", "verify_all", "cluster"]


def made(folder: Path, own: str = "", defaults: str = "") -> dict[str, DAG]:
    (folder / "ads.yaml").write_text(TWO_TABLES + own)
    if defaults:
        (folder / "_defaults.yaml").write_text(defaults)
    return pipeline_dags(folder)


def test_without_them_tasks_are_as_airflow_has_them(tmp_path: Path):
    for dag_id, dag in made(tmp_path).items():
        for task in dag.tasks:
            assert (task.pool, task.queue, task.priority_weight) == ("default_pool", "default", 1)
            assert task.execution_timeout == timedelta(hours=1)
            assert task.owner == "sluice"
        assert dag.access_control is None
        assert dag.max_active_runs == (4 if dag_id == "ads_backfill" else 1)
    dags = made(tmp_path, "settle: 20m\n")
    assert dags["ads"].dagrun_timeout == timedelta(days=1, minutes=20)
    assert dags["ads_backfill"].dagrun_timeout is None


def test_the_defaults_of_a_folder_are_on_every_task(tmp_path: Path):
    dags = made(tmp_path, "", DEFAULTS)
    assert set(dags) == {"ads", "ads_backfill", "ads_watch"}
    for dag in dags.values():
        assert {"sluice", "ads", "tier-1"} <= dag.tags
        assert {task.owner for task in dag.tasks} == {"platform"}
        assert dag.access_control == {
            "Ads": {"DAGs": {"can_read", "can_edit", "can_delete"}},
            "Viewers": {"DAGs": {"can_read"}},
        }
    for dag_id in ("ads", "ads_backfill"):
        tasks = {task.task_id: task for task in dags[dag_id].tasks}
        for name in HOURLY if dag_id == "ads" else [name for name in HOURLY if name != "settle"]:
            task = tasks[name]
            assert (task.pool, task.queue, task.priority_weight) == ("shared", "etl", 3), name
            assert task.execution_timeout == timedelta(hours=6)
        for task in tasks.values():
            assert (task.retries, task.retry_delay) == (5, timedelta(minutes=20))
            assert task.max_retry_delay == timedelta(minutes=20)
            assert task.retry_exponential_backoff == 2
        land = tasks["batch.land"]
        assert (land.pool, land.queue, land.priority_weight) == ("sluice_land", "spark", 9)
        assert land.execution_timeout == timedelta(hours=2)
        for table in ("clicks", "bids"):
            load = tasks[f"batch.load.ads.{table}"]
            assert (load.pool, load.queue, load.execution_timeout) == ("sluice_load", "etl", None)
    assert (dags["ads"].max_active_runs, dags["ads_backfill"].max_active_runs) == (1, 2)
    watch = dags["ads_watch"].get_task("watch")
    assert (watch.queue, watch.pool, watch.retries) == ("light", "shared", 0)
    assert dags["ads_watch"].dagrun_timeout == timedelta(minutes=10)


def test_a_pipeline_goes_before_the_defaults_of_its_folder(tmp_path: Path):
    own = "airflow: {owner: ads, timeout: none, offset: 5m, steps: {land: {queue: own}}}\n"
    dag = made(tmp_path, own, DEFAULTS)["ads"]
    land = dag.get_task("batch.land")
    assert (land.owner, land.queue, land.pool) == ("ads", "own", "sluice_land")
    assert dag.get_task("plan").execution_timeout is None
    assert dag.timetable.expression == "5 * * * *"


def test_a_mistake_in_the_defaults_is_one_import_error(tmp_path: Path):
    (tmp_path / "other.yaml").write_text(NO_TABLES)
    assert made(tmp_path, "", "airflow: {ownr: x}") == {}
    with pytest.raises(WrongUse, match=r"^1 pipeline file is wrong: "):
        raise_mistakes(tmp_path)


FORMS = """
import json, sys
from pathlib import Path
from sluice.airflow.dags import pipeline_dags
from airflow.serialization.serialized_objects import DagSerialization
dags = pipeline_dags(Path(sys.argv[1]))
print(json.dumps({name: DagSerialization.to_dict(dag) for name, dag in dags.items()}))
"""


def test_one_serialized_form_in_every_folder_and_process(tmp_path: Path):
    forms = []
    for number in ("1", "2"):
        folder = tmp_path / number
        folder.mkdir()
        assert DagSerialization.to_dict(made(folder, "", DEFAULTS)["ads"])["dag"]["access_control"]
        words = [sys.executable, "-c", FORMS, str(folder)]
        environment = {**os.environ, "PYTHONHASHSEED": number}
        ran = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=True)
        assert str(tmp_path) not in ran.stdout
        forms.append(json.loads(ran.stdout.splitlines()[-1]))
    assert forms[0] == forms[1]
