"""The wide stack in the place of the single servers: the same fixtures' names, other addresses.

cluster            session   Wide: Spark's master and two workers, Airflow on PostgreSQL with two Celery
                             workers, S3, two ClickHouse servers, a Kafka broker; .kill(part)
kafka_broker, clickhouse_server, stack_env     as in tests/conftest.py
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from local.environment import HOST


def pytest_ignore_collect(collection_path, config) -> bool | None:
    """Without the wide stack's packages (`make setup-cluster`) there is nothing here to run."""
    try:
        import celery  # noqa: F401
        import psycopg2  # noqa: F401
    except ModuleNotFoundError:
        return True
    return None


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    from tests.cluster.wide import Wide

    wide = Wide.start(tmp_path_factory.mktemp("wide"))
    yield wide
    wide.stop()


@pytest.fixture(scope="session")
def kafka_broker(cluster) -> str:
    return f"{HOST}:{cluster.port('KAFKA')}"


@pytest.fixture(scope="session")
def clickhouse_server(cluster) -> SimpleNamespace:
    return cluster.servers[0]


@pytest.fixture(scope="session")
def stack_env(cluster) -> dict[str, str]:
    return cluster.env
