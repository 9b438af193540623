"""EPHEMERAL columns, which an INSERT takes and a table does not store: the DEFAULTs that read them are of the
event's values."""

from __future__ import annotations

import json

import pytest

from sluice.config.pipeline import Pipeline
from sluice.errors import TargetRefused
from tests.integration.landed import Event, World, client_of, land, unit
from tests.integration.verify.test_contents import compared, told
from tests.support.shards_world import made, shards

pytestmark = pytest.mark.integration

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String), _offset Int64"
COLUMNS = (
    "raw String EPHEMERAL, length UInt64 DEFAULT length(raw), upper String DEFAULT upper(raw), "
    "v Nullable(Int64) EPHEMERAL 7, next Int64 DEFAULT ifNull(v, -1) + 1, "
    "small UInt8 EPHEMERAL 5, twice UInt16 DEFAULT small * 2, "
    "list Array(UInt8) EPHEMERAL [9], sum UInt64 DEFAULT arraySum(list), "
    "_payload String EPHEMERAL, bytes UInt64 DEFAULT length(_payload), "
    "_key String EPHEMERAL 'none', by String DEFAULT upper(_key)"
)
STORED = "length, upper, next, twice, sum, bytes, by"
EVENTS = [
    {"raw": "rrr", "v": 41, "small": 8, "list": [1, 2]},
    {},
    {"raw": None, "v": None, "small": None, "list": None},
    {"raw": "é", "v": 0, "small": 256},
    {"raw": "a", "length": 50, "upper": "own", "next": -3, "small": 0, "list": []},
]


def payloads() -> list[str]:
    return [json.dumps({"type": "click", **fields}, ensure_ascii=False) for fields in EVENTS]


def wanted() -> dict[int, tuple]:
    """What JSONEachRow would give, worked out by hand; the event at place 3 does not fit UInt8."""
    size = [len(text.encode()) for text in payloads()]
    return {
        0: (3, "RRR", 42, 16, 3, size[0], "K0"),
        1: (0, "", 8, 10, 9, size[1], "NONE"),
        2: (0, "", 0, 10, 9, size[2], "K2"),
        4: (50, "own", -3, 0, 0, size[4], "K4"),
    }


def create(world: World, columns: str = COLUMNS) -> Pipeline:
    world.sql(f"CREATE TABLE {{db}}.t ({columns}, {KEYS}) ENGINE = MergeTree ORDER BY _offset")
    return world.pipeline({"click": {"table": "t"}})


def rows(world: World) -> dict[int, tuple]:
    return {row[0]: tuple(row[1:]) for row in world.sql(f"SELECT _offset, {STORED} FROM {{db}}.t")}


@pytest.fixture
def world(name, tmp_path, clickhouse_server, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    client = client_of(clickhouse_server)
    client.run(f"CREATE DATABASE {name}")
    yield World(tmp_path, client, name)
    client.run(f"DROP DATABASE {name} SYNC")


@pytest.mark.long
@pytest.mark.parametrize("read", ["pull", "push"])
def test_defaults_read_the_events_values(world: World, read: str):
    create(world)
    land(world.lake, unit(), [Event("click", text) for text in payloads()])
    pipeline = world.pipeline({"click": {"table": "t"}}, clickhouse={"read": read})
    for mode in ("fill", "reload"):
        world.load(pipeline, unit(), mode=mode)
        assert rows(world) == wanted()
    rejected_rows = world.sql("SELECT offset, column, value FROM sluice.rejected WHERE target = '{db}.t'")
    assert [tuple(row) for row in rejected_rows] == [(3, "small", "256")]
    assert told(compared(world, pipeline)) == []
    world.sql("ALTER TABLE {db}.t UPDATE length = 0 WHERE _offset = 0 SETTINGS mutations_sync = 2")
    [(*_, seen)] = told(compared(world, pipeline))
    assert seen == "4 rows, other values in length"


@pytest.mark.long
def test_a_path_leads_to_one(world: World):
    create(world, "raw String EPHEMERAL, length UInt64 DEFAULT length(raw)")
    land(world.lake, unit(), [Event("click", '{"raw": "no", "a": {"b": "three"}}')])
    world.load(world.pipeline({"click": {"table": "t", "columns": {"raw": "a.b"}}}), unit())
    assert world.sql("SELECT length FROM {db}.t") == [(5,)]


@pytest.mark.long
def test_a_default_of_one_may_use_other_columns(world: World):
    pipeline = create(world, "n UInt8, raw String EPHEMERAL toString(n), length UInt64 DEFAULT length(raw)")
    texts = ['{"n": 100}', '{"n": 1, "raw": "four"}', '{"n": 10, "raw": null}']
    land(world.lake, unit(), [Event("click", text) for text in texts])
    world.load(pipeline, unit())
    assert world.sql("SELECT length FROM {db}.t ORDER BY _offset") == [(3,), (4,), (2,)]


def test_a_materialized_column_may_not_read_one(world: World):
    """Replicas and shards compute it a second time, without the event."""
    pipeline = create(
        world, "n UInt8, b UInt8 MATERIALIZED n + 1, raw String EPHEMERAL, c String MATERIALIZED raw"
    )
    land(world.lake, unit(), [Event("click", '{"n": 1}')])
    remedy = "MODIFY COLUMN `c` String DEFAULT raw"
    with pytest.raises(TargetRefused, match=f"column c reads raw, which is EPHEMERAL.*{remedy}"):
        world.load(pipeline, unit())
    world.sql("ALTER TABLE {db}.t MODIFY COLUMN c String DEFAULT raw")
    world.load(pipeline, unit())
    assert world.sql("SELECT n, b, c FROM {db}.t") == [(1, 2, "")]


@pytest.mark.parametrize("by", ["partition", "length"])
@pytest.mark.long
def test_each_shard_computes_the_same(clickhouse_servers, tmp_path, name: str, monkeypatch, by: str):
    two = made(tmp_path, name, clickhouse_servers, monkeypatch)
    two.everywhere(f"CREATE TABLE {{db}}.t ({COLUMNS}, {KEYS}) ENGINE = MergeTree ORDER BY _offset")
    land(two.world.lake, unit(), [Event("click", text) for text in payloads()], partitions=2)
    pipeline = two.world.pipeline({"click": "t"}, clickhouse=shards("s1", "s2", shard_by=by))
    two.load(pipeline, unit())
    found = [sorted(map(tuple, rows)) for rows in two.everywhere(f"SELECT {STORED} FROM {{db}}.t")]
    numbers = {"partition": lambda offset, row: offset % 2, "length": lambda offset, row: row[0] % 2}[by]
    shares = {n: sorted(row for at, row in wanted().items() if numbers(at, row) == n) for n in (0, 1)}
    assert found == [shares[0], shares[1]]
