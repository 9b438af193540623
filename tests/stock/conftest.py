"""stock   session   World: a stock Airflow on PostgreSQL, Kafka with own events, ClickHouse, both wheels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


def pytest_ignore_collect(collection_path, config) -> bool | None:
    """Without PostgreSQL's driver (`make setup-cluster`) there is nothing here to run."""
    try:
        import psycopg2  # noqa: F401
    except ModuleNotFoundError:
        return True
    return None


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    from tests.stock.memory import table, watched
    from tests.stock.world import world

    with world(tmp_path_factory.mktemp("stock")) as found, watched(found.airflow) as most:
        yield found
        print("", *(f"{minutes:5.1f} min {what}" for what, minutes in found.minutes.items()), sep="\n")
        print(table(most))
