"""A DEFAULT that would fail is evaluated for rows that lack the field, and for no others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.sql import identifier
from tests.integration.casts.test_load_ephemeral import world
from tests.integration.landed import Event, World, land, unit
from tests.support.long_form import per_commit
from tests.support.shards_world import made, shards

pytestmark = pytest.mark.integration

__all__ = ("world",)

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String), _offset Int64"
# Columns, their engine's keys; of each event the table's row as a text, or the column of the rejected row.
CASES: dict[str, tuple[str, str, list[tuple[dict[str, Any], str]]]] = {
    "scalars": (
        "v Int64, b Int64 DEFAULT intDiv(12, v), q Array(UInt8) DEFAULT [intDiv(12, v)], "
        "z Nullable(Int64) DEFAULT intDiv(12, v), l LowCardinality(String) DEFAULT toString(intDiv(12, v))",
        "ORDER BY _offset",
        [
            ({"v": 0, "b": 5, "q": [1], "z": 2, "l": "x"}, "(0,5,[1],2,'x')"),
            ({"v": 0, "b": 5, "q": [], "z": None, "l": ""}, "(0,5,[],NULL,'')"),
            ({"v": 3}, "(3,4,[4],4,'4')"),
            ({"v": 3, "b": None, "q": None, "z": None, "l": None}, "(3,4,[4],NULL,'4')"),
            ({"v": 0, "q": [2], "z": 1, "l": "x"}, "b"),
            ({"v": 0, "b": 1, "z": 1, "l": "x"}, "q"),
            ({"v": 0, "b": 1, "q": [2], "l": "x"}, "z"),
            ({"v": 0, "b": 1, "q": [2], "z": 1}, "l"),
            ({"v": 0, "b": "x", "q": [2], "z": 1, "l": "x"}, "b"),
        ],
    ),
    "chains": (
        "v Int64, c Int64 DEFAULT intDiv(12, b), b Int64 DEFAULT intDiv(12, v), e Int64 EPHEMERAL v - 1, "
        "x Int64 DEFAULT intDiv(12, e), m Int64 MATERIALIZED intDiv(12, c)",
        "ORDER BY _offset",
        [
            ({"v": 0, "b": 5, "x": 7}, "(0,2,5,7,6)"),
            ({"v": 0, "c": 1, "b": 0, "e": 0, "x": 2}, "(0,1,0,2,12)"),
            ({"v": 2}, "(2,2,6,12,6)"),
            ({"v": 0, "c": 1}, "b"),
            ({"v": 5, "b": 0, "x": 1}, "c"),
            ({"v": 2, "e": 0}, "x"),
            ({"v": 2, "c": 0}, "m"),
        ],
    ),
    "keys": (
        "v String, d Date DEFAULT toDate(v), "
        "h DateTime('UTC') DEFAULT toDateTime(concat(v, ' 00:00:00'), 'UTC') CODEC(Delta, LZ4), "
        "INDEX i h TYPE minmax, CONSTRAINT y CHECK h > 0",
        "PARTITION BY toYYYYMM(d) ORDER BY (d, h) TTL h + INTERVAL 50 YEAR",
        [
            (
                {"v": "x", "d": "2026-02-03", "h": "2026-02-03 01:00:00"},
                "('x','2026-02-03','2026-02-03 01:00:00')",
            ),
            ({"v": "2026-03-04"}, "('2026-03-04','2026-03-04','2026-03-04 00:00:00')"),
            ({"v": "x", "h": "2026-02-03 01:00:00"}, "d"),
            ({"v": "x", "d": "2026-02-03"}, "h"),
        ],
    ),
    "kinds": (
        "v Int64, s LowCardinality(String), a Array(LowCardinality(Nullable(String))), m Map(String, UInt8), "
        "t Tuple(k UInt8), y Dynamic, j JSON, r Variant(Bool, String), n Nullable(Int64), `a b` Int8, "
        "o String DEFAULT concat(s, a[1], toString(m), toString(t), toString(y), toString(j), toString(r), "
        "toString(n), toString(intDiv(12, v))), "
        "w String DEFAULT toString((intDiv(12, v), t.k, j.k, a.size0)), u String DEFAULT toString(`a b`), "
        "f Array(Int64) DEFAULT arrayMap(v -> v + n, [1])",
        "ORDER BY _offset",
        [
            (
                {
                    "v": 6, "s": "s", "a": ["a"], "m": {"k": 1}, "t": {"k": 2}, "y": [1], "j": {"k": 3},
                    "r": True, "n": 4, "a b": 5,
                },
                "(6,'s',['a'],{'k':1},(2),[1],'{\"k\":3}',true,4,5,"
                "'sa{\\'k\\':1}(2)[1]{\"k\":3}true42','(2,2,3,1)','5',[5])",
            ),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("read", per_commit(["pull", "push"]))
@pytest.mark.parametrize("case", per_commit(CASES))
def test_a_default_is_evaluated_where_the_field_is_missing(world: World, case: str, read: str):
    columns, keys, events = CASES[case]
    world.sql(f"CREATE TABLE {{db}}.t ({columns}, {KEYS}) ENGINE = MergeTree {keys}")
    land(world.lake, unit(), [Event("click", json.dumps(fields)) for fields, _ in events])
    pipeline = world.pipeline({"click": "t"}, clickhouse={"read": read})
    stored = (
        "SELECT name FROM system.columns WHERE database = '{db}' AND table = 't' AND name NOT LIKE '\\\\_%'"
    )
    names = [name for (name,) in world.sql(f"{stored} AND default_kind != 'EPHEMERAL' ORDER BY position")]
    shown = ", ".join(f"`{name}`" for name in names)
    for mode in ("fill", "reload"):
        world.load(pipeline, unit(), mode=mode)
        found = dict(world.sql(f"SELECT _offset, toString(({shown})) FROM {{db}}.t"))
        found |= dict(world.sql("SELECT offset, column FROM sluice.rejected WHERE target = '{db}.t'"))
        assert found == {place: wanted for place, (_, wanted) in enumerate(events)}


# Columns that DEFAULTs read, with a value for which these fail, and one for which they give 3.
READ: dict[str, tuple[str, Any, Any]] = {
    "v": ("Int64", 0, 4),
    "z": ("Nullable(Int64)", 0, 4),
    "s": ("LowCardinality(String)", "x", "4"),
    "a": ("Array(Int64)", [0], [4]),
    "m": ("Map(String, Int64)", {"k": 0}, {"k": 4}),
    "t": ("Tuple(k Int64, u Tuple(w Int64))", {"k": 0, "u": {"w": 0}}, {"k": 4, "u": {"w": 4}}),
    "j": ("JSON", {"k": 0, "o": {"w": 0}}, {"k": 4, "o": {"w": 4}}),
    "y": ("Dynamic", 0, 4),
    "r": ("Variant(Bool, Int64)", 0, 4),
    "e": ("Int64 EPHEMERAL 4", 0, 4),
    "a b": ("Int64", 0, 4),
    "q`\"'b": ("Int64", 0, 4),
    "o.o": ("Array(Int64)", [0], [4]),
}
UNREAD = "f Int64 ALIAS intDiv(12, v), g Int64 ALIAS v + 0, h Int64 MATERIALIZED v + 0"
# Columns with a DEFAULT: type, expression, what an event gives, how that shows, and what good values give.
LAZY: dict[str, tuple[str, str, Any, str, str]] = {
    "v1": ("Int64", "intDiv(12, v)", 7, "7", "3"),
    "v2": ("Nullable(Int64)", "intDiv(12, v)", None, "NULL", "3"),
    "v3": ("LowCardinality(Nullable(String))", "toString(intDiv(12, v))", "x", "x", "3"),
    "v4": ("Array(Int64)", "[intDiv(12, v)]", [], "[]", "[3]"),
    "v5": ("Map(String, Int64)", "map('k', intDiv(12, v))", {}, "{}", "{'k':3}"),
    "v6": ("Tuple(k Int64)", "tuple(intDiv(12, v))", {"k": 7}, "(7)", "(3)"),
    "v7": ("JSON", "CAST(concat('{\"k\":', toString(intDiv(12, v)), '}'), 'JSON')", {"q": 7},
           '{"q":7}', '{"k":3}'),
    "v8": ("Dynamic", "CAST(intDiv(12, v), 'Dynamic')", "x", "x", "3"),
    "v9": ("Variant(Int64, String)", "CAST(toInt64(intDiv(12, v)), 'Variant(Int64, String)')", "x", "x", "3"),
    "v10": ("Array(Tuple(k String))", "arrayMap(v -> tuple(toString(v)), [intDiv(12, v)])", [],
            "[]", "[('3')]"),
    "v11": ("DateTime('UTC')", "toDateTime(intDiv(12, v), 'UTC')", "2026-02-03 01:00:00",
            "2026-02-03 01:00:00", "1970-01-01 00:00:03"),
    "z1": ("Int64", "intDiv(12, assumeNotNull(z))", 7, "7", "3"),
    "z2": ("Int64", "if(z.null, 5, intDiv(12, assumeNotNull(z)))", 7, "7", "3"),
    "s1": ("Int64", "toInt64(s) - 1", 7, "7", "3"),
    "a1": ("Int64", "intDiv(12, a[1])", 7, "7", "3"),
    "a2": ("Int64", "intDiv(12, a.size0 * a[1])", 7, "7", "3"),
    "m1": ("Int64", "intDiv(12, m['k'])", 7, "7", "3"),
    "m2": ("Int64", "intDiv(12, m.values[1])", 7, "7", "3"),
    "t1": ("Int64", "intDiv(12, t.k)", 7, "7", "3"),
    "t2": ("Int64", "intDiv(12, t.u.w)", 7, "7", "3"),
    "t3": ("Int64", "intDiv(12, tupleElement(t, 'k'))", 7, "7", "3"),
    "j1": ("Int64", "intDiv(12, j.k.:Int64)", 7, "7", "3"),
    "j2": ("Int64", "intDiv(12, j.o.w::Int64)", 7, "7", "3"),
    "j3": ("Int64", "intDiv(12, JSONExtractInt(toString(j.^o), 'w'))", 7, "7", "3"),
    "y1": ("Int64", "intDiv(12, y.Int64)", 7, "7", "3"),
    "r1": ("Int64", "intDiv(12, r.Int64)", 7, "7", "3"),
    "e1": ("Int64", "intDiv(12, e)", 7, "7", "3"),
    "ab": ("Int64", "intDiv(12, `a b`)", 7, "7", "3"),
    "qb": ("Int64", "intDiv(12, `q\\`\"'b`)", 7, "7", "3"),
    "oo": ("Int64", "intDiv(12, `o.o`[1])", 7, "7", "3"),
    "f1": ("Int64", "f", 7, "7", "3"),
    "g1": ("Int64", "intDiv(12, g)", 7, "7", "3"),
    "h1": ("Int64", "intDiv(12, h)", 7, "7", "3"),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("read", per_commit(["push", "pull"]))
def test_whatever_it_reads_and_whatever_it_gives(world: World, read: str):
    read_columns = ", ".join(f"{identifier(name)} {kind}" for name, (kind, _, _) in READ.items())
    columns = ", ".join(f"{name} {kind} DEFAULT {by}" for name, (kind, by, *_) in LAZY.items())
    world.sql(
        f"CREATE TABLE {{db}}.t ({read_columns}, {UNREAD}, {columns}, {KEYS}) ENGINE = MergeTree ORDER BY v"
    )
    given = {name: value for name, (_, _, value, _, _) in LAZY.items()}
    bad = {name: value for name, (_, value, _) in READ.items()}
    good = {name: value for name, (_, _, value) in READ.items()}
    rows = [bad | given, good, good | given, bad]
    land(world.lake, unit(), [Event("click", json.dumps(row)) for row in rows])
    pipeline = world.pipeline({"click": "t"}, clickhouse={"read": read})
    world.load(pipeline, unit())
    shown = ", ".join(f"ifNull(toString({name}), 'NULL')" for name in LAZY)
    found = world.sql(f"SELECT _offset, [{shown}] FROM {{db}}.t ORDER BY _offset")
    values, defaults = ([one[at] for one in LAZY.values()] for at in (3, 4))
    assert [tuple(row) for row in found] == [(0, values), (1, defaults), (2, values)]
    assert world.sql("SELECT offset, column FROM sluice.rejected WHERE target = '{db}.t'") == [(3, "v1")]
    for _, by, *_ in (one for name, one in LAZY.items() if name != "e1"):  # of the first row each would fail
        with pytest.raises(ServerError):
            world.sql(f"SELECT toString({by}) FROM {{db}}.t WHERE _offset = 0")


@pytest.mark.parametrize("by", ["partition", "b"])
@pytest.mark.long
def test_each_shard_evaluates_where_the_field_is_missing(
    clickhouse_servers, tmp_path, name: str, monkeypatch, by: str
):
    two = made(tmp_path, name, clickhouse_servers, monkeypatch)
    columns = "v Int64, b Int64 DEFAULT intDiv(12, v), c Array(Int64) DEFAULT [intDiv(12, b)]"
    two.everywhere(f"CREATE TABLE {{db}}.t ({columns}, {KEYS}) ENGINE = MergeTree ORDER BY _offset")
    events = [{"v": 0, "b": 5}, {"v": 3}, {"v": 0, "b": 0, "c": [1]}, {"v": 0, "b": 7, "c": []}]
    wanted = [(0, 5, [2]), (3, 4, [3]), (0, 0, [1]), (0, 7, [])]
    land(two.world.lake, unit(), [Event("click", json.dumps(fields)) for fields in events], partitions=2)
    pipeline = two.world.pipeline({"click": "t"}, clickhouse=shards("s1", "s2", shard_by=by))
    two.load(pipeline, unit())
    place = {"partition": lambda at, row: at % 2, "b": lambda at, row: row[1] % 2}[by]
    found = [sorted(map(tuple, rows)) for rows in two.everywhere("SELECT v, b, c FROM {db}.t")]
    assert found == [sorted(row for at, row in enumerate(wanted) if place(at, row) == n) for n in (0, 1)]
    assert two.everywhere("SELECT payload FROM sluice.rejected WHERE target = '{db}.t'") == [[], []]


def test_an_expression_that_the_server_compiles_fails_all_the_same(world: World):
    columns = f"v Nullable(Int64), b Int64 DEFAULT v + 9, {KEYS}"
    world.sql(f"CREATE TABLE {{db}}.t ({columns}) ENGINE = MergeTree ORDER BY ()")
    for hour in range(5):  # the server compiles what it sees for the fourth time
        land(world.lake, unit(hour), [Event("click", '{"v": null}', f"2026-11-20T{10 + hour}")])
        world.load(world.pipeline({"click": "t"}), unit(hour))
    assert world.sql("SELECT count() FROM {db}.t") == [(0,)]
    rejected_rows = world.sql(
        "SELECT toHour(slice), column FROM sluice.rejected WHERE target = '{db}.t' ORDER BY 1"
    )
    assert rejected_rows == [(10 + hour, "b") for hour in range(5)]
