"""What spark-submit is given when Spark is a cluster: the library in an archive, the driver's real name."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sluice.errors import WrongUse
from sluice.flow.land import submit
from sluice.flow.land.submit import SubmitSpec, spark_submit_arguments
from tests.support.landing_world import hours, pipeline

PACKAGES = {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"}


@pytest.fixture(autouse=True)
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "archive_file", lambda: tmp_path / "sluice-1.zip")


def submitted(monkeypatch, host: str, extra: dict | None = None, **spark: str) -> SubmitSpec:
    connection = {"conn_type": "spark", "host": host, "extra": extra or {}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    environment = {"PYSPARK_PYTHON": "/opt/python", "SLUICE_SPARK_JARS": "/nowhere"}
    spec = pipeline(spark={**PACKAGES, **spark})
    return spark_submit_arguments(spec, Path("p.yaml"), hours(1), "fill", "t", environment)


@pytest.mark.parametrize(
    "master", ["spark://m:7077", "spark://m1:7077,m2:7077", "yarn", "k8s://https://k:6443"]
)
def test_a_cluster_gets_the_library_and_finds_the_driver(tmp_path: Path, monkeypatch, master: str):
    found = submitted(monkeypatch, master)
    words = found.command()
    assert words[words.index("--master") + 1] == master
    assert words[words.index("--py-files") + 1] == str(tmp_path / "sluice-1.zip")
    assert "SPARK_LOCAL_HOSTNAME" not in found.env_vars and "spark.driver.host" not in found.conf
    assert found.env_vars["PYSPARK_PYTHON"] == "/opt/python"
    assert found.conf["spark.pyspark.driver.python"] == sys.executable


def test_local_mode_needs_neither(monkeypatch):
    found = submitted(monkeypatch, "local[2]")
    assert "--py-files" not in found.command()
    assert found.env_vars["SPARK_LOCAL_HOSTNAME"] == "localhost"


def test_packages_take_the_place_of_jars(monkeypatch):
    """No folder of jars is looked for then: here there is none."""
    assert "--jars" not in submitted(monkeypatch, "yarn").command()


@pytest.mark.parametrize(
    ("extra", "conf", "place"),
    [
        ({"deploy-mode": "cluster"}, {}, "Spark connection 'spark_default'"),
        ({}, {"spark.submit.deployMode": "cluster"}, "spark: spark.submit.deployMode"),
    ],
)
def test_a_driver_elsewhere_is_refused(monkeypatch, extra: dict, conf: dict, place: str):
    with pytest.raises(WrongUse, match=f"^{place} has deploy-mode cluster: landing needs `client`"):
        submitted(monkeypatch, "yarn", extra, **conf)


def test_client_mode_may_be_named(monkeypatch):
    submitted(monkeypatch, "yarn", {"deploy-mode": "client"}, **{"spark.submit.deployMode": "client"})
