"""A DEFAULT that fails for a row: that row is a rejected row which names the column, and everything else
loads."""

from __future__ import annotations

import json
from itertools import product

import pytest

from sluice.config.pipeline import Pipeline
from sluice.errors import TargetRefused
from sluice.flow.load import failing_defaults
from sluice.flow.load.fencing import digest
from tests.integration.landed import Event, World, client_of, land, unit
from tests.integration.verify.test_contents import compared, told
from tests.support.long_form import per_commit
from tests.support.shards_world import made, shards

pytestmark = pytest.mark.integration

KEYS = (
    "_slice DateTime('UTC'), _cluster LowCardinality(String), _topic String, _partition Int32, _offset Int64"
)
# Column, type and DEFAULT; values for which it fails, and one for which it gives what stands behind it.
DEFAULTS = {
    "null": ("v Nullable(Int64), b Int64 DEFAULT v + 1", [{"v": None}, {}], {"v": 4}, 5),
    "division": ("v Int64, b Int64 DEFAULT intDiv(12, v)", [{"v": 0}, {}], {"v": 5}, 2),
    "text": ("v String, b Date DEFAULT toDate(v)", [{"v": "x"}, {"v": "2024"}], {"v": "1970-01-03"}, 2),
    "materialized": ("v Int64, b Int64 MATERIALIZED intDiv(12, v)", [{"v": 0}, {}], {"v": 6}, 2),
    "nested": (
        "v Int64, c Int64 DEFAULT b * 2, b Int64 DEFAULT intDiv(12, v), d Int64 DEFAULT c + b",
        [{"v": 0}, {"v": 0, "d": 1}],
        {"v": 6},
        2,
    ),
}


