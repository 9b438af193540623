"""The wheel, outside the repository: the command, the SQL and the Spark application are in it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
UV = Path(sys.executable).with_name("uv")
PIPELINE = """
kafka:
  - {cluster: dc1, bootstrap: "127.0.0.1:9092", topics: [events]}
event:
  type: {field: type}
  time: {record: true}
lake: file://lake
tables:
  "*": events.all
"""
LOOK = """
import sluice
from sluice.flow.land.submit import APPLICATION
from sluice.clients.clickhouse.sql import render
from sluice.metrics.table import rules
from sluice.config.files import FOLDER
print(sluice.__file__, APPLICATION, FOLDER, sep="\\n")
assert (APPLICATION.parent / "engine.py").is_file() and (APPLICATION.parent / "log4j2.properties").is_file()
assert "sluice.ledger" in render("state/create_ledger") and "SluiceBehind" in rules()
"""


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel; the packages that it needs are those of this one."""
    folder = tmp_path_factory.mktemp("wheel")
    python = folder / "venv" / "bin" / "python"
    for command in (
        ["build", "--no-build-isolation", "--python", sys.executable, "--wheel", "--out-dir", folder, ROOT],
        ["venv", "--python", sys.executable, folder / "venv"],
        ["pip", "install", "--no-deps", "--python", python, "sluice", "--no-index", "--find-links", folder],
    ):
        done = run(UV, "-q", *command)
        assert done.returncode == 0, done.stderr
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    Path(packages, "here.pth").write_text(sysconfig.get_path("purelib"))
    return python.parent


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SLUICE"))}
    return {**plain, "AIRFLOW_HOME": str(tmp_path / "airflow")}


def test_the_library_brings_what_is_not_python(installed: Path, tmp_path: Path, environment: dict[str, str]):
    looked = run(installed / "python", "-c", LOOK, cwd=tmp_path, env=environment)
    assert looked.returncode == 0, looked.stderr
    library, application, pipelines = map(Path, looked.stdout.split())
    assert library.is_relative_to(installed.parent) and application.is_relative_to(library.parent)
    assert pipelines == tmp_path / "include" / "pipelines"


def test_the_command_knows_its_options(installed: Path, tmp_path: Path, environment: dict[str, str]):
    helped = run(installed / "sluice", "--help", cwd=tmp_path, env=environment)
    assert helped.returncode == 0
    assert {"publish", "plan", "run", "verify"} <= set(helped.stdout.split())


PLAN = ["plan", "--from", "2026-11-20T10Z", "--to", "2026-11-20T11Z"]


READ = """
from sluice.clients.lake.open import open_lake
from sluice.config.files import find, read
print(open_lake(read(find("shop"))).url)
"""


def test_pipelines_and_paths_are_those_of_the_project(
    installed: Path, tmp_path: Path, environment: dict[str, str]
):
    pipelines = tmp_path / "include/pipelines"
    pipelines.mkdir(parents=True)
    (pipelines / "shop.yaml").write_text(PIPELINE)
    (pipelines / "wrong.yaml").write_text(PIPELINE.replace("events.all", "all"))
    named = environment | {"SLUICE_PROJECT": str(tmp_path)}
    found = run(installed / "python", "-c", READ, cwd="/", env=named)
    assert found.stdout == f"file://{tmp_path}/lake/shop\n", found.stderr
    planned = run(installed / "sluice", *PLAN, "wrong", cwd="/", env=named)
    assert planned.returncode == 2
    assert ": tables.*.table: expected database.table" in planned.stderr


def test_without_a_project_they_are_in_the_working_folder(
    installed: Path, tmp_path: Path, environment: dict[str, str]
):
    unknown = run(installed / "sluice", *PLAN, "other", cwd=tmp_path, env=environment)
    assert unknown.returncode == 2
    assert str(tmp_path / "include/pipelines/other.yaml") in unknown.stderr
