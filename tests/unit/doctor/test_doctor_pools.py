"""The pools that a pipeline's tasks name; tests/dags asks a real Airflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.clients import connections
from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from sluice.doctor.check import Level
from sluice.doctor.examine import KnownPools, pool_checks, read_pools
from sluice.errors import Unavailable
from tests.support.fake_airflow import connection, fake_airflow

TEXT = """\
kafka: [{cluster: dc1, bootstrap: "kafka:9092", topics: [events]}]
event: {type: {field: type}, time: {field: at}}
lake: file:///lake
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "_defaults.yaml").write_text("airflow: {steps: {land: {pool: big one}}}")
    (tmp_path / "ads.yaml").write_text(TEXT + "airflow: {steps: {load: {pool: sluice_load}}}")
    return read(tmp_path / "ads.yaml")


def test_airflows_own_pool_is_always_there(tmp_path: Path):
    (tmp_path / "ads.yaml").write_text(TEXT)
    assert list(pool_checks(read(tmp_path / "ads.yaml"), pytest.fail)) == []


def test_a_pool_that_is_missing_is_named_with_the_command_that_makes_it(pipeline: Pipeline):
    found = list(pool_checks(pipeline, lambda named: KnownPools("/a", frozenset({"sluice_load"}), "X")))
    assert [(check.level, check.place) for check in found] == [
        (Level.FAIL, "pool big one"),
        (Level.OK, "pool sluice_load"),
    ]
    assert found[0].finding == "is not in the Airflow of /a: a task that names it never starts"
    assert found[0].remedy == "`airflow pools set 'big one' SLOTS DESCRIPTION`; for another Airflow, X"


def test_without_an_airflow_nothing_is_known(pipeline: Pipeline):
    [check] = pool_checks(pipeline, lambda named: None)
    assert (check.level, check.place) == (Level.WARN, "pools")


def test_in_a_plain_shell_the_airflow_of_the_connection_is_asked():
    with fake_airflow() as airflow:
        airflow.answers["GET /api/v2/pools/big%20one"] = [(200, {"name": "big one"})]
        airflow.answers["GET /api/v2/pools/a%2Fb"] = [(404, {"detail": "no such pool"})]
        found = read_pools(["big one", "a/b"], {"AIRFLOW_CONN_SLUICE_AIRFLOW": connection(airflow.url)})
    assert found == KnownPools(airflow.url, frozenset({"big one"}), "the connection sluice_airflow")


def test_an_embedded_airflow_that_does_not_run_is_unavailable(tmp_path: Path, monkeypatch):
    """And no other Airflow of the machine is asked in its place."""
    monkeypatch.setattr(connections, "_airflow", lambda: None)
    (tmp_path / "airflow").mkdir()
    (tmp_path / "airflow/simple_auth_manager_passwords.json.generated").write_text('{"admin": "generated"}')
    environment = {"SLUICE_HOME": str(tmp_path), "SLUICE_AIRFLOW_PORT": "1", "AIRFLOW__API__BASE_URL": ""}
    with pytest.raises(Unavailable, match="127.0.0.1:1.*start it with `make up`"):
        read_pools(["big one"], environment)