@pytest.fixture
def world(name, tmp_path, clickhouse_server, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    client = client_of(clickhouse_server)
    client.run(f"CREATE DATABASE {name}")
    yield World(tmp_path, client, name)
    client.run(f"DROP DATABASE {name} SYNC")


def create(world: World, columns: str) -> Pipeline:
    world.sql(f"CREATE TABLE {{db}}.t (n Int64, {columns}, {KEYS}) ENGINE = MergeTree ORDER BY _offset")
    world.sql(
        "CREATE MATERIALIZED VIEW {db}.seen ENGINE = MergeTree ORDER BY n AS "
        "SELECT n, toInt64(b) AS b, _slice, _cluster FROM {db}.t"
    )
    return world.pipeline({"click": {"table": "t"}})


def rejected_rows(world: World) -> list[tuple]:
    return [
        tuple(row)
        for row in world.sql(
            "SELECT toHour(slice) AS hour, offset, column, payload FROM sluice.rejected "
            "WHERE target = '{db}.t' ORDER BY hour, offset"
        )
    ]


@pytest.mark.long
@pytest.mark.parametrize(("case", "read"), per_commit(product(reversed(DEFAULTS), ["pull", "push"])))
def test_such_rows_are_rejected_rows_and_all_others_load(world: World, case: str, read: str):
    columns, failing, fitting, value = DEFAULTS[case]
    create(world, columns)
    pipeline = world.pipeline({"click": {"table": "t"}}, clickhouse={"read": read})
    bad = {7: failing[0], 8: failing[1], 61: failing[0], 99: failing[1]}
    texts = [json.dumps({"type": "click", "n": n, **bad.get(n, fitting)}) for n in range(100)]
    texts[50] = json.dumps({"type": "click", "n": "fifty", **fitting})  # a usual rejected row
    land(world.lake, unit(), [Event("click", text) for text in texts])
    land(world.lake, unit(1), [Event("click", text, "2026-11-20T11") for text in texts[:7]])
    rows = [(n, value) for n in range(100) if n not in {*bad, 50}]
    wanted = sorted(rows + [(n, value) for n in range(7)])
    rejected = [(10, n, "n" if n == 50 else "b", texts[n]) for n in sorted({*bad, 50})]
    for mode in ("fill", "reload"):
        assert world.load(pipeline, unit(), unit(1), mode=mode).summary()["rejected_rows"] == 5
        assert [tuple(row) for row in world.sql("SELECT n, toInt64(b) FROM {db}.t ORDER BY n")] == wanted
        assert [tuple(row) for row in world.sql("SELECT n, b FROM {db}.seen ORDER BY n")] == wanted
        assert rejected_rows(world) == rejected
    assert told(compared(world, pipeline, unit(), unit(1))) == []
    mark = digest(f"{world.database}.t")
    left = f"SELECT name FROM system.tables WHERE database = 'sluice' AND name LIKE '%{mark}%'"
    assert world.client.rows(left) == []


def test_the_reason_names_default_and_error(world: World):
    pipeline = create(world, DEFAULTS["null"][0])
    land(world.lake, unit(), [Event("click", '{"n": 1, "v": null}')])
    world.load(pipeline, unit())
    [(reason,)] = world.sql("SELECT reason FROM sluice.rejected WHERE target = '{db}.t'")
    assert reason.startswith("does not fit Int64 DEFAULT v + 1: Cannot convert NULL value")


# DEFAULTs that read a column behind them, also by an ALIAS; events, and the column that is at fault, if any.
BEHIND = {
    "later": (
        "v Int64, c Int64 DEFAULT intDiv(12, b), b Int64 DEFAULT intDiv(12, v)",
        [({"v": 0}, "b"), ({"v": 13}, "c"), ({"v": 2}, ""), ({"v": 0, "b": 0}, "c")],
    ),
    "alias": (
        "v Int64, c Int64 MATERIALIZED intDiv(12, a), a Int64 ALIAS b + 0, "
        "m Int64 MATERIALIZED intDiv(6, b), b Int64 DEFAULT intDiv(12, v)",
        [({"v": 0}, "b"), ({"v": 2}, ""), ({"v": 0, "b": 1}, "")],
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("case", BEHIND)
def test_the_column_at_fault_is_named_wherever_it_stands(world: World, case: str):
    columns, events = BEHIND[case]
    pipeline = create(world, columns)
    texts = [json.dumps({"n": n, **fields}) for n, (fields, _) in enumerate(events)]
    land(world.lake, unit(), [Event("click", text) for text in texts])
    world.load(pipeline, unit())
    wanted = [(10, n, column, texts[n]) for n, (_, column) in enumerate(events) if column]
    assert rejected_rows(world) == wanted
    loaded = [(n,) for n, (_, column) in enumerate(events) if not column]
    assert [tuple(row) for row in world.sql("SELECT n FROM {db}.t ORDER BY n")] == loaded


@pytest.mark.long
def test_more_than_a_run_looks_for_end_it_and_destroy_nothing(world: World, monkeypatch):
    pipeline = create(world, DEFAULTS["division"][0])
    land(world.lake, unit(), [Event("click", '{"n": 1, "v": 3}')])
    world.load(pipeline, unit())
    land(world.lake, unit(1), [Event("click", '{"n": 2, "v": 2}')])
    land(world.lake, unit(2), [Event("click", '{"n": 3, "v": 1}'), Event("click", "{}")])
    events = [Event("click", json.dumps({"n": n, "v": n % 3})) for n in range(30)]
    land(world.lake, unit(), events, generation=2)
    monkeypatch.setattr(failing_defaults, "MOST", 5)
    said = (
        r"the DEFAULT intDiv\(12, v\) of column b fails for more than 5 rows of slice 2026-11-20T10Z/dc1, "
        r"first for dc1/events/0 offset 0: Division by zero.*; .*: "
        r"ALTER TABLE .* MODIFY COLUMN `b` Int64 DEFAULT <expression>$"
    )
    with pytest.raises(TargetRefused, match=said):
        world.load(pipeline, unit(), unit(1), unit(2))
    for table in ("t", "seen"):  # what was there, and the other slices
        assert world.sql(f"SELECT n, b FROM {{db}}.{table} ORDER BY n") == [(1, 4), (2, 6), (3, 12)]
    assert rejected_rows(world) == [(12, 1, "b", "{}")]
    monkeypatch.setattr(failing_defaults, "MOST", 10)
    assert world.load(pipeline, unit(), unit(1), unit(2)).summary()["rejected_rows"] == 10
    wanted = sorted([(n, 12 // (n % 3)) for n in range(30) if n % 3] + [(2, 6), (3, 12)])
    assert [tuple(row) for row in world.sql("SELECT n, b FROM {db}.t ORDER BY n")] == wanted


@pytest.mark.parametrize("by", per_commit(["partition", "b"]))
def test_each_shard_finds_its_own(clickhouse_servers, tmp_path, name: str, monkeypatch, by: str):
    two = made(tmp_path, name, clickhouse_servers, monkeypatch)
    columns = f"n Int64, {DEFAULTS['division'][0]}, {KEYS}"
    two.everywhere(f"CREATE TABLE {{db}}.t ({columns}) ENGINE = MergeTree ORDER BY _offset")
    events = [Event("click", json.dumps({"n": n, "v": n % 4})) for n in range(20)]
    land(two.world.lake, unit(), events, partitions=2)
    pipeline = two.world.pipeline({"click": "t"}, clickhouse=shards("s1", "s2", shard_by=by))
    assert two.load(pipeline, unit()).summary() == {"loaded": 1, "skipped": 0, "rows": 15, "rejected_rows": 5}
    found = [sorted(n for (n,) in rows) for rows in two.everywhere("SELECT n FROM {db}.t")]
    fitting = [n for n in range(20) if n % 4]
    place = {"partition": lambda n: n % 2, "b": lambda n: 12 // (n % 4) % 2}[by]
    assert found == [[n for n in fitting if place(n) == shard] for shard in (0, 1)]
    rejected = two.everywhere("SELECT payload FROM sluice.rejected WHERE target = '{db}.t'")
    assert sorted(json.loads(text)["n"] for rows in rejected for (text,) in rows) == [0, 4, 8, 12, 16]
