from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from sluice.doctor.check import Area, Check, Level, ok
from sluice.doctor.examine import spark_checks, spark_packages
from tests.support.landing_world import hours, pipeline

JARS = (
    *("spark-sql-kafka-0-10_2.13-0", "spark-token-provider-kafka-0-10_2.13-0"),
    *("kafka-clients-0", "commons-pool2-0"),
)


@pytest.mark.parametrize("installed", [(None, "4.2.0"), ("4.2.0", None), (None, None)])
def test_a_package_alone_overwrites_nothing(installed: tuple[str | None, str | None]):
    assert list(spark_packages(*installed)) == []


def test_two_of_one_version_are_one():
    (check,) = spark_packages("4.2.0", "4.2.0")
    assert (check.level, check.finding) == (Level.OK, "pyspark and pyspark-client 4.2.0")


@pytest.mark.parametrize("client", ["4.2.1", "4.1.0", "4.2.0.dev1"])
def test_two_versions_are_a_mixture_of_files(client: str):
    (check,) = spark_packages("4.2.0", client)
    assert check.level is Level.FAIL
    assert check.finding == f"pyspark is 4.2.0, and pyspark-client {client}"
    assert check.remedy.endswith(" pyspark-client==4.2.0 pyspark==4.2.0")


def master_check(master: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """What the doctor says of a master, where nothing of Spark is there but the names of its jars."""
    for name in JARS:
        (tmp_path / f"{name}.jar").touch()
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": master}))
    environment = {"SLUICE_SPARK_JARS": str(tmp_path), "JAVA_HOME": str(tmp_path)}
    return list(spark_checks(pipeline(), Path("p.yaml"), hours(1), environment))[-1]


@pytest.mark.parametrize(
    ("address", "mistake"),
    [
        ("a..b:7077", "a part of its host is empty, longer than 63 characters, or"),
        (f"{'x' * 64}.example:7077", "longer than 63 characters"),
        (f"{'é' * 60}.example:7077", "longer than 63 characters"),
        (".:7077", "is empty"),
        ("a\ud800b:7077", "of characters that no host has"),
        ("127.0.0.1:65536", "its port is above 65535"),
        (f"127.0.0.1:{'9' * 5000}", "its port is above 65535"),
    ],
    ids=lambda text: text[:12].encode("ascii", "replace").decode(),
)
def test_what_is_no_address_is_not_asked(address: str, mistake: str, tmp_path: Path, monkeypatch):
    check = master_check(f"spark://{address}", tmp_path, monkeypatch)
    assert (check.area, check.place, check.level, check.unreachable) == (
        Area.SPARK,
        "master",
        Level.FAIL,
        False,
    )
    assert check.finding.startswith(f"spark://{address} is no address (") and mistake in check.finding
    assert check.remedy == "correct host and port of the Spark connection"


def test_a_master_that_answers_and_one_that_does_not(tmp_path: Path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"spark://127.0.0.1:{server.getsockname()[1]}"
        assert master_check(master, tmp_path, monkeypatch) == ok(Area.SPARK, "master", f"{master} answers")
    check = master_check(master, tmp_path, monkeypatch)
    assert (check.level, check.unreachable) == (Level.FAIL, True)
    assert check.remedy == "start it, or correct host and port of the Spark connection"
