"""Column types, each with its oracle, and JSON values that aim at the edges of what it holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from ipaddress import IPv6Address
from typing import Any

from hypothesis import strategies as st

from tests.support import oracle
from tests.support.oracle import IPV4, UUID, Expected, Verdict

Oracle = Callable[[Any], Verdict]
Tokens = st.SearchStrategy[str]
"""JSON texts."""

ENUM = ("a", "it's, (b)", "é", "1")


@dataclass(frozen=True)
class Kind:
    """`type` is ClickHouse's; `read` is what to select, `{}` being the column."""

    type: str
    oracle: Oracle
    tokens: Tokens
    default: Any
    read: str = "{}"


def _quoted(texts: st.SearchStrategy[str]) -> Tokens:
    return texts.map(lambda text: json.dumps(text, ensure_ascii=False))


_digits = st.text("0123456789", min_size=1, max_size=22)
_tiny = st.sampled_from(["1e-400", "-1e-400", "2e-324", "0.5E-0330", "0e-500"])
_numbers = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    _digits.map(lambda text: text.lstrip("0") or "0"),
    st.one_of(st.just(""), st.text("0123456789", min_size=1, max_size=12).map(lambda text: "." + text)),
    st.one_of(st.just(""), st.just(""), st.integers(-30, 30).map(lambda n: f"e{n}")),
)
_odd = st.sampled_from(
    [
        "",
        " ",
        "nan",
        "inf",
        "-Infinity",
        "1e5",
        "0x10",
        "+5",
        "007",
        "1_000",
        "١",
        " 12",
        "12 ",
        "-",
        ".5",
        "5.",
        "-0",
        "1e-400",
        "-25.5e-0350",
        "[]",
        "[1]",
        "{}",
        '{"a": 1}',
    ]
)
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_leaves = st.one_of(
    st.sampled_from(["true", "false", "null"]),
    *(_numbers, _quoted(_texts), _quoted(_odd), _quoted(_numbers), _tiny),
)


def _inside(items: Tokens) -> Tokens:
    pairs = st.lists(st.tuples(_quoted(_texts), items), max_size=3, unique_by=lambda pair: pair[0])
    return st.one_of(
        st.lists(items, max_size=4).map(lambda parts: "[" + ", ".join(parts) + "]"),
        pairs.map(lambda parts: "{" + ", ".join(f"{key}: {value}" for key, value in parts) + "}"),
    )


ANY = st.recursive(_leaves, _inside, max_leaves=6)


def _near(*edges: int) -> Tokens:
    whole = st.builds(lambda edge, by: str(edge + by), st.sampled_from(edges), st.integers(-2, 2))
    spelled = st.one_of(whole, whole.map(lambda text: text + ".0"), whole.map(lambda text: text + "e0"))
    return st.one_of(whole, spelled, _quoted(whole), st.integers(-300, 300).map(str), _tiny)


def _int(bits: int, signed: bool) -> Kind:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    name = f"{'' if signed else 'U'}Int{bits}"
    return Kind(name, partial(oracle.integer, bits, signed), _near(low, high, 1 << 53), 0)


def _decimal(precision: int, scale: int) -> Kind:
    edge = 10 ** (precision - scale)
    fractions = st.builds(
        "{}{}.{}".format,
        st.sampled_from(["", "-"]),
        st.integers(0, edge),
        st.text("0123456789", min_size=1, max_size=scale + 2),
    )
    tokens = st.one_of(fractions, _quoted(fractions), _near(edge, -edge))
    return Kind(f"Decimal({precision}, {scale})", partial(oracle.decimal, precision, scale), tokens, 0)


def _floats(bits: int) -> Kind:
    numbers = st.floats(allow_nan=False, allow_infinity=False, width=bits).map(repr)
    wide = st.floats(allow_nan=False, allow_infinity=False).map(repr)
    tokens = st.one_of(numbers, wide, _quoted(numbers), _quoted(wide))
    return Kind(f"Float{bits}", partial(oracle.floating, bits), tokens, 0.0)


