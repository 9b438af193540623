"""The wide stack's ports and folders: the embedded stack's, and those of what it has more.

Each port can be moved by its variable, SLUICE_<NAME>_PORT. SLUICE_CLUSTER_HOME has the data, and
SLUICE_DAGS_FOLDER names the DAGs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from local.environment import HOST, Settings, port_from
from local.versions import ROOT

HOME = "var/cluster"
WORKERS = (1, 2)
# By the variable that moves it. The embedded stack's own ports stay free for it.
PORTS = {
    "SLUICE_KAFKA_PORT": 19092,
    "SLUICE_CLICKHOUSE_PORT": 18123,
    "SLUICE_CLICKHOUSE_TCP_PORT": 19000,
    "SLUICE_CLICKHOUSE2_PORT": 18124,
    "SLUICE_CLICKHOUSE2_TCP_PORT": 19001,
    "SLUICE_S3_PORT": 17070,
    "SLUICE_POSTGRES_PORT": 15432,
    "SLUICE_REDIS_PORT": 16379,
    "SLUICE_SPARK_PORT": 17077,
    "SLUICE_SPARK_UI_PORT": 18081,
    "SLUICE_AIRFLOW_PORT": 18080,
    "SLUICE_TASK_LOGS_PORT": 18793,
}


@dataclass(frozen=True)
class ClusterSettings:
    home: Path
    numbers: Mapping[str, int]
    dags: Path = ROOT / "dags"

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> ClusterSettings:
        """Raises WrongSetting."""
        home = ROOT / (environ.get("SLUICE_CLUSTER_HOME") or HOME)
        numbers = {name: port_from(environ, name, port) for name, port in PORTS.items()}
        return cls(home, numbers, ROOT / (environ.get("SLUICE_DAGS_FOLDER") or "dags"))

    def port(self, name: str) -> int:
        return self.numbers[f"SLUICE_{name}_PORT"]

    @property
    def single(self) -> Settings:
        """What the embedded stack has as well."""
        return Settings(self.home, self.port("KAFKA"), self.port("CLICKHOUSE"), self.port("AIRFLOW"))

    @property
    def ports(self) -> dict[str, int]:
        return {**self.numbers, "SLUICE_KAFKA_PORT + 1": self.port("KAFKA") + 1}

    @property
    def s3_url(self) -> str:
        return f"http://{HOST}:{self.port('S3')}"

    @property
    def spark_url(self) -> str:
        return f"spark://{HOST}:{self.port('SPARK')}"

    @property
    def worker_python(self) -> Path:
        return self.home / "spark-python" / "bin" / "python"

    @property
    def migrated(self) -> Path:
        """Airflow's parts wait for this file: it says that their database is there."""
        return self.home / "airflow-database-ready"


def address(worker: int) -> str:
    """Each worker has a loopback address of its own, so that Spark and Airflow take them for two machines:
    a speculative copy runs on another host only, and a task's log is asked for by its host's name."""
    return f"127.0.0.{worker}"
