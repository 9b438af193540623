"""A stock Airflow with the wheel installed, and nothing copied: DAGs, their mistakes, page and provider."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.dags.pipeline_texts import TWO_TABLES, WRONG_TABLE
from tests.integration.test_wheel import ROOT, UV, run
from tests.stock import wheels

pytestmark = pytest.mark.integration

LOOK = """
import json, sys
from pathlib import Path
from airflow.utils.db import initdb
initdb()
import sluice
from airflow import plugins_manager
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.dag_processing.dagbag import DagBag
from airflow.providers_manager import ProvidersManager
from airflow.serialization.serialized_objects import DagSerialization
from fastapi.testclient import TestClient
bag = DagBag(sys.argv[1])
forms = [DagSerialization.to_dict(dag) for dag in bag.dags.values()]
client = TestClient(create_app("core"))
token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="admin", role="ADMIN", teams=None))
answers = [
    client.get(f"/sluice/{path}", headers={"Authorization": f"Bearer {token}"})
    for path in ("", "static/nav.svg", "api/overview?from=48h")
]
print(json.dumps({
    "library": sluice.__file__,
    "dags": sorted(form["dag"]["dag_id"] for form in forms),
    "mistakes": {Path(file).name: text for file, text in bag.import_errors.items()},
    "plugins": [[one.name, str(one.source)] for one in plugins_manager._get_plugins()[0]],
    "wrong plugins": plugins_manager.get_import_errors(),
    "provider": ProvidersManager().providers["sluice"].version,
    "page": [[one.status_code, one.text] for one in answers],
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.wheel(tmp_path_factory.mktemp("wheel"), wheels.version_of(ROOT))


def lent(python: Path, wheel: Path) -> None:
    """The wheel alone; what it needs is this environment's."""
    done = run(UV, "-q", "pip", "install", "--python", python, "--no-deps", wheel)
    assert done.returncode == 0, done.stderr
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if (
            not path.name.startswith(("sluice", "_sluice", "__pycache__"))
            and not Path(packages, path.name).exists()
        ):
            Path(packages, path.name).symlink_to(path)


@dataclass(frozen=True)
class Stock:
    """As somebody does who has this Airflow, by docs/guide/airflow.md."""

    airflow: str

    def __call__(self, python: Path, wheel: Path) -> None:
        (constraints,) = wheel.parent.glob("*-constraints.txt")
        tried = f"apache-airflow=={self.airflow}"
        pins = ["--constraint", constraints] if tried in constraints.read_text().splitlines() else []
        wheels.stock_airflow(python.parents[1], self.airflow, constraints if pins else None)
        done = run(python, "-m", "pip", "install", "-q", f"{wheel}[airflow,spark]", tried, *pins)
        assert done.returncode == 0, done.stderr
        assert f"Version: {self.airflow}\n" in run(python, "-m", "pip", "show", "apache-airflow").stdout


WAYS = [lent, *(pytest.param(Stock(one), marks=pytest.mark.long, id=one) for one in ("3.2.2", "3.3.2"))]


@pytest.fixture(scope="module", params=WAYS)
def python(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    venv = tmp_path_factory.mktemp("stock") / "venv"
    assert run(UV, "-q", "venv", "--python", sys.executable, venv).returncode == 0
    request.param(venv / "bin/python", wheel)
    return venv / "bin/python"


@pytest.fixture(scope="module")
def seen(python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Airflow has of a DAGs folder that `sluice airflow dags` wrote, with two pipelines beside it."""
    home = tmp_path_factory.mktemp("airflow")
    pipelines = home / "dags/pipelines"
    pipelines.mkdir(parents=True)
    (pipelines / "ads.yaml").write_text(TWO_TABLES)
    (pipelines / "wrong.yaml").write_text(WRONG_TABLE)
    foreign = ("PYTHON", "SLUICE", "AIRFLOW")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    environment |= {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    environment |= {"SLUICE_PIPELINES": str(pipelines)}
    for name, words in (("sluice.py", []), ("sluice_errors.py", ["--errors"])):
        printed = run(python.with_name("sluice"), "airflow", "dags", *words, cwd=home, env=environment)
        assert printed.returncode == 0, printed.stderr
        (home / "dags" / name).write_text(printed.stdout)
    looked = run(python, "-c", LOOK, home / "dags", cwd=home, env=environment)
    assert looked.returncode == 0, looked.stderr[-3000:]
    return json.loads(looked.stdout.splitlines()[-1])


def test_the_wheel_has_no_pipeline_and_nothing_of_the_demo(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith((".yaml", ".yml")) and "monitoring" not in name] == []
    assert [name for name in names if "demo" in name] == []
    assert "sluice/_shipped/include/sql/state/create_ledger.sql" in names


def test_sound_pipelines_are_dags_and_the_other_is_an_import_error(seen: dict[str, Any]):
    assert seen["dags"] == ["ads", "ads_backfill", "ads_watch"]
    (file, told), *others = seen["mistakes"].items()
    assert (file, others) == ("sluice_errors.py", [])
    assert "pipelines/wrong.yaml" in told and "tables.click.table: expected database.table" in told


def test_the_page_is_there_by_the_entry_point_alone(seen: dict[str, Any], python: Path):
    [source] = [source for name, source in seen["plugins"] if name == "sluice"]
    assert source.startswith("sluice==") and "value='sluice.airflow.plugin:" in source
    assert seen["wrong plugins"] == {} and seen["provider"] == "0.1.0"
    assert Path(seen["library"]).is_relative_to(python.parents[1])
    (page, icon, overview) = seen["page"]
    assert page[0] == icon[0] == overview[0] == 200
    assert "<title>Sluice</title>" in page[1] and icon[1].startswith("<svg")
    shown = json.loads(overview[1])
    assert [row["pipeline"] for row in shown["pipelines"]] == ["ads"]
    assert len(shown["broken_files"]) == 1 and "wrong.yaml" in shown["broken_files"][0]