_days = st.dates().map(str)
_clocks = st.builds(
    "{:02d}:{:02d}{}{}".format,
    st.integers(0, 25),
    st.integers(0, 61),
    st.one_of(
        st.just(""),
        st.builds(
            ":{:02d}{}".format,
            st.integers(0, 61),
            st.one_of(
                st.just(""), st.text("0123456789", min_size=1, max_size=11).map(lambda text: "." + text)
            ),
        ),
    ),
    st.one_of(
        st.sampled_from(["", "Z", "z", " UTC", "+14:00", "-12:00", "+0530", "+05", "+24:00", "+99:99"]),
        st.builds("{}{:02d}:{:02d}".format, st.sampled_from("+-"), st.integers(0, 24), st.integers(0, 61)),
    ),
)
_edges = st.sampled_from(
    ["1969-12-31", "1970-01-01", "1900-01-01", "1899-12-31", "2106-02-07", "2149-06-06", "2149-06-07",
     "2299-12-31", "2300-01-01", "2262-04-11", "2024-02-29", "2023-02-29", "1900-02-29",
     "2024-02-30", "0000-00-00"]
)  # fmt: skip
_some_days = st.one_of(_edges, st.dates(min_value=date(1890, 1, 1)).map(str), _days)
_moments = st.one_of(
    _some_days,
    st.builds("{}{}{}".format, _some_days, st.sampled_from("T  t"), _clocks),
    st.integers(0, 10**14).map(str),
    st.integers(10**9, 10**10).map(str),
    st.integers(10**12, 10**13).map(str),
)
_epochs = st.one_of(
    st.integers(10**9, 10**10).map(str),
    st.integers(10**12, 10**13).map(str),
    st.builds("{}.{}".format, st.integers(10**9, 10**10), st.text("0123456789", min_size=1, max_size=9)),
)
_times = st.one_of(_quoted(_moments), _epochs, _quoted(_epochs))


def _time(name: str, digits: int = 0, type_: str = "") -> Kind:
    # The server's own default, SELECT defaultValueOfTypeName('Date32').
    day = "1900-01-01" if name == "Date32" else "1970-01-01"
    blank = day + ("" if name.startswith("Date3") or name == "Date" else " 00:00:00")
    fraction = "." + "0" * digits if digits else ""
    read = "toString({})" if name in ("Date", "Date32") else "toString({}, 'UTC')"
    return Kind(type_ or name, partial(oracle.time, name, digits), _times, blank + fraction, read)


def _hexadecimal(count: int) -> st.SearchStrategy[str]:
    return st.text("0123456789abcdefABCDEFg-", min_size=count - 1, max_size=count + 1)


_uuids = st.one_of(
    st.uuids().map(str),
    st.uuids().map(lambda u: str(u).upper()),
    st.uuids().map(lambda u: u.hex),
    _hexadecimal(36),
)
_ipv4 = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.lists(st.integers(-1, 300).map(str), min_size=3, max_size=5).map(".".join),
    st.sampled_from(["01.2.3.4", "1.2.3.4 ", "1.2.3", "0x1.2.3.4", "1..2.3"]),
)
_ipv6 = st.one_of(
    st.ip_addresses(v=6).map(str),
    st.ip_addresses(v=6).map(lambda ip: ip.exploded.upper()),
    _ipv4,
    st.sampled_from(["::", ":::", "1::2::3", "fe80::1%eth0", "::ffff:1.2.3.4", "12345::"]),
)
_BLANK_UUID = UUID(int=0)


def nullable(kind: Kind) -> Kind:
    return Kind(f"Nullable({kind.type})", kind.oracle, kind.tokens, None, kind.read)


