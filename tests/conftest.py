"""Fixtures for every test. Real services on free ports, their data in pytest's temporary folder:

kafka_broker             session   "127.0.0.1:PORT", one real broker; make your own topics
clickhouse_server        session   .url .host .port .at (its login); make your own database
clickhouse_servers       session   two of them, with TCP ports: the shards of tests/support/shards_world.py
start_kafka_broker       function  factory: () -> KafkaBroker .bootstrap .port .kill() .stop() .start()
start_clickhouse_server  function  factory: (tcp=False, users=None, config=None) -> ClickHouseServer
engine                   module    Spark local[2] in this process: what lands
spark_world              function  a broker, Spark and ClickHouse: tests/support/spark_world.py
stack_env                session   environment of a subprocess that points at the two session servers
name                     function  a name of its own for topics and databases: letters, digits and _

The services' classes and what their methods do: local/services.py.
"""

import os
import re
import secrets
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from local import services
from local.clickhouse_config import PASSWORD
from local.environment import Settings, environment

# How long one example takes says how busy the machine is.
settings.register_profile("sluice", deadline=None)
settings.load_profile("sluice")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the long form, too: `make faults`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in set(long)]


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault(PASSWORD, secrets.token_urlsafe(24))  # that of every ClickHouse of this session
    # Tests start many JVMs that live for seconds: the second compiler costs them more than it gains.
    for options in ("SPARK_SUBMIT_OPTS", "KAFKA_OPTS"):
        os.environ.setdefault(options, "-XX:TieredStopAtLevel=1")
    # Airflow makes its home when it is imported: keep the developer's own out of it.
    home = f"airflow-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    os.environ.setdefault("AIRFLOW_HOME", str(Path(config.rootpath, ".pytest_cache", home)))


def pytest_runtest_setup() -> None:
    """A copied Airflow operator sets 5,000 for its whole process; tasks of Spark have Python's default."""
    sys.setrecursionlimit(1_000)


@pytest.fixture(scope="session")
def kafka_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[services.KafkaBroker]:
    broker = services.kafka_broker(tmp_path_factory.mktemp("kafka"))
    yield broker
    broker.kill()  # what it holds goes with the temporary folder


@pytest.fixture(scope="session")
def kafka_broker(kafka_service: services.KafkaBroker) -> str:
    return kafka_service.bootstrap


@pytest.fixture(scope="session")
def clickhouse_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[services.ClickHouseServer]:
    server = services.clickhouse_server(tmp_path_factory.mktemp("clickhouse"))
    yield server
    server.kill()


@pytest.fixture(scope="session")
def clickhouse_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[services.ClickHouseServer]]:
    folder = tmp_path_factory.mktemp("shards")
    servers = [services.clickhouse_server(folder / f"s{number}", tcp=True) for number in (1, 2)]
    yield servers
    for server in servers:
        server.kill()


@pytest.fixture
def start_kafka_broker(tmp_path: Path) -> Iterator[Callable[..., services.KafkaBroker]]:
    started: list[services.KafkaBroker] = []

    def start(**options) -> services.KafkaBroker:
        started.append(services.kafka_broker(tmp_path / f"kafka{len(started)}", **options))
        return started[-1]

    yield start
    for broker in started:
        broker.kill()  # what it holds goes with the temporary folder


@pytest.fixture
def start_clickhouse_server(tmp_path: Path) -> Iterator[Callable[..., services.ClickHouseServer]]:
    started: list[services.ClickHouseServer] = []

    def start(**options) -> services.ClickHouseServer:
        started.append(services.clickhouse_server(tmp_path / f"clickhouse{len(started)}", **options))
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    from tests.support.spark_world import spark

    with spark() as started:
        yield started


@pytest.fixture
def spark_world(name, tmp_path, kafka_broker, clickhouse_server, engine, monkeypatch) -> Any:
    from tests.integration.landed import client_of
    from tests.support.spark_world import SparkWorld

    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    return SparkWorld(name, tmp_path, kafka_broker, client_of(clickhouse_server), engine)


@pytest.fixture(scope="session")
def stack_env(
    tmp_path_factory: pytest.TempPathFactory,
    kafka_service: services.KafkaBroker,
    clickhouse_server: services.ClickHouseServer,
) -> dict[str, str]:
    home = tmp_path_factory.mktemp("sluice_home")
    password = clickhouse_server.password
    settings = Settings(home, kafka_service.port, clickhouse_server.port, given_password=password)
    return environment(settings)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return re.sub(r"\W+", "_", request.node.name)[:40].lower() + "_" + uuid.uuid4().hex[:8]
