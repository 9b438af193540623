"""The environment of everything in the wide stack: the embedded one's with other addresses."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from local.cluster.secrets import stored
from local.cluster.settings import ClusterSettings
from local.environment import HOST, clickhouse_connection
from local.environment import environment as embedded_environment

BUCKET = "lake"
S3_KEY = "sluice"
S3_REGION = "us-east-1"
POOLS = {"sluice_land": 1, "sluice_load": 2}


def environment(settings: ClusterSettings, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    secret = stored(settings.home)
    return {
        **embedded_environment(settings.single, base),
        **{name: str(port) for name, port in settings.numbers.items()},
        **connections(settings),
        **airflow(settings, secret),
        "AWS_ENDPOINT_URL": settings.s3_url,
        "AWS_ACCESS_KEY_ID": S3_KEY,
        "AWS_SECRET_ACCESS_KEY": secret["s3"],
        "AWS_DEFAULT_REGION": S3_REGION,
        "SLUICE_LAKE": f"s3://{BUCKET}/landing",
        "PYSPARK_PYTHON": str(settings.worker_python),
        "SLUICE_POSTGRES_PASSWORD": secret["postgres"],
        "SLUICE_REDIS_PASSWORD": secret["redis"],
    }


def connections(settings: ClusterSettings) -> dict[str, str]:
    connection_by_id = {
        "spark_default": {"conn_type": "spark", "host": f"spark://{HOST}", "port": settings.port("SPARK")},
        "clickhouse_2": clickhouse_connection(
            settings.port("CLICKHOUSE2"), settings.single.clickhouse_password
        ),
    }
    return {f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in connection_by_id.items()}


def airflow(settings: ClusterSettings, secret: Mapping[str, str]) -> dict[str, str]:
    """A lost worker is noticed within a minute instead of five, and a task that got lost on its way to one
    within two instead of ten; else Airflow's own values."""
    database = f"airflow:{secret['postgres']}@{HOST}:{settings.port('POSTGRES')}/airflow"
    options = {
        "CORE__DAGS_FOLDER": settings.dags,
        "CORE__EXECUTOR": "CeleryExecutor",
        "CORE__FERNET_KEY": secret["fernet"],
        "CORE__PARALLELISM": 8,
        "DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{database}",
        "CELERY__RESULT_BACKEND": f"db+postgresql+psycopg2://{database}",
        "CELERY__BROKER_URL": f"redis://:{secret['redis']}@{HOST}:{settings.port('REDIS')}/0",
        "CELERY__WORKER_CONCURRENCY": 2,
        "CELERY__SYNC_PARALLELISM": 1,
        "CELERY__WORKER_PREFETCH_MULTIPLIER": 1,
        "API_AUTH__JWT_SECRET": secret["jwt"],
        "API__SECRET_KEY": secret["api"],  # else workers refuse to show their logs
        "LOGGING__WORKER_LOG_SERVER_PORT": settings.port("TASK_LOGS"),
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": 60,
        "SCHEDULER__TASK_QUEUED_TIMEOUT": 120,
        "SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": 20,
    }
    return {f"AIRFLOW__{name}": str(value) for name, value in options.items()}
