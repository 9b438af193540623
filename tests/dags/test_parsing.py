"""The DAG files as Airflow parses them: in a process of their own, over a copy of the project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from airflow._shared.module_loading import find_path_from_directory

from tests.dags.pipeline_texts import NO_TABLES, TWO_TABLES, WRONG_TABLE

PROJECT = Path(__file__).parents[2]
HEAVY = {"pyspark", "clickhouse_connect", "kafka", "boto3", "pyarrow", "pandas"}

PARSE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
bag = DagBag(sys.argv[1])
for dag in bag.dags.values():
    DagSerialization.to_dict(dag)
modules = sorted({name.split(".")[0] for name in sys.modules})
print(json.dumps([sorted(bag.dags), {k.split("/")[-1]: v for k, v in bag.import_errors.items()}, modules]))
"""


def parse(project: Path, home: Path) -> tuple[list[str], dict[str, str], set[str]]:
    """(DAG ids, import errors by file name, imported top-level modules)."""
    ran = subprocess.run(
        [sys.executable, "-c", PARSE, str(project / "dags")],
        env={**os.environ, "PYTHONPATH": str(project / "plugins"), "AIRFLOW_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    ids, errors, modules = json.loads(ran.stdout.splitlines()[-1])
    return ids, errors, set(modules)


def copy_of_project(folder: Path, pipelines: dict[str, str]) -> Path:
    no_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "dags", folder / "dags", ignore=no_caches)
    shutil.copytree(PROJECT / "plugins", folder / "plugins", ignore=no_caches)
    (folder / "include/pipelines").mkdir(parents=True)
    for name, text in pipelines.items():
        (folder / "include/pipelines" / f"{name}.yaml").write_text(text)
    return folder


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[str, str], set[str]]:
    pipelines = {
        "ads": TWO_TABLES,
        "ads_backfill": TWO_TABLES,
        "plain": NO_TABLES,
        "wrong": WRONG_TABLE,
        "torn": "kafka: [",
    }
    folder = tmp_path_factory.mktemp("project")
    return parse(copy_of_project(folder, pipelines), folder / "airflow")


def test_every_sound_file_makes_two_dags(parsed):
    assert parsed[0] == [f"{name}{kind}" for name in ("ads", "plain") for kind in ("", "_backfill", "_watch")]


def test_broken_files_are_one_import_error_of_a_file_without_dags(parsed):
    assert set(parsed[1]) == {"pipeline_errors.py"}
    error = parsed[1]["pipeline_errors.py"]
    assert "WrongUse: 3 pipeline files are wrong: see Sluice's page, or `sluice config show NAME`" in error
    assert not {"wrong.yaml", "torn", "ads_backfill", "tables.click"} & set(error.replace(":", " ").split())


def test_parsing_imports_nothing_heavy(parsed):
    assert parsed[2] & HEAVY == set()


def test_the_projects_own_files_load(tmp_path: Path):
    ids, errors, _ = parse(PROJECT, tmp_path)
    names = [path.stem for path in (PROJECT / "include/pipelines").glob("*.yaml")]
    assert errors == {}
    assert ids == sorted(names + [f"{name}{kind}" for name in names for kind in ("_backfill", "_watch")])


def test_airflow_does_not_run_the_library_as_plugins():
    found = find_path_from_directory(PROJECT / "plugins", ".airflowignore")
    assert [path for path in found if "/plugins/sluice/" in path] == []
