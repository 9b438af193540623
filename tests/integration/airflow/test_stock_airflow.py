"""A stock Airflow with the wheel installed, and nothing copied: DAGs, their mistakes, page and provider.

And hours of events, landed and loaded by the Python of that Airflow."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from kafka import KafkaProducer

from tests.dags.pipeline_texts import TWO_TABLES, WRONG_TABLE
from tests.integration import foreign_events
from tests.integration.land.test_main_job import (
    HOURS,
    RANGE,
    START,
    User,
    create_tables,
    holds_pushes_and_forks,
    write_foreign,
)
from tests.integration.stack.test_wheel import ROOT, UV, run
from tests.stock import wheels
from tests.support.interpreters import interpreter

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


HERE = "{}.{}".format(*sys.version_info)
VERSIONS = """
import sys
from importlib.metadata import version
print("{}.{}".format(*sys.version_info), version("apache-airflow"))
"""


def lent(python: Path, wheel: Path) -> None:
    """The wheel alone; what it needs is this environment's."""
    assert run(UV, "-q", "venv", "--python", sys.executable, python.parents[1]).returncode == 0
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
    python: str = HERE

    def __str__(self) -> str:
        return f"Airflow {self.airflow}, Python {self.python}"

    def __call__(self, python: Path, wheel: Path) -> None:
        program = interpreter(self.python)
        if program is None:
            pytest.skip(f"no Python {self.python} is on this machine")
        (constraints,) = wheel.parent.glob("*-constraints.txt")
        tried = f"apache-airflow=={self.airflow}"
        pins = ["--constraint", constraints] if tried in constraints.read_text().splitlines() else []
        wheels.stock_airflow(python.parents[1], self.airflow, constraints if pins else None, program)
        # pip itself is tried by tests/stock.
        own = (UV, "-q", "pip", "install", "--python", python, f"{wheel}[airflow,spark]", tried, *pins)
        done = run(*own)
        assert done.returncode == 0, done.stderr
        assert run(python, "-c", VERSIONS).stdout.split() == [self.python, self.airflow]


STOCKS = [Stock("3.2.2"), Stock("3.3.2"), Stock("3.3.2", "3.12"), Stock("3.3.2", "3.13")]
LONG = [pytest.param(one, marks=pytest.mark.long, id=str(one)) for one in STOCKS]


@pytest.fixture(scope="module", params=[lent, *LONG])
def python(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    venv = tmp_path_factory.mktemp("stock") / "venv"
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


@pytest.mark.long
def test_the_wheel_has_no_pipeline_and_nothing_of_the_demo(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith((".yaml", ".yml")) and "monitoring" not in name] == []
    assert [name for name in names if "demo" in name] == []
    assert "sluice/_shipped/include/sql/state/create_ledger.sql" in names


@pytest.mark.long
def test_sound_pipelines_are_dags_and_the_other_is_an_import_error(seen: dict[str, Any]):
    assert seen["dags"] == ["ads", "ads_backfill", "ads_watch"]
    (file, told), *others = seen["mistakes"].items()
    assert (file, others) == ("sluice_errors.py", [])
    assert "1 pipeline file is wrong: see Sluice's page" in told and "wrong.yaml" not in told


@pytest.mark.long
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


def deep(levels: int) -> str:
    """An event of so many levels, itself included; no encoder follows so far."""
    at = START.strftime("%Y-%m-%dT%H:%M:%SZ")
    return f'{{"type":"DeepEvent","created_at":"{at}","x":{"[" * (levels - 1)}{"]" * (levels - 1)}}}'


@pytest.mark.parametrize("python", LONG, indirect=True)
def test_own_events_are_landed_and_loaded(
    python: Path, stack_env, kafka_broker, clickhouse_server, name, tmp_path
):
    """Driver and Spark's workers are of that Python. How deep an event may be is the same under each."""
    ours = ("PYTHON", "PYSPARK", "AIRFLOW__", "AIRFLOW_HOME")
    plain = {key: value for key, value in stack_env.items() if not key.startswith(ours)}
    user = User(name, tmp_path, {**plain, "AIRFLOW_HOME": str(tmp_path)}, clickhouse_server)
    user.program = python.with_name("sluice")
    create_tables(user)
    write_foreign(user)
    events = foreign_events.make(START, HOURS, 3_000, seed=12)
    user.do("publish", str(foreign_events.write(events, tmp_path / "events.ndjson")))
    taken, refused = (
        [deep(levels) for levels in (899, 900)],
        [deep(levels) for levels in (901, 1_000, 100_000)],
    )
    producer = KafkaProducer(bootstrap_servers=kafka_broker)
    for text in (*taken, *refused):
        producer.send(name, text.encode(), timestamp_ms=round(START.timestamp() * 1000))
    producer.flush()
    user.do("run", *RANGE)
    lines = [
        json.loads(line) | {"text": line} for line in (tmp_path / "events.ndjson").read_text().splitlines()
    ]
    holds_pushes_and_forks(user, lines)
    others = [(e["type"], e["text"]) for e in lines if e["type"] not in ("PushEvent", "ForkEvent")]
    found = user.rows("SELECT _type, _payload FROM DB.other")
    assert sorted(found) == sorted([*others, *(("DeepEvent", text) for text in taken)])
    rejected = [
        (row["_reason"], row["_payload"].decode())
        for file in user.lake.glob("_rejected/*.parquet")
        for row in pq.read_table(file).to_pylist()
    ]
    assert sorted(rejected) == sorted(("nested too deep", text) for text in refused)
    assert json.loads(user.do("verify", *RANGE, "--contents", "--json"))["anomalies"] == []
