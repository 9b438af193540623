"""Typed values against column types: the same afterwards, or a misfit, or the pair of types is refused."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.settings import WRITE
from sluice.clients.clickhouse.sql import literal
from sluice.clients.clickhouse.types import parse
from sluice.flow.load.rollups.values import Unprovable, convert
from tests.integration.landed import client_of
from tests.support.oracle import single
from tests.support.oracle_typed import Refused, became, shape

pytestmark = pytest.mark.integration

WHOLE = sorted(
    {0, 1, 2, 9, 1234, *(s * (1 << b) + by for b in (7, 8, 15, 16, 24, 31, 32, 53, 63, 64, 127, 128, 255, 256)
     for s in (1, -1) for by in (-1, 0, 1))}
)  # fmt: skip
INTEGERS = [f"{sign}Int{bits}" for bits in (8, 16, 32, 64, 128, 256) for sign in ("", "U")]
FRACTIONS = ["0", "1", "0.9", "-0.5", "1.239", "1.23", "12345.6", "123456.5", "-99999.9", "0.1", "12", "255",
             "256", "16777217", "4503599627370497.5", "-1", "70000"]  # fmt: skip
DOUBLES = [0.0, -0.0, 1.0, 0.9, -0.5, 1.239, 1.23, 0.1, 255.0, 256.0, 12345.6, 123456.5, 16777217.0, 2.0**53,
           2.0**63, 2.0**64, -(2.0**63), 1e15, 1e300, 5e-324, math.nan, math.inf, -math.inf]  # fmt: skip
SINGLES = [0.0, 1.0, 0.5, -0.25, 255.0, 256.0, 16777216.0, 123456.5, math.nan, math.inf]
SECOND = 10**9
DAY = 86_400 * SECOND
INSTANTS = [0, -DAY, SECOND, SECOND // 2, 1_714_557_600 * SECOND + 123_000_000,
            1_714_557_600 * SECOND + 123_456_789,
            1_714_521_600 * SECOND, (2**32 - 1) * SECOND, 2**32 * SECOND, 65_535 * DAY, 65_536 * DAY,
            7_258_118_400 * SECOND, 10_413_792_000 * SECOND - 1_000_000, 10_413_792_000 * SECOND,
            -2_208_988_800 * SECOND, -2_208_988_801 * SECOND, 99_999_999_999 * SECOND]  # fmt: skip
MOMENTS = ["DateTime('UTC')", "DateTime('Europe/Berlin')", *(f"DateTime64({d}, 'UTC')" for d in (0, 3, 6, 9)),
           "DateTime64(3, 'Asia/Tokyo')"]  # fmt: skip
TEXTS = ["", "0", "1", "1.239", "1.50", "70000", "true", "nan", "1e5", "2026-02-30", "2024-02-29", "a", "b",
         "2024-02-30T10:00:00Z", "2024-05-01T10:00:00.5Z", "9" * 41, "-1", "1.2.3.4", "::1", "abcdef", "0.9",
         "1960-01-01", "2200-01-01T00:00:00Z", "123e4567-e89b-12d3-a456-426614174000"]  # fmt: skip


def _inside(kind: str) -> list[int]:
    bits, signed = shape(kind).arguments
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return [number for number in WHOLE if low <= number <= high]


def _decimals(precision: int, scale: int) -> list[Decimal]:
    found = [Decimal(text) for text in FRACTIONS]
    return [n for n in found if abs(n) < 10 ** (precision - scale) and -n.as_tuple().exponent <= scale]


def _ticks(kind: str) -> list[int]:
    """Those of INSTANTS that a column of the type can hold bits of."""
    name, digits = shape(kind).arguments
    unit, (low, high) = 10 ** (9 - digits), (0, 2**32 - 1) if name == "DateTime" else (-(2**63), 2**63 - 1)
    return sorted({at // unit * unit for at in INSTANTS if low <= at // unit <= high})


VALUES: dict[str, list[Any]] = {
    **{kind: _inside(kind) for kind in INTEGERS},
    "Float64": DOUBLES,
    "Float32": SINGLES,
    **{f"Decimal({p}, {s})": _decimals(p, s) for p, s in ((5, 1), (9, 2), (18, 4), (38, 10), (76, 30))},
    "Bool": [True, False],
    "Date": [at for at in INSTANTS if at % DAY == 0 and 0 <= at < 65_536 * DAY],
    "Date32": [at for at in INSTANTS if at % DAY == 0 and -25_567 <= at // DAY < 120_530],
    **{kind: _ticks(kind) for kind in MOMENTS},
    "String": TEXTS,
    "Enum8('a' = 1, 'b' = 2)": ["a", "b"],
    "Enum16('b' = 1, 'c' = 2)": ["b", "c"],
    "UUID": [uuid.UUID("123e4567-e89b-12d3-a456-426614174000"), uuid.UUID(int=0)],
    "IPv4": [IPv4Address("1.2.3.4"), IPv4Address(0)],
    "IPv6": [IPv6Address("::1"), IPv6Address("::ffff:1.2.3.4"), IPv6Address("fe80::1")],
    "FixedString(4)": [b"abcd", b"ab\0\0", b"\0\0\0\0"],
    "FixedString(6)": [b"abcdef"],
}


def given_as(kind: str, value: Any) -> str:
    """An expression of the type and the value, by what its bits are where a text does not say it."""
    found = shape(kind)
    if found.family == "moment":
        name, digits = found.arguments
        ticks = value // 10 ** (9 - digits)
        if name == "DateTime":
            return f"CAST(toUInt32({ticks}), {literal(kind)})"
        return f"reinterpret(toInt64('{ticks}'), {literal(kind)})"
    if found.family == "day":
        return f"addDays(to{kind}('1970-01-01'), {value // DAY})"
    if found.family == "Bool":
        return f"toBool({int(value)})"
    text = (
        value.decode() if isinstance(value, bytes) else repr(value) if found.family == "float" else str(value)
    )
    return f"CAST({literal(text)}, {literal(kind)})"


READERS = {
    "int": int,
    "decimal": Decimal,
    "Bool": lambda text: text == "true",
    "UUID": uuid.UUID,
    "IPv4": IPv4Address,
    "IPv6": IPv6Address,
}


def read(wanted: str, text: str | None) -> Any:
    found = shape(wanted)
    if text is None or found.family == "float":
        return text and (single if found.arguments == (32,) else float)(float(text))
    return READERS.get(found.family, str)(text)


def same(given: str, wanted: str, expected: Any, found: Any) -> bool:
    family, of = shape(wanted).family, shape(given).family
    if family == "String" and of in ("int", "decimal", "float") and not isinstance(expected, str):
        return Decimal(found) == expected
    if family == "String" and of == "Bool":
        return found == ("true" if expected else "false")
    if family == "String" and of.startswith("IP"):
        return type(expected)(found) == expected
    if isinstance(expected, bytes):
        return found.encode() == expected.rstrip(b"\0")  # toString() takes the padding off
    if isinstance(expected, set):
        return bool(expected & {found})
    if isinstance(expected, float) and math.isnan(expected):
        return math.isnan(found)
    if family in ("day", "moment") and isinstance(expected, int):
        return True  # of one type with itself, which no cast touches
    return found == expected if family != "String" else found == str(expected)


NESTED: list[tuple[str, str, str, str | None]] = [
    ("Array(UInt64)", "[1, 255]", "Array(UInt8)", "[1,255]"),
    ("Array(UInt64)", "[1, 256]", "Array(UInt8)", None),
    ("Array(Array(Float64))", "[[1.239], []]", "Array(Array(Decimal(9, 2)))", None),
    ("Array(Array(Float64))", "[[1.23], []]", "Array(Array(Decimal(9, 2)))", "[[1.23],[]]"),
    ("Array(Nullable(UInt8))", "[1, NULL]", "Array(UInt16)", None),
    ("Array(Nullable(UInt8))", "[1, NULL]", "Array(Nullable(UInt16))", "[1,NULL]"),
    ("Array(Nothing)", "[]", "Array(DateTime('UTC'))", "[]"),
    ("Array(Nullable(Nothing))", "[NULL]", "Array(UInt8)", None),
    ("Array(Nullable(Nothing))", "[NULL]", "Array(Nullable(UInt8))", "[NULL]"),
    ("Map(String, UInt64)", "map('a', 1)", "Map(LowCardinality(String), UInt8)", "{'a':1}"),
    ("Map(String, UInt64)", "map('a', 256)", "Map(String, UInt8)", None),
    ("Map(UInt64, String)", "map(256, 'a')", "Map(UInt8, String)", None),
    ("Tuple(a UInt64, b String)", "(255, 'x')", "Tuple(a UInt8, b String)", "(255,'x')"),
    ("Tuple(a UInt64, b String)", "(256, 'x')", "Tuple(a UInt8, b String)", None),
    ("Array(Tuple(a Float64))", "[tuple(0.9)]", "Array(Tuple(a Bool))", None),
    ("Nullable(UInt64)", "256", "Nullable(UInt8)", None),
    ("Nullable(UInt64)", "NULL", "Nullable(UInt8)", "NULL"),
    ("Nullable(UInt64)", "NULL", "UInt8", None),
    ("Nullable(Nothing)", "NULL", "UInt8", None),
    ("Nullable(Nothing)", "NULL", "LowCardinality(Nullable(String))", "NULL"),
    ("LowCardinality(String)", "'256'", "UInt8", None),
    ("LowCardinality(Nullable(String))", "'255'", "LowCardinality(Nullable(UInt8))", "255"),
    ("UInt64", "70000", "SimpleAggregateFunction(max, UInt16)", None),
    ("SimpleAggregateFunction(max, UInt64)", "65535", "SimpleAggregateFunction(max, UInt16)", "65535"),
    ("Array(DateTime64(3, 'UTC'))", "['2200-01-01 00:00:00']", "Array(DateTime('UTC'))", None),
    ("Array(LowCardinality(String))", "['2026-02-30']", "Array(Date)", None),
]  # fmt: skip


@pytest.mark.parametrize(("given", "value", "wanted", "expected"), NESTED)
def test_values_in_containers(client: Client, given: str, value: str, wanted: str, expected: str | None):
    made = convert(parse(given), parse(wanted), "g0")
    settings = {"allow_suspicious_low_cardinality_types": 1}
    [(misfit,)] = client.rows(
        f"SELECT toUInt8({made.misfit}) FROM (SELECT CAST({value}, {literal(given)}) AS g0)",
        settings=settings,
    )
    assert misfit == (expected is None)
    if expected is not None:
        stored = wanted.removeprefix("SimpleAggregateFunction(max, ")
        kept = stored.removesuffix(")") if stored != wanted else wanted
        [(text,)] = client.rows(
            f"SELECT ifNull(toString(CAST({made.value}, {literal(kept)})), 'NULL') "
            f"FROM (SELECT CAST({value}, {literal(given)}) AS g0)",
            settings=settings,
        )
        assert text == expected


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("DateTime('UTC')", "UInt32"), ("DateTime('UTC')", "String"), ("UInt32", "DateTime('UTC')"),
        ("Date", "DateTime('Europe/Berlin')"), ("DateTime", "Date"), ("Enum8('a' = 1)", "UInt8"),
        ("UInt8", "Enum8('a' = 1)"), ("Float64", "Int128"), ("FixedString(4)", "String"), ("String", "JSON"),
        ("String", "Array(UInt8)"), ("Array(UInt8)", "String"), ("Tuple(a UInt8)", "Tuple(b UInt8)"),
        ("AggregateFunction(sum, UInt8)", "AggregateFunction(sum, UInt64)"), ("JSON", "JSON(a UInt8)"),
        ("AggregateFunction(sum, UInt8)", "UInt64"), ("Array(UInt32)", "Array(IPv4)"), ("Dynamic", "String"),
        ("Variant(String, UInt8)", "String"), ("IntervalDay", "UInt8"), ("UInt64", "BFloat16"),
    ],
)  # fmt: skip
def test_pairs_of_types_that_say_different_things_are_refused(given: str, wanted: str):
    with pytest.raises(Unprovable):
        convert(parse(given), parse(wanted), "g0")


@pytest.fixture(scope="module")
def client(clickhouse_server) -> Client:
    return client_of(clickhouse_server)


@pytest.mark.parametrize("given", VALUES)
def test_a_typed_value_stays_what_it_is_or_is_a_misfit(client: Client, given: str):
    made, refused = {}, set()
    for wanted in VALUES:
        try:
            made[wanted] = convert(parse(given), parse(wanted), "g0")
        except Unprovable:
            refused.add(wanted)
    parts = []
    for wanted, cast in made.items():
        zone = ", 'UTC'" if shape(wanted).family == "moment" else ""
        parts += [f"toString({cast.value}{zone})", f"toUInt8({cast.misfit})"]
    rows = client.rows(
        f"SELECT {', '.join(parts)} FROM (SELECT arrayJoin("
        f"[{', '.join(given_as(given, value) for value in VALUES[given])}]) AS g0)",
        settings={k: v for k, v in WRITE.items() if "sync" not in k},
    )
    wrong = []
    for value, row in zip(VALUES[given], rows, strict=True):
        for place, wanted in enumerate(made):
            text, misfit = row[2 * place], row[2 * place + 1]
            wrong += judged(given, wanted, value, text, misfit)
    assert wrong == []
    assert refused == {wanted for wanted in VALUES if is_refused(given, wanted)}


def judged(given: str, wanted: str, value: Any, text: str | None, misfit: int) -> list[str]:
    verdict = became(given, wanted, value)
    what = f"{given} {value!r} into {wanted}: {text!r}{', a misfit' if misfit else ''}"
    if misfit:
        return [what] if verdict is not None and verdict.certain else []
    if verdict is None:
        return [f"{what}, and should be a misfit"]
    found = read(wanted, text)
    return [] if same(given, wanted, verdict.value, found) else [f"{what}, expected {verdict.value!r}"]


def is_refused(given: str, wanted: str) -> bool:
    try:
        became(given, wanted, VALUES[given][0])
    except Refused:
        return True
    return False
