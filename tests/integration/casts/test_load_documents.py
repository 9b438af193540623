"""What an event has to look like: typed paths of a JSON, fields inside objects, Nested, DEFAULTs of what may
be NULL, and the lake's own columns in narrower ones."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.landed import Event, World, client_of, event, land, unit

pytestmark = pytest.mark.integration

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String), _offset Int64"


@pytest.fixture
def world(name, tmp_path, clickhouse_server):
    client = client_of(clickhouse_server)
    client.run(f"CREATE DATABASE {name}")
    yield World(tmp_path, client, name)
    client.run(f"DROP DATABASE {name} SYNC")


def make(world: World, columns: str) -> None:
    world.sql(f"CREATE TABLE {{db}}.t ({columns}, {KEYS}) ENGINE = MergeTree ORDER BY _offset")


def loaded(world: World, payloads: list[str], read: str, paths: dict[str, str] | None = None):
    """By offset: the texts that `read` gives of the rows, and (column, reason, value) of the rejected
    rows."""
    land(world.lake, unit(), [Event("click", payload) for payload in payloads])
    world.load(world.pipeline({"click": {"table": "t", "columns": paths or {}}}), unit())
    rows = dict(world.sql(f"SELECT _offset, {read} FROM {{db}}.t"))
    rejected_rows = "SELECT offset, column, reason, value FROM sluice.rejected WHERE target = '{db}.t'"
    return rows, {offset: rest for offset, *rest in world.sql(rejected_rows)}


# The typed path, what the event has there, and what toString() of the path gives; None is a rejected row.
TYPED = [
    ("a UInt8", "1", "1"),
    ("a UInt8", "1.5", None),
    ("a UInt8", "true", "1"),
    ("a UInt8", "256", None),
    ("a UInt8", '"7"', "7"),
    ("a UInt8", "null", "0"),
    ("a UInt8", "{}", None),
    ("a Nullable(UInt8)", "null", "NULL"),
    ("a Nullable(UInt8)", "1.5", None),
    ("a Nullable(UInt8)", "255", "255"),
    ("a Decimal(9, 2)", "1.239", None),
    ("a Decimal(9, 2)", "1.23", "1.23"),
    ("a Decimal(9, 2)", '"1.230"', "1.23"),
    ("a Decimal(5, 1)", "123456.5", None),
    ("a DateTime64(3, 'UTC')", '"2026-02-30T10:00:00.5Z"', None),
    ("a DateTime64(3, 'UTC')", '"2026-02-28T10:00:00.5Z"', "2026-02-28 10:00:00.500"),
    ("a DateTime64(3, 'UTC')", '"2300-01-01T00:00:00Z"', None),
    ("a DateTime('UTC')", '"2026-02-28T10:00:00+02:00"', "2026-02-28 08:00:00"),
    ("a DateTime('UTC')", '"2200-01-01T00:00:00Z"', None),
    ("a Date", '"2026-02-30"', None),
    ("a Date", '"2026-02-28"', "2026-02-28"),
    ("a Bool", "5", None),
    ("a Bool", "true", "true"),
    ("a Int128", '"' + "9" * 41 + '"', None),
    ("a Enum8('x' = 1)", "1", "x"),
    ("a Enum8('x' = 1)", "2", None),
    ("a Enum8('x' = 1)", '"x"', "x"),
    ("a String", "12", "12"),
    ("a LowCardinality(String)", '"é"', "é"),
    ("a Array(UInt8)", "[1, 255]", "[1,255]"),
    ("a Array(UInt8)", "[1, 1.5]", None),
    ("a Array(Decimal(9, 2))", "[1.239]", None),
    ("a Map(String, UInt8)", '{"x": 1.5}', None),
    ("a Map(String, UInt8)", '{"x": 1}', "{'x':1}"),
    ("a JSON(b UInt8)", '{"b": 1.5}', None),
    ("a JSON(b UInt8)", '{"b": 2}', '{"b":2}'),
]  # fmt: skip

# The place of the rejected row, where it is inside the value.
AT = {kind: "c{}.a" for kind, _, _ in TYPED} | {
    "a Array(UInt8)": "c{}.a[1]",
    "a Array(Decimal(9, 2))": "c{}.a[0]",
    "a Map(String, UInt8)": 'c{}.a["x"]',
    "a JSON(b UInt8)": "c{}.a.b",
}


@pytest.mark.long
def test_typed_paths_of_a_json_are_as_strict_as_columns(world: World):
    make(world, ", ".join(f"c{n} JSON({kind})" for n, (kind, _, _) in enumerate(TYPED)))
    payloads = [f'{{"c{n}": {{"a": {value}, "z": "2026-02-30"}}}}' for n, (_, value, _) in enumerate(TYPED)]
    places = ", ".join(f"ifNull(toString(c{n}.a), 'NULL')" for n in range(len(TYPED)))
    rows, rejected_rows = loaded(world, payloads, f"[{places}]")
    wrong = []
    for number, (kind, value, expected) in enumerate(TYPED):
        found = rows[number][number] if number in rows else None
        if found != expected or (
            expected is None and rejected_rows[number][0] not in AT[kind].format(number)
        ):
            wrong.append(f"JSON({kind}) of {value}: {found}, {rejected_rows.get(number)}")
    assert wrong == []
    untyped = "SELECT dynamicType(c0.z), toString(c0.z) FROM {db}.t WHERE _offset = 0"
    assert world.sql(untyped) == [("String", "2026-02-30")]


def test_nested_skipped_and_odd_paths_of_a_json(world: World):
    make(
        world,
        "j JSON(max_dynamic_paths = 8, max_dynamic_types = 4, b.c UInt8, `x y` Nullable(UInt8), "
        "`SKIP` UInt8, SKIP d, SKIP REGEXP '^e')",
    )
    documents = [
        {"b": {"c": 255}, "d": 1.5, "e1": [1.5], "more": 2.5},
        {"b": {"c": 1.5}},
        {"b": {"c": None}, "x y": None},
        {"x y": 1.5},
        {"SKIP": 1.5},
        {"b.c": 7},
        {"b": [{"c": 1}]},
        {"b": "text"},
        None,
        [],
    ]
    rows, rejected_rows = loaded(world, [json.dumps({"j": item}) for item in documents], "toString(j)")
    blank = {"SKIP": 0, "x y": None, "b": {"c": 0}}
    assert {n: json.loads(text) for n, text in rows.items()} == {
        0: {**blank, "b": {"c": 255}, "more": 2.5},
        2: blank,
        8: blank,
    }
    odd = {1: "j.b.c", 3: "j.x y", 4: "j.SKIP", 5: "j.b.c", 6: "j.b.c", 7: "j.b.c", 9: "j"}
    assert {n: found[0] for n, found in rejected_rows.items()} == odd
    assert rejected_rows[1][1:] == ["does not fit UInt8", "1.5"]


def test_a_path_leads_through_objects_only(world: World):
    make(world, "country Nullable(String), city String, geo String DEFAULT 'none'")
    paths = {"country": "geo.country", "city": "geo.place.city"}
    geos = ['{"country": "DE", "place": {"city": "x"}}', "null", "{}",
            '{"country": null, "place": null}', '["DE"]', '"DE"', "5", "true", '""',
            '"{\\"country\\": \\"DE\\"}"',
            '"\\u007b\\"country\\": 1}"',
            '{"place": "x"}',
            '{"place": ["x"], "country": "DE"}', '{"place": {"city": "{\\"a\\": 1}"}}', "[]",
            '{"country": "\\"{\\"", "place": {"city": 1}}']  # fmt: skip
    rows, rejected_rows = loaded(world, [f'{{"geo": {geo}}}' for geo in geos], "(country, city)", paths)
    assert rows == {
        0: ("DE", "x"),
        2: (None, ""),
        13: (None, '{"a": 1}'),
        15: ('"{"', "1"),
    }
    assert set(rejected_rows) == {1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14}
    assert rejected_rows[1][:2] == rejected_rows[3][:2] == ["city", "missing"]
    assert rejected_rows[4] == [
        "country",
        "does not fit an object at geo (its path is geo.country)",
        '["DE"]',
    ]
    assert rejected_rows[11] == [
        "city",
        "does not fit an object at geo.place (its path is geo.place.city)",
        "x",
    ]


def test_nested_columns_are_arrays_of_one_length(world: World):
    make(world, "n Nested(a UInt8, b String), m Nested(x UInt8)")
    events = [
        event(**{"n.a": [1, 2], "n.b": ["x", "y"], "m.x": [3]}),
        event(**{"n.a": [1, 2], "n.b": ["x"]}),
        event(**{"n.a": [1]}),
        event(n=[{"a": 1, "b": "x"}]),
        event(n={"a": [1], "b": ["x"]}),
        event(n=None),
        event(),
        event(m=[]),
        event(m=[{"x": 1, "y": 2}, {"x": 255}], n=[]),
        event(m=[{"x": 1}, {"y": 2}]),
        event(n=[{"a": 1, "b": "x"}], **{"n.b": []}),
        event(n=[{"a": 1, "b": "x"}, {"a": 256, "b": "x"}]),
        event(n="[]"),
    ]
    rows, rejected_rows = loaded(world, [item.payload for item in events], "(n.a, n.b, m.x)")
    assert rows == {
        0: ([1, 2], ["x", "y"], [3]),
        3: ([1], ["x"], []),
        5: ([], [], []),
        6: ([], [], []),
        7: ([], [], []),
        8: ([], [], [1, 255]),
    }
    assert {offset: found[0] for offset, found in rejected_rows.items()} == {
        1: "n",
        2: "n",
        4: "n",
        9: "m[1].x",
        10: "n",
        11: "n[1].a",
        12: "n",
    }
    assert rejected_rows[1][1:] == ["does not fit arrays of one length", "[2,1]"]
    assert rejected_rows[9][1:] == ["missing", ""]
    assert rejected_rows[10][1].startswith(
        "does not fit one shape: an array of objects, or fields like `n.a`"
    )
    assert rejected_rows[11][1:] == ["does not fit UInt8", "256"]


def test_a_missing_field_takes_the_default_and_a_null_is_one(world: World):
    make(
        world,
        "n Nullable(UInt8) DEFAULT 7, s LowCardinality(Nullable(String)) DEFAULT upper('x'), city "
        "Nullable(String) DEFAULT 'none', plain Nullable(UInt8), filled UInt8 DEFAULT 9",
    )
    payloads = [
        "{}",
        '{"n": null, "s": null, "geo": {"city": null}, "plain": null, "filled": null}',
        '{"n": 1, "s": "", "geo": {"city": "c"}, "plain": 2, "filled": 3}',
        '{"geo": null}',
        '{"geo": {}, "n\\u0000": 1}',
        '{"s": "y", "n": null}',
        '{"\\u006e": null}',
        '{"n": 300}',
    ]
    rows, rejected_rows = loaded(world, payloads, "(n, s, city, plain, filled)", {"city": "geo.city"})
    assert rows == {
        0: (7, "X", "none", None, 9),
        1: (None, None, None, None, 9),
        2: (1, "", "c", 2, 3),
        3: (7, "X", "none", None, 9),
        4: (7, "X", "none", None, 9),
        5: (None, "y", "none", None, 9),
        6: (None, "X", "none", None, 9),
    }
    assert {offset: found[0] for offset, found in rejected_rows.items()} == {7: "n"}


def test_a_default_of_other_columns_where_the_column_may_be_null(world: World):
    make(world, "n UInt8, twice Nullable(UInt16) DEFAULT n * 2")
    payloads = ['{"n": 4}', '{"n": 4, "twice": null}', '{"n": 4, "twice": 5}', '{"n": 4, "twice": -1}']
    rows, rejected_rows = loaded(world, payloads, "twice")
    assert rows == {0: 8, 1: None, 2: 5}
    assert {offset: found[0] for offset, found in rejected_rows.items()} == {3: "twice"}


STAMPS = [0, -1, 1_795_000_000_123, 4_294_967_295_999, 4_294_967_296_000, 9_223_372_036_854,
          9_223_372_036_855, 10_413_791_999_999, 10_413_792_000_000,
          -2_208_988_800_000, -2_208_988_800_001]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "digits", "first", "end"),
    [
        ("DateTime('UTC')", 0, 0, 4_294_967_296_000),
        ("Nullable(DateTime('UTC'))", 0, 0, 4_294_967_296_000),
        *((f"DateTime64({n}, 'UTC')", n, -2_208_988_800_000, 10_413_792_000_000) for n in (0, 1, 6, 7, 8)),
        ("DateTime64(9, 'UTC')", 9, -2_208_988_800_000, 9_223_372_036_855),
        ("DateTime64(3, 'Asia/Tokyo')", 3, -(1 << 62), 1 << 62),
    ],
)
def test_the_lakes_columns_arrive_as_they_are_or_are_rejected_rows(
    world: World, kind: str, digits: int, first: int, end: int
):
    world.sql(
        f"CREATE TABLE {{db}}.t (_timestamp {kind}, _offset UInt64, _partition UInt32, _row UInt64, _slice "
        "DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _offset"
    )
    made = land(world.lake, unit(), [event() for _ in STAMPS])
    [file] = made.files
    with world.lake.local(file.key) as path:
        table = pq.read_table(path)
    columns = {
        "_timestamp": pa.array(STAMPS, pa.timestamp("ms", "UTC")),
        "_partition": pa.array([2**31 - 1] * len(STAMPS), pa.int32()),
        "_offset": pa.array([2**63 - len(STAMPS) + n for n in range(len(STAMPS))], pa.int64()),
    }
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, values)
    begun = world.lake.begin(file.key)
    pq.write_table(table.append_column("_row", pa.array([2**31 - 1] * len(STAMPS), pa.int32())), begun.path)
    world.lake.finish(file.key, begun)
    world.load(world.pipeline({"click": "t"}), unit())
    ticks = "toUnixTimestamp(_timestamp)" if "64" not in kind else "reinterpret(_timestamp, 'Int64')"
    base = 2**63 - len(STAMPS)
    found = world.sql(
        f"SELECT toInt64(_offset - {base}), {ticks}, _partition, _row FROM {{db}}.t ORDER BY _offset"
    )
    scale = 10 ** abs(digits - 3)
    fitting = [
        (n, at * scale if digits > 3 else at // scale) for n, at in enumerate(STAMPS) if first <= at < end
    ]
    assert found == [(n, at, 2**31 - 1, 2**31 - 1) for n, at in fitting]
    rejected = world.sql("SELECT offset, column FROM sluice.rejected WHERE target = '{db}.t' ORDER BY offset")
    left = [base + n for n, at in enumerate(STAMPS) if not first <= at < end]
    assert rejected == [(offset, "_timestamp") for offset in left]
