"""Whole loads of tables with tuples, arrays of objects, and the types that no other test loads."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from sluice.clients.clickhouse.sql import render
from tests.integration import foreign_events
from tests.integration.casts import test_load_documents
from tests.integration.casts.test_load_documents import KEYS, loaded, make
from tests.integration.landed import World, unit

pytestmark = pytest.mark.integration

world = test_load_documents.world


def test_a_code_hosts_events_arrive_as_they_are(world: World):
    made = foreign_events.make(datetime(2026, 11, 20, 10, tzinfo=UTC), 1, 300, seed=5)
    for number, item in enumerate(made):  # what else such events have
        item["payload"]["commits"] = item["payload"]["commits"][:3]
        item["actor"]["avatar_url"] = f"https://example.com/{number}"
    made[7]["actor"].pop("login")
    made[8]["repo"]["id"] = -1
    make(
        world,
        "id UInt64, actor Tuple(id UInt64, login String, name LowCardinality(String)), repo Tuple(id "
        "UInt64, name String), payload JSON, created_at DateTime('UTC'), commits Array(Tuple(message "
        "String))",
    )
    rows, rejected_rows = loaded(
        world,
        [json.dumps(item) for item in made],
        "(id, actor.id, actor.login, actor.name, repo.id, repo.name, payload.size, payload.ref, "
        "toString(created_at), commits.message)",
        {"commits": "payload.commits"},
    )
    wanted = {
        number: (
            int(item["id"]),
            item["actor"]["id"],
            item["actor"].get("login", ""),
            item["actor"]["name"],
            item["repo"]["id"],
            item["repo"]["name"],
            item["payload"]["size"],
            item["payload"]["ref"],
            item["created_at"].replace("T", " ").rstrip("Z"),
            [commit["message"] for commit in item["payload"]["commits"]],
        )
        for number, item in enumerate(made)
        if number != 8
    }
    assert rows == wanted
    assert rejected_rows == {
        8: ["repo.id", "does not fit UInt64", "-1"],
    }


def test_a_rejected_row_names_its_path(world: World):
    make(
        world,
        "items Array(Tuple(price Decimal(9, 2), tags Array(UInt8))), attrs Map(String, Tuple(n UInt8)), p "
        "Point, deep Tuple(a Tuple(b Array(Tuple(c Tuple(d UInt8)))))",
    )
    good = {"price": 1.25, "tags": [1]}
    payloads = [
        {"items": [good, good, good, {"price": 1.255, "tags": []}]},
        {"items": [{"price": 1, "tags": [1, "x"]}]},
        {"items": [good, 5]},
        {"items": ["{}"]},
        {"attrs": {"a": {"n": 1}, 'it"s': {"n": 300}}},
        {"p": [1, "x"]},
        {"p": [1, 2, 3]},
        {"deep": {"a": {"b": [{"c": {"d": 1}}, {"c": {}}]}}},
        {"items": [good], "attrs": {"a": {"n": 2}}, "p": [1, 2], "deep": {"a": {"b": [{"c": {"d": 1}}]}}},
        {"attrs": {"k" * 1000: {}}},
    ]
    rows, rejected_rows = loaded(
        world, [json.dumps(item) for item in payloads], "toString((items, attrs, p, deep))"
    )
    assert rows == {8: "([(1.25,[1])],{'a':(2)},(1,2),(([((1))])))"}
    assert rejected_rows == {
        0: ["items[3].price", "does not fit Decimal(9, 2)", "1.255"],
        1: ["items[0].tags[1]", "does not fit UInt8", "x"],
        2: ["items[1]", "does not fit Tuple(price Decimal(9, 2), tags Array(UInt8))", "5"],
        3: ["items[0]", "does not fit Tuple(price Decimal(9, 2), tags Array(UInt8))", "{}"],
        4: ['attrs["it\\"s"].n', "does not fit UInt8", "300"],
        5: ["p[1]", "does not fit Float64", "x"],
        6: ["p", "does not fit Point", "[1,2,3]"],
        7: ["deep.a.b[1].c.d", "missing", ""],
        9: [f'attrs["{"k" * 60}"].n', "missing", ""],
    }
    # Metrics count by the place without its numbers and keys: events cannot make more of them.
    start = int(unit().slice.start.timestamp())
    known = {"target": f"{world.database}.t", "slices": [start]}
    counted = world.client.rows(render("load/rejected_by_column"), known)
    assert dict(map(tuple, counted)) == {
        "items[].price": 1,
        "items[].tags[]": 1,
        "items[]": 2,
        "attrs[].n": 2,
        "p[]": 1,
        "p": 1,
        "deep.a.b[].c.d": 1,
    }


def test_a_missing_element_takes_a_default(world: World):
    make(
        world,
        "bare Tuple(a UInt8, b Nullable(UInt8)), said Tuple(a UInt8, b Nullable(UInt8), c Tuple(d "
        "Array(UInt8))) DEFAULT (7, 8, tuple([9])), loose Tuple(a Nullable(String), b Tuple(c "
        "Nullable(UInt8)))",
    )
    payloads = [
        {},
        {"bare": {"a": 1}, "said": {"a": 1}, "loose": {"b": {}}},
        {"bare": {"b": 1}},
        {"bare": None, "said": None, "loose": None},
        {"said": {"b": None, "c": {}}, "loose": {"b": None, "a": "x"}},
        {"said": {"c": {"d": []}}},
        {"said": {"c": {"d": [300]}}},
        {"said": {"c": 5}},
        {"said": 5},
    ]
    rows, rejected_rows = loaded(
        world,
        [json.dumps(item) for item in payloads],
        "(bare.a, bare.b, said.a, said.b, said.c.d, loose.a, loose.b.c)",
    )
    assert rows == {
        0: (0, None, 7, 8, [9], None, None),
        1: (1, None, 1, 8, [9], None, None),
        2: (0, 1, 7, 8, [9], None, None),
        3: (0, None, 7, 8, [9], None, None),
        4: (0, None, 7, None, [9], "x", None),
        5: (0, None, 7, 8, [], None, None),
    }
    assert rejected_rows == {
        6: ["said.c.d[0]", "does not fit UInt8", "300"],
        7: ["said.c", "does not fit Tuple(d Array(UInt8))", "5"],
        8: ["said", "does not fit Tuple(a UInt8, b Nullable(UInt8), c Tuple(d Array(UInt8)))", "5"],
    }


# A column's type, an event's value, and what toString() of the column gives; None is a rejected row.
OTHERS = [
    ("Time", '"10:11:12"', "10:11:12"),
    ("Time", '"-999:59:59.9"', None),
    ("Time", '"10:11:60"', None),
    ("Time", "36672", None),
    ("Time64(6)", '"10:11:12.0000019"', None),
    ("Time64(6)", '"10:11:12.0000010"', "10:11:12.000001"),
    ("Time64(3)", '"-100:11:12.120000000"', "-100:11:12.120"),
    ("Time", '"10:11:12.5"', None),
    ("Time", '"10:11:12.0"', "10:11:12"),
    ("Time64(6)", '"1000:00:00"', None),
    ("BFloat16", "1.5", "1.5"),
    ("BFloat16", "259", "260"),
    ("BFloat16", "257", "256"),
    ("BFloat16", "-0.0", "-0"),
    ("BFloat16", "3.4e38", None),
    ("IntervalDay", "-5", "-5"),
    ("IntervalDay", '"9223372036854775807"', "9223372036854775807"),
    ("IntervalDay", "9223372036854775808", None),
    ("IntervalDay", "1.5", None),
    ("SimpleAggregateFunction(max, UInt8)", "255", "255"),
    ("SimpleAggregateFunction(max, UInt8)", "256", None),
    ("SimpleAggregateFunction(anyLast, Nullable(String))", "null", None),
    ("SimpleAggregateFunction(groupArrayArray, Array(UInt8))", "[1, 2]", "[1,2]"),
    ("Enum16('a' = 1000, 'b' = -1)", "-1", "b"),
    ("Enum16('a' = 1000, 'b' = -1)", '"-1"', None),
    ("Enum16('a' = 1000, 'b' = -1)", "1000.5", None),
    ("Variant(String, UInt64)", "1", "1 UInt64"),
    ("Variant(String, UInt64)", '"1"', "1 String"),
    ("Variant(String, UInt64)", "-1", "-1 String"),
    ("Variant(UInt64, UUID)", '"x"', None),
    ("Variant(Date, String)", '"2026-02-28"', "2026-02-28 Date"),
    ("Variant(Date, String)", '"2026-02-30"', "2026-02-30 String"),
    ("Variant(Array(UInt8), Tuple(a UInt8))", '{"a": 1}', "(1) Tuple(a UInt8)"),
    ("Variant(Array(UInt8), Tuple(a UInt8))", "[1, 255]", "[1,255] Array(UInt8)"),
    ("Variant(Array(UInt8), Tuple(a UInt8))", "[1, 256]", None),
    ("Variant(Float64, Int64)", "9007199254740993", "9007199254740993 Int64"),
    ("Variant(Float64, Int64)", "1.5", "1.5 Float64"),
    ("Dynamic", "9007199254740993", "9007199254740993 Int64"),
    ("Dynamic", "18446744073709551615", "18446744073709551615 UInt64"),
    ("Dynamic", '"1"', "1 String"),
    ("Dynamic", '"2026-02-28"', "2026-02-28 String"),
    ("Dynamic", "true", "true Bool"),
    ("Dynamic", "1.5", "1.5 Float64"),
    ("Dynamic", "[1, 2]", "[1,2] Array(Nullable(Int64))"),
    ("Dynamic", "[true, 1]", None),
    ("Dynamic", "71.99999999999999999", None),
    ("Dynamic", '{"a": 1}', '{"a":1} JSON'),
    ("MultiPolygon", "[[[[0, 0], [1, 0], [1, 1.5]]]]", "[[[(0,0),(1,0),(1,1.5)]]]"),
    ("Polygon", "[[[0, 0], [1, 0]]]", "[[(0,0),(1,0)]]"),
    ("LineString", "[[0, 1]]", "[(0,1)]"),
    ("Ring", '[[0, "inf"]]', None),
    ("Ring", "[[0, 1], [2]]", None),
    ("Map(UInt8, Array(Tuple(a LowCardinality(String))))", '{"1": [{"a": "x"}]}', "{1:[('x')]}"),
    ("Map(UInt8, Array(Tuple(a LowCardinality(String))))", '{"256": []}', None),
    ("Array(JSON(a UInt8, SKIP b))", '[{"a": 1, "b": 2, "c": "x"}]', '[\'{"a":1,"c":"x"}\']'),
    ("Array(JSON(a UInt8, SKIP b))", '[{"a": 1}, {"a": 256}]', None),
    ("Date32", '"1900-01-01"', "1900-01-01"),
    ("Date32", '"2299-12-31"', "2299-12-31"),
    ("Decimal256(0)", f'"{"9" * 76}"', "9" * 76),
    ("IPv6", '"1.2.3.4"', "::ffff:1.2.3.4"),
    ("Tuple(`null value` UInt8, `tab\\t` UInt8)", '{"null value": 1, "tab\\t": 2}', "(1,2)"),
    ("Tuple(`a.b` String, `it``s` UInt8)", '{"a.b": "x", "it`s": 1}', "('x',1)"),
]  # fmt: skip


def test_what_other_types_take(world: World):
    kinds = list(dict.fromkeys(kind for kind, _, _ in OTHERS))
    make(world, ", ".join(f"c{n} {kind}" for n, kind in enumerate(kinds)))
    payloads = [f'{{"c{kinds.index(kind)}": {value}}}' for kind, value, _ in OTHERS]
    read = []
    for number, kind in enumerate(kinds):
        chosen = next((name for name in ("Variant", "Dynamic") if kind.startswith(name)), "")
        more = f", ' ', toString({chosen.lower()}Type(c{number}))" if chosen else ", ''"
        read.append(f"ifNull(concat(toString(c{number}){more}), 'NULL')")
    rows, rejected_rows = loaded(world, payloads, f"[{', '.join(read)}]")
    wrong = []
    for number, (kind, value, expected) in enumerate(OTHERS):
        place = kinds.index(kind)
        found = rows[number][place] if number in rows else None
        if value == "null":
            expected = "NULL"
        named = rejected_rows.get(number, [f"c{place}"])[0]
        if found != expected or not (named == f"c{place}" or named.startswith((f"c{place}[", f"c{place}."))):
            wrong.append(f"{kind} of {value}: {found}, {rejected_rows.get(number)}")
    assert wrong == []


def test_a_nested_that_is_one_column(world: World):
    """With flatten_nested = 0 ClickHouse keeps a Nested as the array of tuples that it is."""
    world.client.run(
        f"CREATE TABLE {world.database}.t (n Nested(a UInt8, b Nested(c String)), {KEYS}) "
        "ENGINE = MergeTree ORDER BY _offset",
        settings={"flatten_nested": 0},
    )
    payloads = ['{"n": [{"a": 1, "b": [{"c": "x"}, {"c": "y"}]}]}', '{"n": [{"a": 1, "b": [{}]}]}', "{}"]
    rows, rejected_rows = loaded(world, payloads, "toString(n)")
    assert rows == {0: "[(1,[('x'),('y')])]", 2: "[]"}
    assert rejected_rows == {1: ["n[0].b[0].c", "missing", ""]}


@pytest.mark.long
def test_an_ephemeral_tuple_is_read_by_defaults(world: World):
    make(world, "e Tuple(a UInt8, b String) EPHEMERAL (1, 'none'), a UInt8 DEFAULT e.a, b String DEFAULT e.b")
    payloads = ['{"e": {"a": 5, "b": "x"}}', "{}", '{"e": {"a": 6}}', '{"e": {"a": 600}}']
    rows, rejected_rows = loaded(world, payloads, "(a, b)")
    assert rows == {0: (5, "x"), 1: (1, "none"), 2: (6, "none")}
    assert rejected_rows == {3: ["e.a", "does not fit UInt8", "600"]}


@pytest.mark.long
def test_many_columns_of_objects(world: World):
    """Four deep. In a table that is wide only the first columns' rejected rows have places: a statement with
    all of them would keep the server busy for minutes."""
    kind = "Array(Tuple(a UInt8, b Map(String, Array(UInt8))))"
    make(world, ", ".join(f"c{n} {kind}" for n in range(60)))
    item = [{"a": 1, "b": {"x": [1, 2]}}]
    events = [{f"c{n}": item for n in range(60)} for _ in range(3)]
    events[1]["c0"] = events[2]["c59"] = [{"a": 1, "b": {"x": [1, 256]}}]
    rows, rejected_rows = loaded(world, list(map(json.dumps, events)), "(toString(c0), toString(c59))")
    assert rows == {0: ("[(1,{'x':[1,2]})]",) * 2}
    assert rejected_rows[1] == ['c0[0].b["x"][1]', "does not fit UInt8", "256"]
    assert rejected_rows[2] == ["c59", f"does not fit {kind}", '[{"a":1,"b":{"x":[1,256]}}]']


@pytest.mark.long
def test_a_variant_of_similar_types_loads(world: World):
    """ClickHouse calls such alternatives suspicious; who makes the table has set that they are allowed."""
    columns = f"v Variant(UInt8, Int64, Array(Variant(UInt8, Float64))), {KEYS}"
    world.client.run(
        f"CREATE TABLE {world.database}.t ({columns}) ENGINE = MergeTree ORDER BY _offset",
        settings={"allow_suspicious_variant_types": 1},
    )
    fields = [{"v": 5}, {"v": -5}, {"v": [7, 0.5]}, {"v": 2**63}, {}]
    rows, rejected_rows = loaded(world, [json.dumps(one) for one in fields], "toString(v)")
    assert rows == {
        0: "5",
        1: "-5",
        2: "[7,0.5]",
        4: "",
    }
    assert rejected_rows.keys() == {3}
    [(shown,)] = world.client.rows(f"SELECT count() FROM sluice.`{world.database}.t`")
    assert shown == 4
