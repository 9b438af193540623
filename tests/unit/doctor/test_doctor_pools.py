"""The pools that a pipeline's tasks name; tests/dags asks a real Airflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.clients.connections import find
from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from sluice.doctor.check import Level
from sluice.doctor.pools import KnownPools, pool_checks, read_pools
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
    found = list(pool_checks(pipeline, lambda named: KnownPools("/a", {"sluice_load": False}, "X")))
    assert [(check.level, check.place) for check in found] == [
        (Level.FAIL, "pool big one"),
        (Level.OK, "pool sluice_load"),
    ]
    assert found[0].finding == "is not in the Airflow of /a: a task that names it never starts"
    assert found[0].remedy == "`airflow pools set 'big one' SLOTS DESCRIPTION`; for another Airflow, X"


SETS = "airflow pools set --include-deferred"
OWN = f"`{SETS} 'big one' SLOTS DESCRIPTION`, with the slots it has"
NEW = (
    f"`{SETS} sluice_land SLOTS DESCRIPTION`, and in the pipeline file "
    "`airflow: {steps: {land: {pool: sluice_land}}}`"
)


@pytest.mark.parametrize(
    ("airflow", "counts", "expected"),
    [
        ("deferrable: true, steps: {land: {pool: big one}}", {"big one": False}, [("big one", OWN)]),
        ("deferrable: true, pool: big one", {"big one": False}, [("big one", OWN)]),
        ("deferrable: true", {"default_pool": False}, [("default_pool", NEW)]),
        ("deferrable: true", {"default_pool": True}, []),
        ("deferrable: true, steps: {land: {pool: big one}}", {"big one": True}, []),
        ("deferrable: true, steps: {load: {pool: big one}}", {"big one": False, "default_pool": True}, []),
        ("steps: {land: {pool: big one}}", {"big one": False}, []),
    ],
)
def test_a_pool_that_does_not_bound_deferred_landings_is_named_with_its_remedy(
    tmp_path: Path, airflow: str, counts: dict[str, bool], expected: list[tuple[str, str]]
):
    (tmp_path / "ads.yaml").write_text(f"{TEXT}airflow: {{{airflow}}}")
    checks = list(pool_checks(read(tmp_path / "ads.yaml"), lambda named: KnownPools("/a", counts, "X")))
    assert {check.place for check in checks} == {f"pool {name}" for name in counts}
    warned = [check for check in checks if check.level is not Level.OK]
    assert [(check.level, check.place, check.remedy) for check in warned] == [
        (Level.WARN, f"pool {name}", remedy) for name, remedy in expected
    ]
    assert all("does not bound how many Sparks run at once" in check.finding for check in warned)


def test_a_pool_of_deferred_landings_is_made_so_that_it_bounds_them(tmp_path: Path):
    (tmp_path / "ads.yaml").write_text(f"{TEXT}airflow: {{deferrable: true, pool: own}}")
    (check,) = pool_checks(read(tmp_path / "ads.yaml"), lambda named: KnownPools("/a", {}, "X"))
    assert (
        check.remedy == "`airflow pools set --include-deferred own SLOTS DESCRIPTION`; for another Airflow, X"
    )


def test_without_an_airflow_nothing_is_known(pipeline: Pipeline):
    [check] = pool_checks(pipeline, lambda named: None)
    assert (check.level, check.place) == (Level.WARN, "pools")


def test_in_a_plain_shell_the_airflow_of_the_connection_is_asked():
    with fake_airflow() as airflow:
        airflow.answers["GET /api/v2/pools/big%20one"] = [(200, {"name": "big one"})]
        airflow.answers["GET /api/v2/pools/a%2Fb"] = [(404, {"detail": "no such pool"})]
        for name, counts in (("counts", True), ("not", False)):
            airflow.answers[f"GET /api/v2/pools/{name}"] = [(200, {"include_deferred": counts})]
        found = read_pools(
            ["big one", "a/b", "counts", "not"], {"AIRFLOW_CONN_SLUICE_AIRFLOW": connection(airflow.url)}
        )
    known = {"big one": False, "counts": True, "not": False}
    assert found == KnownPools(airflow.url, known, "the connection sluice_airflow")


def test_an_embedded_airflow_that_does_not_run_is_unavailable(tmp_path: Path, monkeypatch):
    """And no other Airflow of the machine is asked in its place."""
    monkeypatch.setattr(find, "_airflow", lambda: None)
    (tmp_path / "airflow").mkdir()
    (tmp_path / "airflow/simple_auth_manager_passwords.json.generated").write_text('{"admin": "generated"}')
    environment = {"SLUICE_HOME": str(tmp_path), "SLUICE_AIRFLOW_PORT": "1", "AIRFLOW__API__BASE_URL": ""}
    with pytest.raises(Unavailable, match="127.0.0.1:1.*start it with `make up`"):
        read_pools(["big one"], environment)
