"""`verify` and `verify --contents` of replicated tables and of the replicated tables of their views, on a
server that answers as a replica does (tests/integration/load/test_replicated.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.connections import Connection
from sluice.config.pipeline import Pipeline
from sluice.errors import ClickHouseUnavailable
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.audit import audit
from sluice.slices import SliceRange
from tests.integration.landed import START, World, client_of, event, land, unit
from tests.integration.load.test_replicated import SPEC, Place, ReplicatedClient, Told
from tests.integration.verify.test_contents import compared
from tests.support.clickhouse_at import at
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
BY_UNIT = "ORDER BY (_slice, _cluster"
# By table: its columns (none: the view has a table of its own), its engine, and the SELECT of its view.
VIEWS = {
    "passed": ("n UInt16", "MergeTree ORDER BY tuple()", "n, _slice, _cluster FROM {db}.clicks"),
    "own": ("", "MergeTree ORDER BY tuple()", "n, _slice, _cluster FROM {db}.clicks"),
    "sums": (
        "k UInt8, total UInt64, kept UInt64",
        f"SummingMergeTree(total) {BY_UNIT}, k)",
        "toUInt8(n % 2) AS k, sum(n) AS total, 7 AS kept, _slice, _cluster FROM {db}.clicks GROUP BY ALL",
    ),
    "chained": (
        "most SimpleAggregateFunction(max, UInt64)",
        f"AggregatingMergeTree {BY_UNIT})",
        "max(k) AS most, _slice, _cluster FROM {db}.sums GROUP BY ALL",
    ),
    "last": (
        "k UInt8, n UInt16",
        f"ReplacingMergeTree(n) {BY_UNIT}, k)",
        "toUInt8(n % 2) AS k, n, _slice, _cluster FROM {db}.clicks",
    ),
}
HERE = f"_slice = toDateTime({int(START.timestamp())}, 'UTC')"
DAMAGE = {
    "passed": "UPDATE n = n + 1 WHERE n = 3",
    "own": "DELETE WHERE n = 3",
    "sums": "UPDATE total = total + 1 WHERE k = 1",
    "chained": "UPDATE most = most + 1 WHERE 1",
    "last": "DELETE WHERE k = 1",
}
BEHIND = 289  # REPLICA_IS_NOT_IN_QUORUM


@dataclass
class Lag:
    """Whether the replica lacks what a quorum of the others has."""

    behind: bool = False


class LaggingClient(ReplicatedClient):
    """Behind the others, it refuses a sequential read of rows, and answers another from what it has."""

    def __init__(self, driver: object, told: Told, lag: Lag, reading: Mapping | None = None) -> None:
        super().__init__(driver, "replica a", told, reading)
        self.lag = lag

    def reading(self, settings: Mapping) -> Client:
        return LaggingClient(self._driver, self._told, self.lag, {**self._reading, **settings})

    def rows(self, sql: str, parameters: Mapping | None = None, settings: Mapping | None = None) -> list:
        if self.lag.behind and "`passed`" in sql and "FROM system." not in sql:
            if self._reading.get("select_sequential_consistency") != 1:
                return []
            raise ServerError(
                self.address, BEHIND, "REPLICA_IS_NOT_IN_QUORUM", "SELECT", "lacks part all_1_1_0"
            )
        return super().rows(sql, parameters, settings)


@pytest.fixture
def lag() -> Lag:
    return Lag()


@pytest.fixture
def place(clickhouse_server, tmp_path, name, monkeypatch, lag: Lag) -> Place:
    world = World(tmp_path, client_of(clickhouse_server), name)
    world.sql("CREATE DATABASE {db} ENGINE = Atomic")
    world.sql(f"CREATE TABLE {{db}}.clicks (n UInt16, {KEYS}) ENGINE = MergeTree ORDER BY n")
    for table, (columns, engine, select) in VIEWS.items():
        to = f"ENGINE = {engine}"
        if columns:
            world.sql(f"CREATE TABLE {{db}}.{table} ({columns}, {KEYS}) ENGINE = {engine}")
            to = f"TO {{db}}.{table}"
        view = f"{table}_view" if columns else table
        world.sql(f"CREATE MATERIALIZED VIEW {{db}}.{view} {to} AS SELECT {select}")
    told = Told()

    def open_client(_: object, alone: bool = False) -> Client:
        return LaggingClient(client_of(clickhouse_server)._driver, told, lag)

    for replica in SPEC["shards"][0]["replicas"]:
        monkeypatch.setenv(f"AIRFLOW_CONN_{replica.upper()}", at(clickhouse_server.port).variable)
    monkeypatch.setattr("sluice.clients.clickhouse.shards.open_client", open_client)
    other = ReplicatedClient(world.client._driver, "replica b", Told("b"))
    yield Place(world, LaggingClient(world.client._driver, told, lag), other, told)
    world.sql("DROP DATABASE {db} SYNC")


@pytest.fixture
def pipeline(place: Place) -> Pipeline:
    land(place.world.lake, unit(), [event(n=n) for n in range(6)])
    place.load(place.pipeline())
    return place.pipeline()


def told(place: Place, pipeline: Pipeline) -> list[tuple[str, str, str]]:
    found = compared(place.world, pipeline)
    return sorted((a.kind, a.table.partition(".")[2], a.shard) for a in found.anomalies)


def damage(place: Place, table: str) -> None:
    inner = "SELECT toString(uuid) FROM system.tables WHERE database = '{db}' AND name = 'own'"
    [(uuid,)] = place.world.sql(inner)
    name = f"`.inner_id.{uuid}`" if table == "own" else table
    place.world.sql(f"ALTER TABLE {{db}}.{name} {DAMAGE[table]} AND {HERE} SETTINGS mutations_sync = 2")


@pytest.mark.long
def test_replicated_tables_of_views_are_compared(place: Place, pipeline: Pipeline):
    assert told(place, pipeline) == []
    for name in (*VIEWS, "clicks"):
        place.world.sql(f"OPTIMIZE TABLE {{db}}.{name} FINAL")
    assert told(place, pipeline) == []
    for name in VIEWS:
        damage(place, name)
    assert told(place, pipeline) == sorted((AnomalyKind.VALUES, name, "s1") for name in VIEWS)
    place.load(pipeline, mode="reload", token="again")
    assert told(place, pipeline) == []


def test_verify_reads_what_a_quorum_has(place: Place, pipeline: Pipeline, lag: Lag):
    """A replica that is behind is no damage: it is asked again later."""
    hour = SliceRange(START, START.add(hours=1))
    kinds = (AnomalyKind.VIEW, AnomalyKind.ROWS_MISSING, AnomalyKind.INCOMPLETE)
    assert [a for a in audit(pipeline, hour).anomalies if a.kind in kinds and a.table] == []
    lag.behind = True
    for look in (lambda: audit(pipeline, hour), lambda: told(place, pipeline)):
        with pytest.raises(ServerError, match="the replica is behind the others: try again later") as raised:
            look()
        assert raised.value.retryable


@pytest.fixture
def other(clickhouse_server, monkeypatch: pytest.MonkeyPatch, place: Place, lag: Lag) -> Told:
    """What the second replica is told, which has everything; the first one may be behind."""
    told = Told("b")

    def open_client(connection: Connection, alone: bool = False) -> Client:
        driver = client_of(clickhouse_server)._driver
        if connection.conn_id == SPEC["shards"][0]["replicas"][0]:
            return LaggingClient(driver, place.told, lag)
        return ReplicatedClient(driver, "replica b", told)

    monkeypatch.setattr("sluice.clients.clickhouse.shards.open_client", open_client)
    return told


@pytest.mark.long
def test_verify_turns_to_a_replica_that_is_not_behind(
    place: Place, pipeline: Pipeline, lag: Lag, other: Told
):
    hour = SliceRange(START, START.add(hours=1))
    kinds = (AnomalyKind.VIEW, AnomalyKind.ROWS_MISSING, AnomalyKind.INCOMPLETE)
    lag.behind = True
    assert [a for a in audit(pipeline, hour).anomalies if a.kind in kinds and a.table] == []
    read = [reading for sql, reading in other.reads if "`passed`" in sql and "FROM system." not in sql]
    assert read and all(reading["select_sequential_consistency"] == 1 for reading in read)
    assert told(place, pipeline) == []
    damage(place, "passed")
    assert told(place, pipeline) == [(AnomalyKind.VALUES, "passed", "s1")]


@pytest.mark.parametrize("answers", per_commit([5, 0, 1, 20]))
@pytest.mark.long
def test_verify_turns_to_another_replica_when_one_goes_down(
    place: Place, pipeline: Pipeline, other: Told, monkeypatch: pytest.MonkeyPatch, answers: int
):
    """After so many answers the first replica is silent."""
    rows, left = LaggingClient.rows, [answers]

    def answered(self: LaggingClient, *asked: object) -> list:
        if not left[0]:
            raise ClickHouseUnavailable(self.address, "connection refused")
        left[0] -= 1
        return rows(self, *asked)

    monkeypatch.setattr(LaggingClient, "rows", answered)
    hour = SliceRange(START, START.add(hours=1))
    kinds = (AnomalyKind.VIEW, AnomalyKind.ROWS_MISSING, AnomalyKind.INCOMPLETE)
    assert [a for a in audit(pipeline, hour).anomalies if a.kind in kinds and a.table] == []
    assert other.reads


@pytest.mark.long
def test_one_server_is_read_as_it_is(place: Place, pipeline: Pipeline):
    """A user who may only read cannot set what only replicas need."""
    place.told.reads.clear()
    alone = {"shards": [{"name": "s1", "connection": SPEC["shards"][0]["replicas"][0]}]}
    audit(place.world.pipeline({"click": "clicks"}, clickhouse=alone), SliceRange(START, START.add(hours=1)))
    read = [reading for _, reading in place.told.reads]
    assert read and not any("select_sequential_consistency" in reading for reading in read)