def _array(kind: Kind, empty_as_null: bool = False) -> Kind:
    inner = f"Nullable({kind.type})" if empty_as_null else kind.type
    tokens = st.lists(st.one_of(kind.tokens, kind.tokens, st.just("null")), max_size=4)
    return Kind(
        f"Array({inner})",
        partial(oracle.array, kind.oracle, empty_as_null),
        tokens.map(lambda parts: "[" + ", ".join(parts) + "]"),
        [],
        "arrayMap(x -> toString(x), {})" if kind.read != "{}" else "{}",
    )


def _map(kind: Kind) -> Kind:
    pairs = st.lists(st.tuples(_quoted(_texts), kind.tokens), max_size=3, unique_by=lambda pair: pair[0])
    tokens = pairs.map(lambda parts: "{" + ", ".join(f"{key}: {value}" for key, value in parts) + "}")
    return Kind(f"Map(String, {kind.type})", partial(oracle.mapping, kind.oracle), tokens, {})


_strings = Kind("String", oracle.text, _quoted(_texts), "")
_fixed = Kind("FixedString(6)", partial(oracle.fixed, 6), _quoted(_texts), b"\0" * 6)
_enum_type = "Enum8('a' = 1, 'it\\'s, (b)' = 2, 'é' = -3, '1' = 4)"
_enum_tokens = st.one_of(
    _quoted(st.one_of(st.sampled_from(ENUM), _texts)), st.integers(-5, 6).map(str), _quoted(_odd)
)
_enum = Kind(_enum_type, partial(oracle.enum, ENUM, numbers=(1, 2, -3, 4)), _enum_tokens, "é")
_bool = Kind(
    "Bool", oracle.boolean, st.sampled_from(["true", "false", "0", "1", "1.0", '"true"', '"1"', "2"]), False
)
_uuid = Kind("UUID", partial(oracle.parsed, UUID), _quoted(_uuids), _BLANK_UUID)
_four = Kind("IPv4", partial(oracle.parsed, IPV4), _quoted(_ipv4), IPV4(0))
_six = Kind("IPv6", oracle.ipv6, _quoted(_ipv6), IPv6Address(0))

KINDS: tuple[Kind, ...] = (
    *(_int(bits, signed) for bits in (8, 16, 32, 64, 128, 256) for signed in (False, True)),
    *map(_floats, (32, 64)),
    *(_decimal(*shape) for shape in ((9, 0), (9, 9), (18, 4), (38, 10), (76, 30))),
    *(_decimal(*shape) for shape in ((5, 2), (15, 15), (60, 10))),  # fewer digits than their bits hold
    _strings, _fixed, _enum, _bool, _uuid, _four, _six,
    _time("Date"), _time("Date32"), _time("DateTime", type_="DateTime('UTC')"),
    _time("DateTime", type_="DateTime('Europe/Berlin')"),
    *(_time("DateTime64", digits, f"DateTime64({digits}, 'UTC')") for digits in (0, 3, 6, 9)),
    *(nullable(kind) for kind in (_int(16, False), _decimal(18, 4), _strings, _time("Date"), _uuid)),
    Kind("LowCardinality(String)", oracle.text, _strings.tokens, ""),
    Kind("LowCardinality(Nullable(String))", oracle.text, _strings.tokens, None),
    _array(_int(8, False)), _array(_int(64, True), True), _array(_decimal(18, 4)), _array(_strings),
    _array(_time("Date")), _array(_floats(64)), _map(_int(32, True)), _map(_strings),
    _array(_array(_int(8, False))), _map(_array(_decimal(18, 4))), _array(_map(_int(16, True))),
)  # fmt: skip


def tokens_of(kind: Kind) -> Tokens:
    """Three aimed values for each arbitrary one."""
    return st.one_of(kind.tokens, kind.tokens, kind.tokens, ANY)


def expected(kind: Kind, token: str) -> Verdict:
    """What has to become of the JSON text; a null takes the column's default."""
    value = oracle.loads(token)
    return Expected(kind.default) if value is None else kind.oracle(value)
