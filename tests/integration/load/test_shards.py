"""A target on two shards: every row is on exactly one of them, whatever happens in between."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from datetime import timedelta

import pytest

from local.readiness import free_port
from local.versions import ROOT
from sluice.clients.clickhouse.shards import connect_shards
from sluice.config.pipeline import Pipeline
from sluice.crash_points import TableLoad
from sluice.errors import ShardsRefused, ShardsWait, WrongUse
from sluice.flow.load.fencing import stagings
from sluice.flow.verify.facts import LeftRows
from sluice.flow.verify.read_tables import read_left
from sluice.state.lease import Lease
from sluice.state.shard_ledgers import ledgers_by_shard, ledgers_of
from tests.integration.landed import client_of, event, land, unit
from tests.support.long_form import per_commit
from tests.support.shards_world import Shards, connection, made, point_at, shards

pytestmark = pytest.mark.integration

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
RECORD = f"_partition Int32, _offset Int64, {KEYS}"


@pytest.fixture
def two(clickhouse_servers, tmp_path, name, monkeypatch) -> Shards:
    return made(tmp_path, name, clickhouse_servers, monkeypatch)


def make(two: Shards, columns: str = "n UInt16", more: str = "ORDER BY tuple()") -> None:
    two.everywhere(f"CREATE TABLE {{db}}.clicks ({columns}, {RECORD}) ENGINE = MergeTree {more}")


def numbers(two: Shards) -> list[list[int]]:
    return [[n for (n,) in rows] for rows in two.everywhere("SELECT n FROM {db}.clicks ORDER BY n")]


@pytest.mark.parametrize("read", per_commit(["pull", "push"]))
def test_rows_go_by_their_kafka_partition(two: Shards, read: str):
    make(two)
    pipeline = two.world.pipeline({"click": "clicks"}, clickhouse=shards("s1", "s2", read=read))
    land(two.world.lake, unit(), [event(n=n) for n in range(9)], partitions=3)
    land(two.world.lake, unit(1), [event(n=9), event(n="x"), event(n=11)], partitions=3)
    assert two.load(pipeline, unit(), unit(1)).summary() == {
        "loaded": 2,
        "skipped": 0,
        "rows": 11,
        "rejected_rows": 1,
    }
    assert numbers(two) == [[0, 2, 3, 5, 6, 8, 9, 11], [1, 4, 7]]
    rejected = "SELECT count() FROM sluice.rejected WHERE target = '{db}.clicks'"
    assert two.everywhere(rejected) == [[(0,)], [(1,)]]
    assert two.load(pipeline, unit(), unit(1)).summary()["loaded"] == 0


def test_rows_go_by_an_expression_over_their_columns(two: Shards):
    """Whoever computes the DEFAULT: a row is where the expression over the stored row says."""
    make(two, "n UInt16, user Nullable(UInt32), region String DEFAULT concat('r', toString(n % 4))")
    by = "cityHash64(region) + user"
    pipeline = two.world.pipeline({"click": "clicks"}, clickhouse=shards("s1", "s2", shard_by=by))
    events = [event(n=n, user=None if n % 5 == 0 else n) for n in range(40)]
    events += [event(n=40, user=1, region="x"), event(n="bad"), event(n=70000)]
    land(two.world.lake, unit(), events, partitions=3)
    assert two.load(pipeline, unit()).summary() == {"loaded": 1, "skipped": 0, "rows": 41, "rejected_rows": 2}
    one, other = numbers(two)
    assert sorted(one + other) == list(range(41))
    assert set(range(0, 40, 5)) <= set(one)  # NULL is shard 0
    query = f"SELECT DISTINCT ifNull(({by}) % 2, 0) FROM {{db}}.clicks"
    assert two.everywhere(query) == [[(0,)], [(1,)]]
    # offsets 41 and 42 are in partitions 2 and 0: both are the first shard's
    rejected = "SELECT partition FROM sluice.rejected WHERE target = '{db}.clicks' ORDER BY partition"
    assert two.everywhere(rejected) == [[(0,), (2,)], []]


def test_a_shard_that_is_down_is_named_and_catches_up(two: Shards, monkeypatch):
    make(two)
    pipeline = two.world.pipeline({"click": "clicks"}, clickhouse=shards("s1", "s2"))
    land(two.world.lake, unit(), [event(n=n) for n in range(8)], partitions=4)
    point_at(monkeypatch, "s2", free_port())
    with pytest.raises(ShardsWait, match="shard s2: ClickHouse does not answer.*loaded on s1") as raised:
        two.load(pipeline, unit())
    assert (raised.value.exit_code, raised.value.retryable) == (3, True)
    assert numbers(two) == [[0, 2, 4, 6], []]
    with connect_shards(pipeline) as servers:
        row = ledgers_of(servers, pipeline, two.world.lake.url)[pipeline.targets[0].table][unit()]
    assert (row.lacking, row.rows, row.manifest) == (("s2",), 4, "")
    point_at(monkeypatch, "s2", two.servers[1].port)
    assert two.load(pipeline, unit()).summary() == {"loaded": 1, "skipped": 0, "rows": 8, "rejected_rows": 0}
    assert numbers(two) == [[0, 2, 4, 6], [1, 3, 5, 7]]


@pytest.mark.long
def test_a_distributed_table_sees_each_row_once(start_clickhouse_server, two: Shards):
    make(two)
    pipeline = two.world.pipeline({"click": "clicks"}, clickhouse=shards("s1", "s2"))
    land(two.world.lake, unit(), [event(n=n) for n in range(50)], partitions=7)
    two.load(pipeline, unit())
    nodes = "".join(
        f"<shard><replica><host>127.0.0.1</host><port>{server.tcp_port}</port>"
        f"<user>{server.user}</user><password>{server.password}</password></replica></shard>"
        for server in two.servers
    )
    config = f"<clickhouse><remote_servers><two>{nodes}</two></remote_servers></clickhouse>"
    reader = client_of(start_clickhouse_server(config=config))
    database = two.world.database
    reader.run("CREATE DATABASE d ENGINE = Atomic")
    reader.run(f"CREATE TABLE d.clicks (n UInt16) ENGINE = Distributed(two, {database}, clicks)")
    assert [n for (n,) in reader.rows("SELECT n FROM d.clicks ORDER BY n")] == list(range(50))


@pytest.mark.parametrize("mode", per_commit(["fill", "reload"]))
def test_another_list_of_shards_leaves_each_row_once(two: Shards, mode: str):
    make(two)
    spec = {"click": "clicks"}
    land(two.world.lake, unit(), [event(n=n) for n in range(12)], partitions=4)
    alone = two.world.pipeline(spec, clickhouse={"connection": connection("s1")})
    assert two.load(alone, unit()).summary()["rows"] == 12
    both = two.world.pipeline(spec, clickhouse=shards("s1", "s2"))
    assert two.load(both, unit(), mode=mode).summary()["loaded"] == 1
    assert numbers(two) == [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 11]]
    turned = two.world.pipeline(spec, clickhouse=shards("s2", "s1"))
    two.load(turned, unit(), mode=mode)
    assert numbers(two) == [[1, 3, 5, 7, 9, 11], [0, 2, 4, 6, 8, 10]]
    by_number = two.world.pipeline(spec, clickhouse=shards("s1", "s2", shard_by="intDiv(n, 6)"))
    two.load(by_number, unit(), mode=mode)
    assert numbers(two) == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    assert two.load(by_number, unit()).summary()["loaded"] == 0
    last = two.world.pipeline(spec, clickhouse=shards("s1"))
    assert two.load(last, unit(), mode=mode).summary()["rows"] == 12
    with connect_shards(last) as servers:
        ledgers = ledgers_of(servers, last, two.world.lake.url)
        left = list(read_left(servers, last, two.world.lake, ledgers, lambda line: None))
    assert left == [LeftRows("s2", connection("s2"), pipeline_table(last), 6)]


@pytest.mark.long
def test_the_leases_keep_their_names_when_the_shards_change_theirs(two: Shards):
    """So that a run with the old list and one with the new never work on one server at a time."""
    make(two)
    land(two.world.lake, unit(), [event(n=1)])
    spec = {"click": "clicks"}
    alone = two.world.pipeline(spec, clickhouse={"connection": connection("s1"), "lease": "2s"})
    two.load(alone, unit())
    both = two.world.pipeline(spec, clickhouse=shards("s1", "s2", lease="2s"))
    two.load(both, unit())
    table, second = pipeline_table(both), timedelta(seconds=1)
    leases = sorted(item.key for item in two.world.lake.list("_leases/"))
    assert leases == [f"_leases/{table}.json", f"_leases/{table}@s2.json"]
    with Lease.acquire(two.world.lake, table, "old", timedelta(seconds=30), second):
        with pytest.raises(ShardsWait, match=f"shard s1: table {table} is being loaded"):
            two.load(both, unit(), mode="reload", patience=second)


def test_two_shards_on_one_server_are_refused(two: Shards, monkeypatch):
    make(two)
    land(two.world.lake, unit(), [event(n=1)])
    pipeline = two.world.pipeline({"click": "clicks"}, clickhouse=shards("s1", "s2"))
    point_at(monkeypatch, "s2", two.servers[0].port)
    with pytest.raises(WrongUse, match="s1 and s2: their connections lead to the same server"):
        two.load(pipeline, unit())
    assert numbers(two) == [[], []]


@pytest.mark.parametrize(
    ("by", "words"),
    per_commit(
        [
            ("customer", "shard_by: customer`.*Unknown expression"),
            ("toString(n)", "gives String, not a whole number"),
            ("toDate(_slice)", "gives Date"),
        ]
    ),
)
def test_an_expression_that_places_nothing_is_refused(two: Shards, by: str, words: str):
    make(two)
    land(two.world.lake, unit(), [event(n=1)])
    pipeline = two.world.pipeline({"click": "clicks"}, clickhouse=shards("s1", "s2", shard_by=by))
    with pytest.raises(ShardsRefused, match=words):
        two.load(pipeline, unit())


def pipeline_table(pipeline: Pipeline) -> str:
    return pipeline.targets[0].table


@pytest.mark.parametrize(
    "step", per_commit([TableLoad.MOVED, TableLoad.STAGED, TableLoad.DELETED, TableLoad.COUNTED])
)
def test_killed_between_two_shards_commits(two: Shards, step: TableLoad):
    """Whatever is left on the shard that had not committed, the next run leaves each row once."""
    make(two, more="PARTITION BY toDate(_slice) ORDER BY tuple()")
    pipeline = two.world.pipeline({"click": "clicks"}, clickhouse=shards("s1", "s2", lease="1s"))
    land(two.world.lake, unit(), [event(n=n) for n in range(10)], partitions=2)
    two.load(pipeline, unit())
    land(two.world.lake, unit(), [event(n=n) for n in range(100, 110)], generation=2, partitions=2)
    file = two.world.root / "pipeline.pickle"
    file.write_bytes(pickle.dumps(pipeline))
    order = [sys.executable, "-m", "tests.support.shards_killed", str(file), str(two.world.root), step]
    killed = subprocess.run(order, cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL
    old, new = [1, 3, 5, 7, 9], [101, 103, 105, 107, 109]
    left = {TableLoad.STAGED: old, TableLoad.DELETED: []}.get(step, new)
    assert numbers(two) == [[100, 102, 104, 106, 108], left]
    with connect_shards(pipeline) as servers:
        held = ledgers_by_shard(servers, pipeline, two.world.lake.url)[pipeline_table(pipeline)]
    # The old commit of the second shard stands until it is revoked, before anything is deleted.
    assert [unit() in held[name] for name in ("s1", "s2")] == [True, step is TableLoad.STAGED]
    assert two.load(pipeline, unit()).summary()["loaded"] == 1
    assert numbers(two) == [[100, 102, 104, 106, 108], new]
    own = stagings(pipeline_table(pipeline))
    left = f"SELECT name FROM system.tables WHERE database = 'sluice' AND startsWith(name, '{own}')"
    assert two.everywhere(left) == [[], []]
