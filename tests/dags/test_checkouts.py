"""Pipelines beside a DAG file in several checkouts: one serialized form, and each task finds its own file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import BundleDagBag
from airflow.models.serialized_dag import SerializedDagModel
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from tests.dags.pipeline_texts import NO_TABLES, TWO_TABLES, WRONG_TABLE
from tests.support.long_form import per_commit

FILE = """
from pathlib import Path
from sluice.airflow import pipeline_dags
globals().update(pipeline_dags(Path(__file__).with_name("pipelines")))
"""
# What a task's process does before it runs the task, by Airflow's own function; then what the task asks.
TASK = """
import json, sys
from unittest import mock
import structlog
from airflow.sdk.api.datamodels._generated import BundleInfo
from airflow.sdk.definitions._internal.dag_parsing_context import _airflow_parsing_context_manager
from airflow.sdk.execution_time import task_runner
from sluice.config import files
from sluice.airflow import pipelines
opened, load = [], files.load
def counted(path):
    opened.append(str(path))
    return load(path)
dag_id, task_id = sys.argv[1:]
what = mock.MagicMock(dag_rel_path="sluice.py", bundle_info=BundleInfo(name="checkout", version=None))
what.ti = mock.MagicMock(dag_id=dag_id, task_id=task_id, **{"model_dump.return_value": {}})
made = []
with (
    mock.patch.object(files, "load", counted),
    mock.patch.object(task_runner.RuntimeTaskInstance, "model_construct", lambda **given: made.append(given)),
    mock.patch.object(task_runner, "_maybe_reschedule_startup_failure", lambda **_: None),
    _airflow_parsing_context_manager(dag_id=dag_id, task_id=task_id),
):
    task_runner.parse(what, structlog.get_logger())
task = made[0]["task"]
name = getattr(task, "pipeline", None) or task.op_args[0]
print(json.dumps([name, str(pipelines.file_of(name)), opened, sorted(task.dag.task_dict)]))
"""


@pytest.fixture
def checkouts(tmp_path: Path) -> list[Path]:
    folders = [tmp_path / "first", tmp_path / "second/deeper"]
    for folder in folders:
        (folder / "pipelines").mkdir(parents=True)
        (folder / "sluice.py").write_text(FILE)
        (folder / "pipelines/ads.yaml").write_text(TWO_TABLES)
        (folder / "pipelines/plain.yaml").write_text(NO_TABLES)
    return folders


def dags_of(folder: Path) -> dict[str, DAG]:
    bag = BundleDagBag(folder / "sluice.py", safe_mode=False, bundle_path=folder, bundle_name="checkout")
    assert bag.import_errors == {}
    return bag.dags


def serialized(dag: DAG) -> dict[str, Any]:
    return json.loads(json.dumps(DagSerialization.to_dict(dag)))


def test_two_checkouts_have_one_serialized_form_and_so_one_version(checkouts: list[Path]):
    first, second = (dags_of(folder) for folder in checkouts)
    assert (
        sorted(first)
        == sorted(second)
        == sorted(f"{name}{kind}" for name in ("ads", "plain") for kind in ("", "_backfill", "_watch"))
    )
    for dag_id in first:
        forms = [serialized(dags[dag_id]) for dags in (first, second)]
        assert SerializedDagModel.hash(forms[0]) == SerializedDagModel.hash(forms[1])
        for form, folder in zip(forms, checkouts, strict=True):
            # Airflow's own, which it leaves out of the hash.
            assert form["dag"].pop("fileloc", "") in ("", str(folder / "sluice.py"))
            assert form["dag"]["relative_fileloc"] == "sluice.py"
            assert str(folder) not in json.dumps(form)
        assert forms[0] == forms[1]


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    bundle = {"path": str(folder), "refresh_interval": 0}
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    bundles = [{"name": "checkout", "classpath": local, "kwargs": bundle}]
    plain = {name: value for name, value in os.environ.items() if name != "SLUICE_PIPELINES"}
    return subprocess.run(
        [sys.executable, "-c", TASK, *arguments],
        env={
            **plain,
            "AIRFLOW_HOME": str(folder / "home"),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("dag_id", "task_id"),
    per_commit([("ads", "plan"), ("ads_backfill", "batch.land"), ("ads_watch", "watch")]),
)
def test_a_task_reads_the_file_of_its_own_pipeline_in_its_checkout(checkouts, dag_id: str, task_id: str):
    (checkouts[1] / "pipelines/wrong.yaml").write_text(WRONG_TABLE)
    own = str(checkouts[1] / "pipelines/ads.yaml")
    ran = run(checkouts[1], dag_id, task_id)
    assert ran.returncode == 0, ran.stderr[-3000:]
    name, found, opened, tasks = json.loads(ran.stdout.splitlines()[-1])
    assert (name, found, opened) == ("ads", own, [own])
    assert task_id in tasks


def test_the_environment_names_the_folder_of_every_process(checkouts: list[Path]):
    other = str(checkouts[0] / "pipelines")
    ran = run(checkouts[1], "ads", "plan", SLUICE_PIPELINES=other)
    assert ran.returncode == 0, ran.stderr[-3000:]
    _, found, opened, _ = json.loads(ran.stdout.splitlines()[-1])
    assert (found, opened) == (f"{other}/ads.yaml", [f"{other}/ads.yaml"])


def test_a_mistake_in_the_file_of_a_task_is_in_its_log(checkouts: list[Path]):
    (checkouts[1] / "pipelines/ads.yaml").write_text(WRONG_TABLE)
    ran = run(checkouts[1], "ads", "plan")
    assert ran.returncode == 1
    assert "ads.yaml:" in ran.stdout + ran.stderr
    assert "tables.click.table: expected database.table" in ran.stdout + ran.stderr


def test_a_value_of_the_environment_is_in_no_log(checkouts: list[Path]):
    (checkouts[1] / "pipelines/ads.yaml").write_text(
        NO_TABLES + "tables: {click: '${SLUICE_VAR_OF_THE_MACHINE}'}\n"
    )
    ran = run(checkouts[1], "ads", "plan", SLUICE_VAR_OF_THE_MACHINE="hush hush")
    assert ran.returncode == 1
    assert "wrong, and not shown, for it comes from a variable" in ran.stdout + ran.stderr
    assert "hush" not in ran.stdout + ran.stderr


def test_a_backfill_runs_though_a_file_has_its_dags_name(checkouts: list[Path]):
    """That file is the one that is wrong."""
    (checkouts[1] / "pipelines/ads_backfill.yaml").write_text(NO_TABLES)
    ran = run(checkouts[1], "ads_backfill", "plan")
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert json.loads(ran.stdout.splitlines()[-1])[0] == "ads"


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path):
    (tmp_path / "sluice.py").write_text(FILE)
    bag = BundleDagBag(tmp_path / "sluice.py", safe_mode=False, bundle_path=tmp_path, bundle_name="checkout")
    (error,) = bag.import_errors.values()
    told = error.strip().splitlines()[-1]
    assert told.endswith(
        "pipelines: (folder): is not there: SLUICE_PIPELINES names the folder of the pipeline files"
    )
    assert str(tmp_path / "pipelines") not in told
