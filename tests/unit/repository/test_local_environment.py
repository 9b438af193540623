"""What the embedded stack's settings become: ports, connections, Airflow's options."""

import json
import sys
from pathlib import Path

import pytest

from local.environment import Settings, WrongSetting, environment
from local.ivy import ivy_module
from local.java import major_version
from local.versions import BROKER_JARS, ROOT, SPARK_KAFKA_JARS


def test_defaults():
    settings = Settings.read({})
    assert settings.home == ROOT / "var"
    assert (settings.kafka_port, settings.clickhouse_port, settings.airflow_port) == (9092, 8123, 8080)


def test_ports_move_everything_that_names_them(tmp_path: Path):
    ports = {"SLUICE_KAFKA_PORT": "19092", "SLUICE_CLICKHOUSE_PORT": "18123", "SLUICE_AIRFLOW_PORT": "18080"}
    env = environment(Settings.read({"SLUICE_HOME": str(tmp_path), **ports}), base={})
    assert json.loads(env["AIRFLOW_CONN_KAFKA_DEFAULT"])["extra"] == {"bootstrap.servers": "127.0.0.1:19092"}
    assert json.loads(env["AIRFLOW_CONN_CLICKHOUSE_DEFAULT"])["port"] == 18123
    assert env["AIRFLOW__API__BASE_URL"] == "http://127.0.0.1:18080"
    assert env["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:18080/execution/"
    assert env["AIRFLOW_HOME"] == str(tmp_path / "airflow")
    assert {name: env[name] for name in ports} == ports


@pytest.mark.parametrize("text", ["x", "0", "65536", "-1", "80.5", "²", "9" * 5000])
def test_a_port_that_is_none_is_told_by_its_variable(text: str):
    with pytest.raises(WrongSetting, match="SLUICE_KAFKA_PORT"):
        Settings.read({"SLUICE_KAFKA_PORT": text})


def test_spark_has_a_connection_and_this_python():
    env = environment(Settings.read({}), base={})
    assert json.loads(env["AIRFLOW_CONN_SPARK_DEFAULT"])["host"] == "local[*]"
    assert env["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("command not found", 0),
    ],
)
def test_java_versions(said: str, version: int):
    assert major_version(said) == version


@pytest.mark.parametrize(
    ("jars", "transitive", "conf"), [(BROKER_JARS, True, "default"), (SPARK_KAFKA_JARS, False, "master")]
)
def test_ivy_is_asked_for_every_jar(jars, transitive: bool, conf: str):
    text = ivy_module(jars, transitive)
    for jar in jars:
        assert f'name="{jar.name}" rev="{jar.version}" conf="needed->{conf}"' in text
