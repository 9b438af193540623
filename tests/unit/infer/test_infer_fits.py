"""Every sampled value that is not named as a rejected row fits the proposed type, as the oracle judges."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.clients.clickhouse.types import Type, parse
from sluice.infer.infer import column
from sluice.infer.types import Leaf, Rules, unfit
from sluice.infer.values import loads
from tests.support import oracle

RULES = Rules(unfit_values=0.2, sure=3, dictionary=4, map_keys=2, tuple_keys=4, levels=2)
NAMES = st.sampled_from(["id", "created_at", "total", "a", "null", "a.b", "é", ""])
INSTANTS = st.builds(
    "{}-{:02}-{:02}{}{:02}:{:02}{}{}".format,
    st.sampled_from([1899, 1900, 1970, 2026, 2148, 2149, 2262, 2299, 2300]),
    st.integers(1, 13),
    st.integers(1, 31),
    st.sampled_from("Tt "),
    st.integers(0, 24),
    st.integers(0, 60),
    st.sampled_from(["", ":00", ":59.5", ":59.123456", ":01.123456789", ":60"]),
    st.sampled_from(["", "Z", "z", "+01:00", "-0930", "+14:00", "+15:00"]),
)
TEXTS = st.one_of(
    st.text(max_size=3),
    INSTANTS,
    st.dates().map(str),
    st.uuids().map(str),
    st.ip_addresses().map(str),
    st.sampled_from(["1", "true", "10.0.0.1", "fe80::1%1", "2026-02-30", "٢٠٢٦-01-01", "-0"]),
)
WHOLE = st.one_of(
    st.integers(-5, 5),
    st.integers(10**9 - 2, 10**9 + 2),
    st.integers(1_700_000_000_000, 1_700_000_000_009),
    st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 4_102_444_800]),
)
FRACTIONS = st.one_of(
    st.decimals(-1000, 1000, places=2).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["1700000000.123456", "1e400", "1E5", "1.50", "-0.0", "12345678901234.567", "1e-400"]),
)
SCALARS = st.one_of(
    st.booleans().map(json.dumps), WHOLE.map(str), FRACTIONS, TEXTS.map(json.dumps), st.just("null")
)


def objects(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.dictionaries(NAMES, inner, max_size=4)
    return pairs.map(lambda found: "{" + ", ".join(f"{json.dumps(k)}: {v}" for k, v in found.items()) + "}")


def arrays(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(inner, max_size=3).map(lambda found: "[" + ", ".join(found) + "]")


FAMILIES = [st.booleans().map(json.dumps), WHOLE.map(str), FRACTIONS, TEXTS.map(json.dumps)]
LIKE = st.sampled_from([*FAMILIES, INSTANTS.map(json.dumps)])
"""Fields have values of one kind more often than of all."""
NESTED = st.recursive(SCALARS, lambda inner: st.one_of(objects(inner), arrays(inner)), max_leaves=12)
VALUES = st.one_of(
    LIKE.flatmap(lambda one: st.lists(one, max_size=12)),
    LIKE.flatmap(lambda one: st.lists(objects(one), max_size=8)),
    LIKE.flatmap(lambda one: st.lists(arrays(objects(one)), max_size=6)),
    st.lists(NESTED, max_size=8),
)


def holds(kind: Type, value: Any) -> bool:
    """Whether the type takes the value, by the oracle and by what the documents say of containers."""
    if value is None:
        return kind.nullable
    plain = kind.plain
    if plain.name == "Array":
        return isinstance(value, list) and all(holds(plain.argument(0), item) for item in value)
    if plain.name == "Map":
        return isinstance(value, Mapping) and all(holds(plain.argument(1), v) for v in value.values())
    if plain.name == "Tuple":
        elements = plain.named_arguments()
        return isinstance(value, Mapping) and all(holds(inner, value.get(name)) for name, inner in elements)
    if plain.name == "JSON":
        return isinstance(value, Mapping) and not oracle.unreadable(value) and plain_names(value)
    return verdict(plain, value) is not None


def lacks(kind: Type) -> bool:
    """Whether a column of the type stands for a field that is not there."""
    if kind.name == "Tuple":
        return all(inner.name == "Tuple" or inner.nullable for _, inner in kind.named_arguments()) and all(
            lacks(inner) for _, inner in kind.named_arguments()
        )
    return kind.nullable or kind.name in ("Array", "Map", "JSON")


def plain_names(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(k and "." not in k and plain_names(v) for k, v in value.items())
    return all(map(plain_names, value)) if isinstance(value, list) else True


def endless(value: Any) -> bool:
    """Whether a double in it is beyond the range of doubles: no load reads the event."""
    if isinstance(value, oracle.Number):
        return not value.lstrip("-").isdigit() and math.isinf(float(value))
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(map(endless, parts))


def verdict(kind: Type, value: Any) -> oracle.Verdict:
    digits = [int(part) for part in kind.arguments if part.isdigit()]
    if kind.name in ("UInt64", "Int64", "Int128"):
        return oracle.integer(int(kind.name.lstrip("UInt")), kind.name.startswith("I"), value)
    if kind.name in oracle.TIMES:
        return oracle.time(kind.name, (digits or [0])[0], value)
    return {
        "Bool": oracle.boolean,
        "Decimal": lambda found: oracle.decimal(*digits, found),
        "Float64": lambda found: oracle.floating(64, found),
        "UUID": lambda found: oracle.parsed(oracle.UUID, found),
        "IPv4": lambda found: oracle.parsed(oracle.IPV4, found),
        "IPv6": oracle.ipv6,
        "String": lambda found: None if endless(found) else oracle.text(found),
    }[kind.name](value)


@settings(max_examples=400)
@given(name=NAMES, texts=VALUES, missing=st.integers(0, 1))
def test_what_is_not_named_as_a_unfit_fits(name: str, texts: list[str], missing: int):
    values = [loads(text) for text in texts]
    found = column(name, values, len(values) + missing, RULES)
    named = [value is not None and unfit(found.kind, value) is not None for value in values]
    wrong = [
        text
        for text, odd in zip(texts, named, strict=True)
        if not odd and text != "null" and not holds(parse(found.type), oracle.loads(text))
    ]
    assert wrong == [], found.type
    assert found.refused == sum(named)
    if missing or "null" in texts:
        assert lacks(parse(found.type)), found.type
    readable = sum(not endless(oracle.loads(text)) for text in texts)
    assert sum(named) - (len(texts) - readable) <= RULES.may_refuse(len(texts))


@pytest.mark.parametrize(
    ("digits", "value", "fits"),
    [
        (3, "2026-11-20T10:00:00.123Z", True),
        (3, "2026-11-20T10:00:00.123000Z", True),
        (3, "2026-11-20T10:00:00.123456Z", False),
        (6, "2026-11-20T10:00:00.123456Z", True),
        (6, "2026-11-20T10:00:00.123456789Z", False),
        (9, "2026-11-20T10:00:00.123456789Z", True),
    ],
)
def test_a_time_fits_with_all_its_digits(digits: int, value: str, fits: bool):
    """So a type that is proposed has room for every sampled value, as a load wants it."""
    assert (unfit(Leaf("DateTime64", (digits,)), value) is None) is fits
    assert column("at", [value], 1, Rules()).refused == 0


@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        (Leaf("String"), True),
        (Leaf("Float64"), True),
        (Leaf("Int128"), True),
        (Leaf("Decimal", (38, 2)), True),
        (Leaf("Decimal", (18, 2)), False),
        (Leaf("UInt64"), False),
        (Leaf("JSON"), False),
    ],
    ids=lambda one: getattr(one, "text", str(one)),
)
def test_a_whole_number_beyond_64_bits_fits_where_a_load_takes_it(kind: Leaf, fits: bool):
    """As the case number_above_64_bits shows with a real server."""
    assert (unfit(kind, loads("20000000000000000000")) is None) is fits
