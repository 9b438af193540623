"""Where the embedded stack lives and the environment that everything in it runs with.

Everything follows from four environment variables: SLUICE_HOME (data; default ./var) and SLUICE_KAFKA_PORT,
SLUICE_CLICKHOUSE_PORT, SLUICE_AIRFLOW_PORT.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local import fetched
from local.clickhouse_config import PASSWORD, USER, password_of
from local.java import java_home
from local.versions import ROOT

HOST = "127.0.0.1"
# Holds the module that Airflow imports its database's settings from.
AIRFLOW_SETTINGS = ROOT / "local" / "airflow_settings"


class WrongSetting(Exception):
    """An environment variable that cannot be used as it is."""


def port_from(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name) or str(default)
    if not text.isdecimal() or len(text) > 9 or not 0 < int(text) < 65536:
        raise WrongSetting(f"{name}={text}: expected a port number from 1 to 65535")
    return int(text)


@dataclass(frozen=True)
class Settings:
    """`given_password`: ClickHouse's, where it is not the one that `home` keeps."""

    home: Path
    kafka_port: int = 9092
    clickhouse_port: int = 8123
    airflow_port: int = 8080
    given_password: str | None = field(default=None, repr=False)

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        return cls(
            home=ROOT / (environ.get("SLUICE_HOME") or "var"),
            kafka_port=port_from(environ, "SLUICE_KAFKA_PORT", 9092),
            clickhouse_port=port_from(environ, "SLUICE_CLICKHOUSE_PORT", 8123),
            airflow_port=port_from(environ, "SLUICE_AIRFLOW_PORT", 8080),
            given_password=environ.get(PASSWORD),
        )

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.kafka_port}"

    @property
    def clickhouse_url(self) -> str:
        return f"http://{HOST}:{self.clickhouse_port}"

    @property
    def clickhouse_password(self) -> str:
        return self.given_password or password_of(self.home)

    @property
    def clickhouse_login(self) -> dict[str, Any]:
        """What `clickhouse_connect.get_client` takes."""
        password = self.clickhouse_password
        return {"host": HOST, "port": self.clickhouse_port, "username": USER, "password": password}

    @property
    def airflow_url(self) -> str:
        return f"http://{HOST}:{self.airflow_port}"

    @property
    def ports(self) -> dict[str, int]:
        """Every port the stack listens on, by the variable that moves it."""
        return {
            "SLUICE_KAFKA_PORT": self.kafka_port,
            "SLUICE_KAFKA_PORT + 1": self.kafka_port + 1,
            "SLUICE_CLICKHOUSE_PORT": self.clickhouse_port,
            "SLUICE_AIRFLOW_PORT": self.airflow_port,
        }


def clickhouse_connection(port: int, password: str, user: str = USER) -> dict[str, Any]:
    """One embedded ClickHouse as Airflow's JSON has it."""
    address = {"conn_type": "clickhouse", "host": HOST, "port": port, "schema": "default"}
    return {**address, "login": user, "password": password}


def connections(settings: Settings) -> dict[str, str]:
    """Airflow connections; a missing Spark connection would silently mean YARN."""
    connection_by_id = {
        "spark_default": {"conn_type": "spark", "host": "local[*]"},
        "kafka_default": {"conn_type": "kafka", "extra": {"bootstrap.servers": settings.bootstrap}},
        "clickhouse_default": clickhouse_connection(settings.clickhouse_port, settings.clickhouse_password),
    }
    return {f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in connection_by_id.items()}


def airflow(settings: Settings) -> dict[str, str]:
    """Airflow on loopback, light enough for two cores, quick to see a changed DAG."""
    options = {
        "CORE__DAGS_FOLDER": ROOT / "dags",
        "CORE__LOAD_EXAMPLES": False,
        "CORE__PARALLELISM": 4,
        "CORE__EXECUTION_API_SERVER_URL": f"{settings.airflow_url}/execution/",
        # Airflow sets these itself, whatever the umask.
        "LOGGING__FILE_TASK_HANDLER_NEW_FOLDER_PERMISSIONS": "0o700",
        "LOGGING__FILE_TASK_HANDLER_NEW_FILE_PERMISSIONS": "0o600",
        "API__HOST": HOST,
        "API__PORT": settings.airflow_port,
        "API__BASE_URL": settings.airflow_url,
        "API__WORKERS": 1,
        "DAG_PROCESSOR__PARSING_PROCESSES": 1,
        "DAG_PROCESSOR__REFRESH_INTERVAL": 15,
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": 15,
    }
    home = {"AIRFLOW_HOME": str(settings.home / "airflow")}
    return home | {f"AIRFLOW__{name}": str(value) for name, value in options.items()}


def own(settings: Settings) -> dict[str, str]:
    return {
        "SLUICE_HOME": str(settings.home),
        "SLUICE_KAFKA_PORT": str(settings.kafka_port),
        "SLUICE_CLICKHOUSE_PORT": str(settings.clickhouse_port),
        "SLUICE_AIRFLOW_PORT": str(settings.airflow_port),
        PASSWORD: settings.clickhouse_password,
        "SLUICE_SPARK_JARS": str(fetched.spark_jars()),
    }


def lake_folder(settings: Settings, base: Mapping[str, str]) -> Path:
    """Where include/pipelines/adx.yaml puts the lake, as far as that is a folder."""
    lake = base.get("SLUICE_LAKE", "")
    return Path(lake.removeprefix("file://")) if lake.startswith("file://") else settings.home / "lake"


def environment(settings: Settings, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The whole environment for a process of the stack: the venv first on PATH, Java found.

    Raises NotAsPinned.
    """
    programs = Path(sys.executable).parent
    runtime = {
        "PATH": f"{programs}{os.pathsep}{base.get('PATH', os.defpath)}",
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOST,
        "PYTHONUNBUFFERED": "1",
        "SLUICE_LAKE_FOLDER": str(lake_folder(settings, base)),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(AIRFLOW_SETTINGS), base.get("PYTHONPATH")))),
    }
    return {**base, **runtime, **own(settings), **connections(settings), **airflow(settings)}
