"""`sluice rejected --retry` after ALTER TABLE … MODIFY COLUMN, for pairs of types: rows that were there stay
as ALTER has left them, what fits by now comes in, and a retry that cannot work is refused before it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from sluice.slices import to_ms
from tests.faults.damage import Damaged
from tests.integration.landed import client_of
from tests.support.landing_world import START, World, hours
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration
MISSING = object()
IDENTITY = "_topic String, _partition Int32, _offset Int64, "
RANGE = f"--from {START:%FT%RZ} --to {START.add(hours=1):%FT%RZ}"
Values = list[tuple[Any, str | None]]


@dataclass(frozen=True)
class Change:
    """`rows` are values of events that fit both types, and what their rows hold after the retry; `new` come
    in by it; `wrong` fit neither type."""

    then: str
    now: str
    rows: Values
    new: Values
    wrong: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.then} to {self.now}"


NARROW, WIDE = "Decimal(9, 2)", "Decimal(18, 6)"
FITS: Values = [(1.5, "1.5"), (MISSING, "0"), (None, "0")]
MORE: Values = [(1.2345, "1.2345"), (123456789.5, "123456789.5")]
A, AB, ZA = "Enum8('a' = 1)", "Enum8('a' = 1, 'b' = 2)", "Enum8('z' = 0, 'a' = 1)"
MILLI, MICRO = "DateTime64(3, 'UTC')", "DateTime64(6, 'UTC')"
NOON = "2026-11-20 12:00:00"


def zeros(digits: int) -> str:
    return f"1970-01-01 00:00:00.{'0' * digits}"


CHANGES = [
    Change(NARROW, WIDE, FITS, MORE, ["x"]),
    Change(A, AB, [("a", "a"), (MISSING, "a")], [("b", "b")], ["c"]),
    Change("UInt8", "UInt16", [(7, "7"), (MISSING, "0")], [(300, "300")], ["x"]),
    Change(
        MILLI,
        MICRO,
        [(f"{NOON}.125", f"{NOON}.125000"), (MISSING, zeros(6))],
        [(f"{NOON}.000001", f"{NOON}.000001")],
        ["x"],
    ),
    Change(f"{NARROW} DEFAULT 7.25", WIDE, [(1.5, "1.5"), (MISSING, "7.25")], MORE, ["x"]),
    Change("Decimal(9, 4)", NARROW, FITS, [(123456.5, "123456.5")], [1.2345678]),
    Change(NARROW, f"Nullable({WIDE})", FITS, MORE, ["x"]),
    Change(f"Nullable({NARROW})", f"Nullable({WIDE})", [(1.5, "1.5"), (MISSING, None)], MORE, ["x"]),
    Change(f"Nullable({NARROW})", f"{WIDE} DEFAULT 0", FITS, MORE, ["x"]),
    Change(
        f"Nullable({NARROW})", f"{WIDE} DEFAULT 0.123456", [(1.5, "1.5"), (MISSING, "0.123456")], MORE, ["x"]
    ),
    Change(
        f"Array({NARROW})",
        f"Array({WIDE})",
        [([1.5], "[1.5]"), (MISSING, "[]")],
        [([1.2345], "[1.2345]")],
        ["x"],
    ),
    Change(
        f"Tuple(a {NARROW})",
        f"Tuple(a {WIDE})",
        [({"a": 1.5}, "(1.5)"), (MISSING, "(0)")],
        [({"a": 1.2345}, "(1.2345)")],
        ["x"],
    ),
    Change(
        f"Map(String, {NARROW})",
        f"Map(String, {WIDE})",
        [({"a": 1.5}, "{'a':1.5}"), (MISSING, "{}")],
        [({"a": 1.2345}, "{'a':1.2345}")],
        ["x"],
    ),
    Change("Decimal(9, 2)", "Float64", FITS, MORE, ["x"]),
    Change("Decimal(9, 2)", "String", [(1.5, "1.5"), (MISSING, "0"), (None, "0")], [("x", "x")]),
    Change("UInt8", WIDE, [(7, "7"), (MISSING, "0")], [(300.25, "300.25")], ["x"]),
    Change("UInt8", "Nullable(UInt16)", [(7, "7"), (MISSING, "0")], [(300, "300")], ["x"]),
    Change("Nullable(UInt8)", "UInt16 DEFAULT 0", [(7, "7"), (MISSING, "0")], [(300, "300")], ["x"]),
    Change("Nullable(UInt8)", "String DEFAULT 'none'", [(7, "7"), (MISSING, "none")], [("x", "x")]),
    Change("UInt16", "Int16", [(7, "7"), (MISSING, "0")], [(-3, "-3")], ["x"]),
    Change("Array(UInt8)", "Array(UInt16)", [([7], "[7]"), (MISSING, "[]")], [([300], "[300]")], ["x"]),
    Change(
        "Array(Nullable(UInt8))", "Array(UInt16)", [([7], "[7]"), (MISSING, "[]")], [([300], "[300]")], ["x"]
    ),
    Change(
        "Array(Enum8('a' = 1))",
        f"Array({AB})",
        [(["a"], "['a']"), (MISSING, "[]")],
        [(["b"], "['b']")],
        ["x"],
    ),
    Change(
        "Array(FixedString(2))",
        "Array(String)",
        [(["ab"], "['ab']"), (MISSING, "[]")],
        [(["abc"], "['abc']")],
        ["x"],
    ),
    Change(
        f"Array({MILLI})",
        f"Array({MICRO})",
        [([f"{NOON}.125"], f"['{NOON}.125000']"), (MISSING, "[]")],
        [([f"{NOON}.000001"], f"['{NOON}.000001']")],
        ["x"],
    ),
    Change(
        "FixedString(2)",
        "FixedString(3)",
        [("ab", "ab"), (MISSING, "")],
        [("abc", "abc")],
        ["abcd"],
    ),
    Change("FixedString(2)", "String", [("ab", "ab"), (MISSING, "")], [("abc", "abc")]),
    Change(
        "LowCardinality(FixedString(2))",
        "LowCardinality(String)",
        [("ab", "ab"), (MISSING, "")],
        [("abc", "abc")],
    ),
    Change("LowCardinality(FixedString(2))", "String", [("ab", "ab"), (MISSING, "")], [("abc", "abc")]),
    Change(
        "FixedString(2)",
        "LowCardinality(Nullable(String))",
        [("ab", "ab"), (MISSING, "")],
        [("abc", "abc")],
    ),
    Change(
        "LowCardinality(Nullable(FixedString(2)))",
        "LowCardinality(String) DEFAULT ''",
        [("ab", "ab"), (MISSING, "")],
        [("abc", "abc")],
    ),
    Change(A, ZA, [("a", "a"), (MISSING, "a")], [("z", "z")], ["c"]),
    Change(A, f"Nullable({AB})", [("a", "a"), (MISSING, "a")], [("b", "b")], ["c"]),
    Change(A, "LowCardinality(String)", [("a", "a"), (MISSING, "a")], [("b", "b")]),
    Change(A, "Enum16('a' = 1, 'b' = 300)", [("a", "a"), (MISSING, "a")], [("b", "b")], ["c"]),
    Change(A, "String", [("a", "a"), (MISSING, "a")], [("b", "b")]),
    Change(f"Nullable({A})", f"{AB} DEFAULT 'a'", [("a", "a"), (MISSING, "a")], [("b", "b")], ["c"]),
    Change(
        f"{AB} DEFAULT 'b'",
        "Enum8('a' = 1, 'b' = 2, 'c' = 3)",
        [("a", "a"), (MISSING, "b")],
        [("c", "c")],
        ["d"],
    ),
    Change("Enum8('b' = 2)", AB, [("b", "b"), (MISSING, "b")], [("a", "a")], ["c"]),
    Change(AB, "Enum8('a' = 1, 'c' = 3)", [("a", "a"), (MISSING, "a")], [("c", "c")], ["d"]),
    Change(
        "DateTime('UTC')",
        MILLI,
        [(NOON, f"{NOON}.000"), (MISSING, zeros(3))],
        [(f"{NOON}.125", f"{NOON}.125")],
        ["x"],
    ),
    Change(
        "DateTime('UTC')",
        f"Nullable({MILLI})",
        [(NOON, f"{NOON}.000"), (MISSING, zeros(3))],
        [(f"{NOON}.125", f"{NOON}.125")],
        ["x"],
    ),
    Change(
        f"Nullable({MILLI})",
        f"{MICRO} DEFAULT '1970-01-01 00:00:00'",
        [(f"{NOON}.125", f"{NOON}.125000"), (MISSING, zeros(6))],
        [(f"{NOON}.000001", f"{NOON}.000001")],
        ["x"],
    ),
    Change(
        "Date",
        "Date32",
        [("2026-11-20", "2026-11-20"), (MISSING, "1970-01-01")],
        [("1950-01-01", "1950-01-01")],
        ["x"],
    ),
    Change(
        "Date",
        "DateTime('UTC')",
        [("2026-11-20", "2026-11-20 00:00:00"), (MISSING, "1970-01-01 00:00:00")],
        [(NOON, NOON)],
        ["x"],
    ),
    Change("Bool", "String", [(True, "true"), (MISSING, "false")], [("x", "x")]),
    Change(
        "IPv4", "IPv6", [("1.2.3.4", "::ffff:1.2.3.4"), (MISSING, "::ffff:0.0.0.0")], [("::1", "::1")], ["x"]
    ),
    Change(
        "UUID",
        "String",
        [
            ("00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000001"),
            (MISSING, "00000000-0000-0000-0000-000000000000"),
        ],
        [("x", "x")],
    ),
]


def record(number: int, value: Any) -> tuple[bytes, int]:
    fields = {} if value is MISSING else {"x": value}
    text = json.dumps({"type": "click", "at": START.isoformat(), "n": number, **fields})
    return text.encode(), to_ms(START)


@pytest.fixture
def state(clickhouse_server, tmp_path, name, monkeypatch, capsys) -> Damaged:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    return Damaged(tmp_path, client_of(clickhouse_server), name, monkeypatch, capsys)


def held(state: Damaged) -> list[tuple]:
    return sorted(map(tuple, state.sql("SELECT n, toString(x) FROM {db}.clicks")))


def tables(state: Damaged) -> dict[str, str]:
    return dict.fromkeys(("click", "view"), f"{state.database}.clicks")


BY_RECORD = {"type": {"field": "type"}, "time": {"record": True}}


def loaded(state: Damaged, change: Change, identity: str, more: Sequence[tuple[bytes, int]] = ()) -> None:
    """An hour of all values by the type of then, and the column altered to that of now."""
    values = [*change.rows, *change.new, *((value, None) for value in change.wrong)]
    log = [*map(record, count(), (value for value, _ in values)), *more]
    state.world = World({("dc1", "bids"): [log]}, plain=True)
    state.sql("CREATE DATABASE {db}")
    state.sql(
        f"CREATE TABLE {{db}}.clicks (n UInt32, x {change.then}, {identity}_slice DateTime('UTC'), "
        "_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY n"
    )
    state.configure(tables=tables(state))
    state.world.resolve(state.pipeline, state.lake, hours(1))
    assert state.command(f"sluice run ads --config {state.config} {RANGE}")[0] == 0
    state.sql(f"ALTER TABLE {{db}}.clicks MODIFY COLUMN x {change.now} SETTINGS mutations_sync = 2")


@pytest.mark.long
@pytest.mark.parametrize("identity", per_commit(["", IDENTITY]), ids=lambda text: "kept" if text else "made")
@pytest.mark.parametrize("change", per_commit(CHANGES, 2), ids=str)
def test_what_fits_the_type_of_now_comes_in(state: Damaged, change: Change, identity: str):
    loaded(state, change, identity)
    rows = [(n, text) for n, (_, text) in enumerate(change.rows)]
    assert held(state) == rows
    code, said = state.command(f"sluice rejected ads --config {state.config} {RANGE} --retry --yes")
    assert (code, held(state)) == (
        0,
        [*rows, *((len(rows) + n, text) for n, (_, text) in enumerate(change.new))],
    ), said
    assert state.command(f"sluice verify ads --config {state.config} {RANGE} --contents")[0] == 0


def rejected(state: Damaged, *words: str) -> tuple[int, str]:
    line = f"sluice rejected ads --config {state.config} {RANGE} --retry --yes {' '.join(words)}"
    return state.command(line.rstrip())


def manifests(state: Damaged) -> list[bytes]:
    return [path.read_bytes() for path in sorted(state.root.glob("_slices/**/*")) if path.is_file()]


def test_what_the_load_would_refuse_is_refused_before_the_landing_brings_records_in(state: Damaged):
    """The default of then is no name of now: neither a rejected row nor a record that parses now can be
    loaded."""
    change = Change(f"{AB} DEFAULT 'b'", "Enum8('a' = 1, 'c' = 3) DEFAULT 'a'", [("a", "a")], [("c", None)])
    loaded(
        state,
        change,
        IDENTITY,
        more=[(b'{"type":"click","when":"2026-01-01T00:00:00Z","n":9}', to_ms(START))],
    )
    before = held(state), manifests(state)
    state.configure(tables=tables(state), event=BY_RECORD)
    code, said = rejected(state)
    assert code == 1, said
    refused = f"1 slice stays as it is: table {state.database}.clicks: the expressions that x had when"
    assert said.count(refused) == 1, said
    assert "nothing would come in: nothing is done" in said
    assert (held(state), manifests(state)) == before


@pytest.mark.long
def test_a_trial_counts_what_is_asked_for(state: Damaged):
    """Two types with a rejected row each, and records of two reasons that the file cures."""
    texts = [
        '{"type":"click","at":"%s","n":0,"x":300}',
        '{"type":"view","at":"%s","n":1,"x":300}',
        '{"type":"click","when":"%s","n":2,"x":1}',
        '{"kind":"click","at":"%s","n":3,"x":1}',
    ]
    loaded(
        state,
        Change("UInt8", "UInt16", [], []),
        "",
        more=[((t % START.isoformat()).encode(), to_ms(START)) for t in texts],
    )
    code, said = rejected(state, "--type view")
    assert code == 0 and "clicks.x does not fit UInt8: 1 of 1 rows that were tried would fit" in said
    assert held(state) == [(0, "300"), (1, "300")]
    state.configure(tables=tables(state), event=BY_RECORD)
    assert rejected(state, "--reason type")[0] == 1
    assert held(state) == [(0, "300"), (1, "300")]
    code, said = rejected(state, "--reason 'no time'")
    assert code == 0 and ": 1 of 1 come in, as 1 rows" in said
    assert held(state) == [(0, "300"), (1, "300"), (2, "1")]
