"""A load of shared tables, on a server that answers as one of ClickHouse Cloud's does: statements and
settings. Whether such a service keeps its promises is what `sluice conformance` asks it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.shards import ALONE
from sluice.config.pipeline import Pipeline
from sluice.doctor.clickhouse import clickhouse_checks
from sluice.errors import TargetRefused
from sluice.flow.load.fencing import EVERYWHERE as ON_ALL
from sluice.flow.load.fencing import LoadAttempt, fence_off, left_by
from sluice.flow.load.load import load
from sluice.flow.load.work import LoadResult
from sluice.state.shard_ledgers import identify_table
from tests.integration.landed import World, client_of, event, land, unit
from tests.integration.load.test_replicated import COLUMNS, ReplicatedClient, Told
from tests.integration.newest import Change, Newest

pytestmark = pytest.mark.integration

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
EVERYWHERE = re.compile(r"clusterAllReplicas\('default', (system\.\w+)\)")


class SharedClient(ReplicatedClient):
    """The session's server, which stands for all of a service. `lacks`: rights that its user has not."""

    def __init__(self, driver: Any, address: str, told: Told, reading: Mapping | None = None) -> None:
        super().__init__(driver, address, told, reading)
        self.lacks: set[str] = set()
        self.killed: list[str] = []
        self.no_cluster = False

    def reading(self, settings: Mapping) -> SharedClient:
        again = SharedClient(self._driver, self.address, self._told, {**self._reading, **settings})
        again.__dict__ |= {"lacks": self.lacks, "killed": self.killed, "no_cluster": self.no_cluster}
        return again

    def rows(self, sql: str, parameters: Mapping | None = None, settings: Mapping | None = None) -> list:
        for right in self.lacks:
            if sql.startswith(f"CHECK GRANT {right} ON *.*"):
                return [(0,)]
        if EVERYWHERE.search(sql) and self.no_cluster:
            raise ServerError(self.address, 701, "CLUSTER_DOESNT_EXIST", "SELECT", "no cluster")
        if "FROM system.replicas" in sql or "system.zookeeper" in sql:
            return []
        return super().rows(EVERYWHERE.sub(r"\1", sql), parameters, settings)

    def run(self, sql: str, *rest: Any, **named: Any) -> None:
        if "ON CLUSTER" in sql:
            self.killed.append(sql)
        super().run(sql.replace("ON CLUSTER `default`", ""), *rest, **named)


class Service:
    def __init__(self, world: World, client: SharedClient, told: Told) -> None:
        self.world, self.client, self.told = world, client, told

    @property
    def pipeline(self) -> Pipeline:
        return self.world.pipeline({"click": "clicks"})

    def load(self, **options: Any) -> LoadResult:
        pipeline = options.pop("pipeline", self.pipeline)
        known = {"mode": "fill", "placement": ALONE, **options}
        return load(pipeline, pipeline.targets[0], [unit()], self.world.lake, self.client, **known)

    def read(self, select: str) -> list:
        return self.world.sql(select)


@pytest.fixture
def service(clickhouse_server, tmp_path, name) -> Service:
    world = World(tmp_path, client_of(clickhouse_server), name)
    world.sql("CREATE DATABASE {db} ENGINE = Atomic")
    world.sql(f"CREATE TABLE {{db}}.clicks ({COLUMNS}) ENGINE = MergeTree PARTITION BY n % 3 ORDER BY n")
    told = Told(family="Shared")
    yield Service(world, SharedClient(world.client._driver, "service", told), told)
    world.sql("DROP DATABASE {db} SYNC")


def test_rows_and_rejected_rows_are_there_once_and_are_replaced(service: Service):
    land(service.world.lake, unit(), [event(n=n) for n in (1, 2, 3)] + [event(n="x")])
    service.load()
    assert service.read("SELECT n FROM {db}.clicks ORDER BY n") == [(1,), (2,), (3,)]
    land(service.world.lake, unit(), [event(n=2), event(n=7), event(n="y")], generation=2)
    service.load(mode="reland")
    assert service.read("SELECT n FROM {db}.clicks ORDER BY n") == [(2,), (7,)]
    rejected = "SELECT value FROM sluice.rejected WHERE target = '{db}.clicks'"
    assert service.read(rejected) == [("y",)]
    assert service.read("SELECT count() FROM sluice.`{db}.clicks`") == [(2,)]


def test_statements_are_those_of_several_servers(service: Service):
    land(service.world.lake, unit(), [event(n=1), event(n="x")])
    service.load()
    land(service.world.lake, unit(), [event(n=2), event(n="y")], generation=2)
    service.load(mode="reland")
    attached = [sql for sql, _ in service.told.writes if "ATTACH" in sql]
    assert all("_copy0`" in sql for sql in attached)  # the rehearsal's own
    settings = [settings for _, settings in service.told.writes]
    synced = {(s["mutations_sync"], s["lightweight_deletes_sync"]) for s in settings}
    assert synced == {(3, 3)}
    assert not any("insert_quorum" in s for s in settings)
    assert all(s["select_sequential_consistency"] == 1 for s in settings)
    counts = [reading for sql, reading in service.told.reads if "count()" in sql and "GROUP BY" in sql]
    assert counts and all(reading["select_sequential_consistency"] == 1 for reading in counts)
    deletions = [sql for sql, _ in service.told.writes if sql.startswith("DELETE FROM")]
    assert len(deletions) >= 2  # of the target's rows and of the rejected ones
    assert all("notEmpty('fence_" in sql for sql in deletions)
    assert service.client.killed


