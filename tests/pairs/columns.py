"""The columns of a target, the JSON values that aim at them, and what each value has to become."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.pairs.texts import HOSTILE
from tests.support import oracle
from tests.support.oracle import IPV4, UUID, Verdict

TEXT, WHOLE, REAL, TEXTS, AMOUNTS = "text", "whole", "real", "texts", "amounts"


@dataclass(frozen=True)
class Column:
    """`path`: the field that fills it. `kind`: what an Avro or Protobuf schema has there. `blank`: the value
    of an event without the field; a function of the row's other values where the DEFAULT is one. `fits` and
    `bad` are JSON texts; `select` reads the value."""

    name: str
    type: str
    kind: str
    judge: Callable[[Any], Verdict]
    blank: Any
    fits: tuple[str, ...]
    bad: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    default: str = ""
    select: str = "{}"

    @property
    def field(self) -> tuple[str, ...]:
        return self.path or (self.name,)

    @property
    def definition(self) -> str:
        return f"`{self.name}` {self.type}" + (f" DEFAULT {self.default}" if self.default else "")


def _int(bits: int, signed: bool) -> Callable[[Any], Verdict]:
    return partial(oracle.integer, bits, signed)


_text = [json.dumps(text, ensure_ascii=False) for text in HOSTILE]
_clock = partial(oracle.time, "DateTime64", 3)
_second = partial(oracle.time, "DateTime", 0)
ID = Column("id", "UInt64", WHOLE, _int(64, False), 0, ())
USER = Column("user", "String", TEXT, oracle.text, "", tuple(_text))
COUNTRY = Column(
    "country", "LowCardinality(Nullable(String))", TEXT, oracle.text, None, ('"DE"', '"US"', '""', "null")
)
N = Column("n", "UInt16", WHOLE, _int(16, False), 0, ("0", "7", "41", "65535"), ("65536", "-1", '"x"', "1.5"))
COMMON = (ID, USER, COUNTRY, N)


def at(path: tuple[str, ...]) -> Column:
    """The column of the event's time; its values are the event's own."""
    blank, read = "1970-01-01 00:00:00.000", "toString({}, 'UTC')"
    return Column("at", "DateTime64(3, 'UTC')", TEXT, _clock, blank, (), (), path, "", read)


_PATHS = (
    Column("geo_country", "String", TEXT, oracle.text, "", ('"FR"', '"{}"', "null"), (), ("geo", "country")),
    Column("city", "Nullable(String)", TEXT, oracle.text, None, ('"Wien"', '"a/b"'), (), ("geo", "city")),
    Column("deep", "Int32", WHOLE, _int(32, True), 0, ("-5", "7"), ('"q"', "2147483648"), ("a", "b", "c")),
)
_DEFAULTS = (
    Column("small", "UInt8", WHOLE, _int(8, False), 7, ("0", "255"), ("256",), default="7"),
    Column(
        "told",
        "String",
        TEXT,
        oracle.text,
        lambda row: f"n{row['n']}",
        ('"x"', '""'),
        default="concat('n', toString(n))",
    ),
    Column("low", "LowCardinality(String)", TEXT, oracle.text, "?", ('"y"',), default="'?'"),
    Column(
        "list",
        "Array(String)",
        TEXTS,
        partial(oracle.array, oracle.text, False),
        ["a", "b"],
        ("[]", '["z", "[/x]"]'),
        default="['a', 'b']",
    ),
)
_NULLABLE = (
    Column("maybe", "Nullable(UInt8)", WHOLE, _int(8, False), None, ("0", "9", "null"), ("256", '"a"')),
    Column("five", "Nullable(UInt8)", WHOLE, _int(8, False), 5, ("0", "9", "null"), ("-1",), default="5"),
    Column("word", "Nullable(String)", TEXT, oracle.text, "none", ('"w"', '""', "null"), default="'none'"),
    Column(
        "seen",
        "Nullable(DateTime('UTC'))",
        TEXT,
        _second,
        None,
        ('"2024-05-01T10:00:00Z"', '"1970-01-01"', "null"),
        ('"2024-02-30"', '"2200-01-01"'),
        select="toString({})",
    ),
)
_CONTAINERS = (
    Column(
        "tags",
        "Array(String)",
        TEXTS,
        partial(oracle.array, oracle.text, False),
        [],
        ("[]", '["a", "b\\"c", "🙂"]', '["{", "../", ""]'),
        ('"a"', "{}"),
    ),
    Column(
        "amounts",
        "Map(String, Int64)",
        AMOUNTS,
        partial(oracle.mapping, _int(64, True)),
        {},
        ("{}", '{"a": 1, "b\'": -9007199254740993}'),
        ('{"a": "x"}', "[1]"),
    ),
    Column(
        "gaps",
        "Array(Nullable(Int32))",
        "json",
        partial(oracle.array, _int(32, True), True),
        [],
        ("[]", "[1, null, -3]"),
        ("[2147483648]", '["x"]'),
    ),
)
_NUMBERS = (
    Column(
        "price",
        "Decimal(9, 2)",
        TEXT,
        partial(oracle.decimal, 9, 2),
        0,
        ('"12.5"', '"0"', '"-9999999.99"', "1.25"),
        ('"1.239"', '"10000000"', "1.239"),
    ),
    Column("wide", "Int128", TEXT, _int(128, True), 0, ('"-7"', f'"{2**127 - 1}"'), (f'"{"9" * 41}"',)),
    Column("ratio", "Float64", REAL, partial(oracle.floating, 64), 0.0, ("0.1", "1e300", "-2.5"), ('"nan"',)),
    Column(
        "day",
        "Date",
        TEXT,
        partial(oracle.time, "Date", 0),
        "1970-01-01",
        ('"2024-02-29"', '"2149-06-06"'),
        ('"2026-02-30"', '"1969-12-31"'),
        select="toString({})",
    ),
    Column(
        "moment",
        "DateTime64(6, 'UTC')",
        TEXT,
        partial(oracle.time, "DateTime64", 6),
        "1970-01-01 00:00:00.000000",
        ('"2024-05-01T10:00:00.123456Z"', '"2200-01-01T00:00:00+02:00"', '"1900-01-01"'),
        ('"2300-01-01"', '"12"'),
        select="toString({}, 'UTC')",
    ),
    Column("yes", "Bool", "json", oracle.boolean, False, ("true", "false", "1"), ("0.9", '"maybe"')),
    Column(
        "letter",
        "Enum8('a' = 1, 'b' = 2)",
        TEXT,
        partial(oracle.enum, ("a", "b")),
        "a",
        ('"a"', '"b"'),
        ('"c"',),
        select="toString({})",
    ),
    Column(
        "uuid",
        "UUID",
        TEXT,
        partial(oracle.parsed, UUID),
        UUID(int=0),
        ('"61f0c404-5cb3-11e7-907b-a6006ad3dba0"',),
        ('"61f0"',),
    ),
    Column(
        "ip",
        "IPv4",
        TEXT,
        partial(oracle.parsed, IPV4),
        IPV4(0),
        ('"10.0.0.255"',),
        ('"256.1.1.1"',),
    ),
)
SETS: dict[str, tuple[Column, ...]] = {
    "plain": (),
    "paths": _PATHS,
    "defaults": _DEFAULTS,
    "nullable": _NULLABLE,
    "containers": _CONTAINERS,
    "numbers": _NUMBERS,
}
