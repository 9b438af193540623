"""DEFAULTs of containers, Nullable and EPHEMERAL columns that use other columns: of an event that lacks the
field they are what ClickHouse computes from the event's values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.errors import TargetRefused
from tests.integration.casts.test_load_ephemeral import world
from tests.integration.landed import Event, World, land, unit
from tests.integration.verify.test_contents import compared, told
from tests.support.long_form import per_commit
from tests.support.shards_world import made, shards

pytestmark = pytest.mark.integration

__all__ = ("world",)

KEYS = (
    "_slice DateTime('UTC'), _cluster LowCardinality(String), _offset Int64, _key Nullable(String) DEFAULT s"
)
COLUMNS = (
    "n UInt8, s String DEFAULT toString(n), list Array(String) DEFAULT [s, concat(s, '!')], "
    "m Map(String, UInt8) DEFAULT map(s, n), z Nullable(Int64) DEFAULT n + length(list), "
    "tu Tuple(a UInt8, b String) DEFAULT (n, s), e String EPHEMERAL toString(n * 2), "
    "x String DEFAULT concat(e, 'e'), o Array(Tuple(k String)) DEFAULT [tuple(s)], "
    "`sluice_given list` UInt8 DEFAULT 3, q Array(UInt8) DEFAULT [intDiv(12, n)], "
    "`sluice_missing q` String, `list (given)` String, `sluice1_key` String"
)
STORED = "n, s, list, m, z, toString(tu), x, toString(o), `sluice_given list`, q"
EVENTS: list[dict[str, Any]] = [
    {"n": 1},
    {"n": 2, "s": "own"},
    {"n": 3, "list": ["a"], "m": {"k": 9}, "z": 7, "tu": {"a": 4, "b": "t"}, "e": "ee", "o": [], "q": []},
    {"n": 4, "list": None, "m": None, "z": None, "tu": None, "e": None, "o": None, "q": None},
    {"n": 5, "list": [], "m": {}, "e": "", "o": [{"k": "y"}], "x": "own"},
    {"n": 8, "q": [1]},
    {"n": 0},
    {"n": 6, "list": [[]], "m": 5},
    {"n": 7, "tu": {"a": 1}},
    {"n": "x"},
]
REJECTED_ROWS = {6: "q", 7: "m", 8: "tu.b", 9: "n"}


def row(event: dict[str, Any]) -> tuple[Any, ...]:
    """What the table has to hold of an event."""
    n = event["n"]
    s = event.get("s", str(n))
    given = {name: value for name, value in event.items() if value is not None}
    listed = given.get("list", [s, s + "!"])
    z = event["z"] if "z" in event else n + len(listed)
    tu = given.get("tu", {"a": n, "b": s})
    x = given.get("x", given.get("e", str(2 * n)) + "e")
    o = [item["k"] for item in given.get("o", [{"k": s}])]
    shown = "[" + ",".join(f"('{k}')" for k in o) + "]"
    q = given["q"] if "q" in given else [12 // n]
    return n, s, listed, given.get("m", {s: n}), z, f"({tu['a']},'{tu['b']}')", x, shown, 3, q


WANTED = {place: row(event) for place, event in enumerate(EVENTS) if place not in REJECTED_ROWS}


def events() -> list[Event]:
    return [Event("click", json.dumps({"type": "click", **fields})) for fields in EVENTS]


def rows(found: list[tuple]) -> dict[int, tuple]:
    return {one[0]: tuple(one[1:]) for one in found}


@pytest.mark.long
@pytest.mark.parametrize("read", per_commit(["pull", "push"]))
def test_a_missing_field_takes_what_the_server_computes(world: World, read: str):
    world.sql(f"CREATE TABLE {{db}}.t ({COLUMNS}, {KEYS}) ENGINE = MergeTree ORDER BY _offset")
    world.sql(
        "CREATE MATERIALIZED VIEW {db}.seen ENGINE = MergeTree ORDER BY _offset AS "
        "SELECT list, z, _offset, _slice, _cluster FROM {db}.t"
    )
    land(world.lake, unit(), events())
    pipeline = world.pipeline({"click": {"table": "t"}}, clickhouse={"read": read})
    for mode in ("fill", "reload"):
        world.load(pipeline, unit(), mode=mode)
        assert rows(world.sql(f"SELECT _offset, {STORED} FROM {{db}}.t")) == WANTED
        seen = rows(world.sql("SELECT _offset, list, z FROM {db}.seen"))
        assert seen == {place: (one[2], one[4]) for place, one in WANTED.items()}
        rejected_rows = world.sql("SELECT offset, column FROM sluice.rejected WHERE target = '{db}.t'")
        assert dict(rejected_rows) == REJECTED_ROWS
    keys = dict(world.sql("SELECT _offset, _key FROM {db}.t"))
    assert keys == {at: WANTED[at][1] if at % 2 else f"k{at}" for at in WANTED}
    assert told(compared(world, pipeline)) == []
    world.sql("ALTER TABLE {db}.t UPDATE list = [] WHERE _offset = 0 SETTINGS mutations_sync = 2")
    [(*_, seen)] = told(compared(world, pipeline))
    assert seen == "6 rows, other values in list"


@pytest.mark.parametrize("by", ["partition", "length(list)"])
@pytest.mark.long
def test_each_shard_computes_the_same(clickhouse_servers, tmp_path, name: str, monkeypatch, by: str):
    two = made(tmp_path, name, clickhouse_servers, monkeypatch)
    two.everywhere(f"CREATE TABLE {{db}}.t ({COLUMNS}, {KEYS}) ENGINE = MergeTree ORDER BY _offset")
    land(two.world.lake, unit(), events(), partitions=2)
    pipeline = two.world.pipeline({"click": "t"}, clickhouse=shards("s1", "s2", shard_by=by))
    two.load(pipeline, unit())
    found = [sorted(map(tuple, rows)) for rows in two.everywhere(f"SELECT {STORED} FROM {{db}}.t")]
    place = {"partition": lambda at, one: at % 2, "length(list)": lambda at, one: len(one[2]) % 2}[by]
    wanted = [sorted(one for at, one in WANTED.items() if place(at, one) == shard) for shard in (0, 1)]
    assert found == wanted


def test_a_column_of_a_nested_is_refused(world: World):
    world.sql(
        f"CREATE TABLE {{db}}.t (s String, n Nested(a UInt8, b String), {KEYS}) ENGINE = MergeTree ORDER BY s"
    )
    world.sql("ALTER TABLE {db}.t MODIFY COLUMN `n.b` Array(String) DEFAULT [s]")
    land(world.lake, unit(), [Event("click", "{}")])
    with pytest.raises(TargetRefused, match=r"DEFAULT of column n\.b .* depends on other columns"):
        world.load(world.pipeline({"click": {"table": "t"}}), unit())


# Columns, and of each event what the table has, or the column of the rejected row.
CHAINS: dict[str, tuple[str, list[tuple[dict[str, Any], Any]]]] = {
    "scalars": (
        "v Int64, c Int64 DEFAULT intDiv(12, b), b Int64 DEFAULT intDiv(12, v)",
        [({"v": 2}, (2, 2, 6)), ({"v": 5, "b": 0}, "c"), ({"v": 3, "b": 4}, (3, 3, 4))],
    ),
    "nullable": (
        "v Int64, z Nullable(Int64) DEFAULT v + 1, c Int64 DEFAULT intDiv(12, z), "
        "l Array(LowCardinality(String)) DEFAULT [toString(v)], d Dynamic DEFAULT v, "
        "r Variant(Int64, String) DEFAULT v",
        [
            ({"v": 2}, (2, 3, 4, ["2"], 2, 2)),
            ({"v": 2, "z": 6, "l": ["x"], "d": "y", "r": "z"}, (2, 6, 2, ["x"], "y", "z")),
            ({"v": -1}, "c"),
            ({"v": 7, "z": None}, "c"),
        ],
    ),
}


@pytest.mark.parametrize("case", CHAINS)
@pytest.mark.long
def test_a_default_that_fails_for_a_blank_value_of_another(world: World, case: str):
    columns, events = CHAINS[case]
    world.sql(
        f"CREATE TABLE {{db}}.t ({columns}, _slice DateTime('UTC'), _cluster LowCardinality(String), "
        "_offset Int64) ENGINE = MergeTree ORDER BY _offset"
    )
    land(world.lake, unit(), [Event("click", json.dumps(fields)) for fields, _ in events])
    world.load(world.pipeline({"click": "t"}), unit())
    found = rows(world.sql("SELECT _offset, * EXCEPT (_slice, _cluster, _offset) FROM {db}.t"))
    found |= dict(world.sql("SELECT offset, column FROM sluice.rejected WHERE target = '{db}.t'"))
    assert found == {place: wanted for place, (_, wanted) in enumerate(events)}