def test_tables_of_an_attempt_that_died_are_dropped_and_its_statements_killed_everywhere(service: Service):
    land(service.world.lake, unit(), [event(n=1)])
    service.load()
    earlier = LoadAttempt(service.pipeline.targets[0].table, 1, 7)
    service.read(f"CREATE TABLE {earlier.fence} (n UInt8) ENGINE = MergeTree ORDER BY n")
    service.load(mode="reload", token="again")
    named = f"SELECT count() FROM system.tables WHERE name = '{earlier.fence_name}'"
    assert service.read(named) == [(0,)]
    assert service.read("SELECT n FROM {db}.clicks") == [(1,)]


@pytest.mark.parametrize("lacks", [{"REMOTE"}, {"CLUSTER"}, {"REMOTE", "CLUSTER"}])
def test_who_cannot_kill_everywhere_is_refused_with_the_grant(service: Service, lacks: set[str]):
    land(service.world.lake, unit(), [event(n=1)])
    service.client.lacks = lacks
    rights = ", ".join(right for right in ("REMOTE", "CLUSTER") if right in lacks)
    with pytest.raises(TargetRefused, match="its engine is SharedMergeTree") as refused:
        service.load()
    assert refused.value.remedy.startswith(f"GRANT {rights} ON *.* TO ")
    assert service.told.writes == []
    checks = clickhouse_checks(service.client, service.pipeline, service.world.lake.url)
    assert [check.remedy for check in checks if check.level == "fail"] == [refused.value.remedy]


def test_so_is_a_server_that_names_no_cluster(service: Service):
    land(service.world.lake, unit(), [event(n=1)])
    service.client.no_cluster = True
    with pytest.raises(TargetRefused, match="the server has no cluster default of all that serve it"):
        service.load()
    assert service.told.writes == []


def test_a_service_is_no_replica_of_a_shard(service: Service):
    land(service.world.lake, unit(), [event(n=1)])
    with pytest.raises(TargetRefused, match="its engine is SharedMergeTree, and shard .* lists replicas"):
        service.load(others=())


def test_views_and_their_merging_tables_follow(service: Service):
    columns, engine = f"total UInt64, {KEYS}", "SummingMergeTree ORDER BY (_slice, _cluster)"
    service.read(f"CREATE TABLE {{db}}.sums ({columns}) ENGINE = {engine}")
    service.read(
        "CREATE MATERIALIZED VIEW {db}.v TO {db}.sums AS "
        "SELECT sum(n) AS total, _slice, _cluster FROM {db}.clicks GROUP BY ALL"
    )
    land(service.world.lake, unit(), [event(n=n) for n in (1, 2, 3)])
    service.load()
    service.load(mode="reload", token="again")
    assert service.read("SELECT sum(total) FROM {db}.sums") == [(6,)]


def test_the_newest_rows_follow_their_log_and_contents_are_compared(service: Service, tmp_path, name):
    newest = Newest(World(tmp_path / "newest", service.client, f"{name}_newest"))
    try:
        newest.create()
        for changes in ([Change(1, "a", 1), Change(2, "c", 1)], [Change(1, "b", 2), Change(2, "d", 3, True)]):
            newest.land(unit(), changes)
            newest.fill(unit(), mode="reland")
            assert newest.seen() == newest.expected()
        assert newest.differing() == newest.wrong() == []
        newest.world.sql("ALTER TABLE {db}.customer UPDATE name = 'x' WHERE 1 SETTINGS mutations_sync = 2")
        assert len(newest.differing()) == 1
    finally:
        newest.world.sql("DROP DATABASE IF EXISTS {db} SYNC")


def test_whichever_server_answers_the_table_is_the_same(service: Service):
    one, other = (identify_table(service.client, service.pipeline.targets[0]) for _ in range(2))
    assert one is not None and one == other and one.table[:2] == ("", "")
    assert identify_table(service.world.client, service.pipeline.targets[0]) != one


def test_what_another_server_has_is_seen(start_clickhouse_server):
    """Two servers, of which the one that is asked names the other as the cluster."""
    local = "<networks><ip>127.0.0.1</ip></networks>"
    nobody = f"<default><password/><profile>default</profile>{local}</default>"
    users = f"<clickhouse><profiles><default/></profiles><users>{nobody}</users></clickhouse>"
    there = start_clickhouse_server(tcp=True, users=users)
    node = f"<replica><host>127.0.0.1</host><port>{there.tcp_port}</port></replica>"
    cluster = f"<remote_servers><default><shard>{node}</shard></default></remote_servers>"
    here = start_clickhouse_server(users=users, config=f"<clickhouse>{cluster}</clickhouse>")
    client, other = client_of(here), client_of(there)
    attempt = LoadAttempt("shop.clicks", 1, 1)
    assert left_by(client, attempt.target, ON_ALL) == []
    other.run("CREATE DATABASE sluice")
    other.run(f"CREATE TABLE {attempt.fence} (n UInt8) ENGINE = MergeTree ORDER BY n")
    query_id = attempt.query_id("move", 5)
    slow = "SELECT sleepEachRow(0.1) FROM numbers(3000) SETTINGS max_block_size = 1 FORMAT Null"
    thread = threading.Thread(target=suppressed(other.run), args=(slow, None, {"query_id": query_id}))
    thread.start()
    deadline = time.monotonic() + 20
    while left_by(client, attempt.target, ON_ALL) != [attempt.fence_name, query_id]:
        assert time.monotonic() < deadline
    fence_off(client_of(there), attempt.target, lambda: None)
    thread.join()
    assert left_by(client, attempt.target, ON_ALL) == []


def suppressed(run: Any) -> Any:
    def quiet(*arguments: Any) -> None:
        with suppress(ServerError):
            run(*arguments)

    return quiet
