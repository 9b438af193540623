"""Nasty values against types: each either arrives exactly, or its row is rejected with the column's name."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest

from sluice.clients.lake import layout
from sluice.config.pipeline import Pipeline
from sluice.manifest import encode
from tests.integration.landed import Event, World, client_of, event, land, unit

pytestmark = pytest.mark.integration

REJECTED = object()
DEFAULT = object()

# type, the value as JSON text, and what toString() of the column has to be (or REJECTED, or DEFAULT).
CASES: list[tuple[str, str, object]] = [
    ("UInt8", "255", "255"),
    ("UInt8", "256", REJECTED),
    ("UInt8", "-1", REJECTED),
    ("UInt8", "true", "1"),
    ("Int8", '"false"', "0"),
    ("UInt256", "true", "1"),
    ("UInt8", '"True"', REJECTED),
    ("UInt16", "70000", REJECTED),
    ("UInt16", "12.5", REJECTED),
    ("UInt16", "12.0", "12"),
    ("UInt16", '"12"', "12"),
    ("UInt16", '"12 "', REJECTED),
    ("UInt16", '""', REJECTED),
    ("UInt16", '"0x10"', REJECTED),
    ("UInt16", '"abc"', REJECTED),
    ("UInt16", "{}", REJECTED),
    ("UInt16", "[]", REJECTED),
    ("UInt16", "[1]", REJECTED),
    ("UInt16", "null", DEFAULT),
    ("Int32", "-2147483648", "-2147483648"),
    ("Int32", "2147483648", REJECTED),
    ("Int32", "1e3", "1000"),
    ("Int32", "1e30", REJECTED),
    ("UInt64", "1e15", "1000000000000000"),
    ("UInt64", "1e19", "10000000000000000000"),
    ("UInt64", "900719925474099e2", "90071992547409900"),
    ("UInt64", "9007199254740993.0", REJECTED),
    ("Int128", "1.5e20", "150000000000000000000"),
    ("Int32", "7.0000000000000000001", REJECTED),
    ("Bool", "1.0000000000000000001", REJECTED),
    ("Decimal(76, 30)", "-71.999999999999999999999999999999", "-71.999999999999999999999999999999"),
    ("Decimal(76, 30)", '"-71.999999999999999999999999999999"', "-71.999999999999999999999999999999"),
    ("Decimal(38, 10)", "29981818593602932736.328734416519", REJECTED),
    ("Decimal(18, 4)", '"12500e-4"', "1.25"),
    ("Decimal(18, 4)", '"12505e-5"', REJECTED),
    ("Decimal(18, 4)", "-755e-27", REJECTED),
    ("DateTime64(6, 'UTC')", "1769651466.908870", "2026-01-29 01:51:06.908870"),
    ("DateTime64(0, 'UTC')", '"1969-12-31T23:51:07.332Z"', REJECTED),
    ("DateTime64(0, 'UTC')", '"1969-12-31T23:51:07.000Z"', "1969-12-31 23:51:07"),
    ("DateTime('UTC')", '"2026-02-07T21:02-01:60"', REJECTED),
    ("Int64", "9223372036854775807", "9223372036854775807"),
    ("Int64", "9223372036854775808", REJECTED),
    ("Int64", "9007199254740993", "9007199254740993"),
    ("UInt64", "18446744073709551615", "18446744073709551615"),
    ("UInt64", "-0.5", REJECTED),
    ("UInt64", "nan_word", REJECTED),
    ("Int128", '"170141183460469231731687303715884105727"', "170141183460469231731687303715884105727"),
    ("Int128", '"170141183460469231731687303715884105728"', REJECTED),
    ("UInt256", '"115792089237316195423570985008687907853269984665640564039457584007913129639935"',
     "115792089237316195423570985008687907853269984665640564039457584007913129639935"),
    ("Float64", "0.1", "0.1"),
    ("Float64", '"abc"', REJECTED),
    ("Float64", '"nan"', REJECTED),
    ("Float64", '"inf"', REJECTED),
    ("Float64", '"-Infinity"', REJECTED),
    ("Float64", '"1e999"', REJECTED),
    ("Float64", "1e308", "1e308"),
    ("Float64", "true", REJECTED),
    ("Float64", "-0.0", "-0"),
    ("Float32", "1e39", REJECTED),
    ("Float32", "0.5", "0.5"),
    ("Decimal(18, 4)", "1.2345", "1.2345"),
    ("Decimal(18, 4)", "1.23456", REJECTED),
    ("Decimal(18, 4)", '"1.23450"', "1.2345"),
    ("Decimal(18, 4)", "1e-7", REJECTED),
    ("Decimal(18, 4)", "1e-4", "0.0001"),
    ("Decimal(18, 4)", '"1E-7"', REJECTED),
    ("Decimal(18, 4)", "1e5", "100000"),
    ("Decimal(18, 4)", "1e20", REJECTED),
    ("Decimal(18, 4)", "99999999999999", "99999999999999"),
    ("Decimal(18, 4)", "100000000000000", REJECTED),
    ("Decimal(18, 4)", "12345678901234.5678", "12345678901234.5678"),
    ("Decimal(18, 4)", '"12345678901234.5678"', "12345678901234.5678"),
    ("Decimal(18, 4)", '"1.2.3.4"', REJECTED),
    ("Decimal(18, 4)", '".10000000000000001"', REJECTED),
    ("Decimal(18, 4)", '"1e-400"', REJECTED),
    ("Decimal(18, 4)", '"inf"', REJECTED),
    ("Decimal(18, 4)", "71.99", "71.99"),
    ("Decimal(18, 4)", "-0.0", "0"),
    ("Decimal(18, 4)", "12345678901.2345", "12345678901.2345"),
    ("Decimal(18, 4)", "12345678901.23456", REJECTED),
    ("Decimal(18, 4)", "12345678901234", "12345678901234"),
    ("Decimal(9, 2)", "9999999.99", "9999999.99"),
    ("Decimal(9, 2)", "10000000", REJECTED),
    ("Decimal(5, 2)", "999.99", "999.99"),
    ("Decimal(5, 2)", "1000", REJECTED),
    ("Decimal(5, 2)", '"12345.6"', REJECTED),
    ("Decimal(5, 2)", '"1e3"', REJECTED),
    ("Decimal(20, 2)", '"999999999999999999.99"', "999999999999999999.99"),
    ("Decimal(20, 2)", '"1000000000000000000"', REJECTED),
    ("Decimal(18, 4)", '"-"', REJECTED),
    ("Decimal(18, 4)", '"e5"', REJECTED),
    ("Decimal(18, 4)", '""', REJECTED),
    ("Decimal(18, 4)", '"nan"', REJECTED),
    ("Decimal(18, 4)", "true", REJECTED),
    ("Decimal(38, 10)", f'"{"9" * 28}.0123456789"', f"{'9' * 28}.0123456789"),
    ("Decimal(38, 10)", "1234567890123456789", "1234567890123456789"),
    ("Decimal(38, 10)", '"12345678901234567890123456789"', REJECTED),
    ("Decimal(76, 0)", f'"{"9" * 76}"', "9" * 76),
    ("Decimal(76, 0)", f'"1{"0" * 76}"', REJECTED),
    ("Decimal(76, 0)", f'"{"9" * 90}"', REJECTED),
    ("Decimal(9, 0)", "1.5", REJECTED),
    ("Decimal(9, 0)", "7", "7"),
    ("Bool", "true", "true"),
    ("Bool", "false", "false"),
    ("Bool", "1", "true"),
    ("Bool", "0", "false"),
    ("Bool", "2", REJECTED),
    ("Bool", '"yes"', REJECTED),
    ("Bool", '"TRUE"', REJECTED),
    ("Bool", '""', REJECTED),
    ("String", '""', ""),
    ("String", "12.50", "12.5"),
    ("String", "true", "true"),
    ("String", '{"a": [1, null]}', '{"a":[1,null]}'),
    ("String", "[]", "[]"),
    ("String", '"null"', "null"),
    ("String", '"\\u00e9\\n\\u0000"', "é\n\x00"),
    ("String", "null", DEFAULT),
    ("LowCardinality(String)", '"DE"', "DE"),
    ("FixedString(4)", '"abcd"', "abcd"),
    ("FixedString(4)", '"abcde"', REJECTED),
    ("FixedString(4)", '"ab"', "ab"),  # toString() takes the padding off again
    ("FixedString(4)", '"ééé"', REJECTED),
    ("UUID", '"123e4567-e89b-12d3-a456-426614174000"', "123e4567-e89b-12d3-a456-426614174000"),
    ("UUID", '"123e4567-e89b-12d3-a456-42661417400"', REJECTED),
    ("UUID", '"123e4567-e89b-12d3-a456-42661417400g"', REJECTED),
    ("UUID", '""', REJECTED),
    ("UUID", "12", REJECTED),
    ("IPv4", '"1.2.3.4"', "1.2.3.4"),
    ("IPv4", '"1.2.3"', REJECTED),
    ("IPv4", '"1.2.3.256"', REJECTED),
    ("IPv4", '""', REJECTED),
    ("IPv6", '"fe80::1"', "fe80::1"),
    ("IPv6", '"1.2.3.4"', "::ffff:1.2.3.4"),
    ("IPv6", '"fe80::1%eth0"', REJECTED),
    ("Enum8('a' = 1, 'it\\'s, (b)' = 2)", '"a"', "a"),
    ("Enum8('a' = 1, 'it\\'s, (b)' = 2)", '"it\'s, (b)"', "it's, (b)"),
    ("Enum8('a' = 1, 'it\\'s, (b)' = 2)", '"c"', REJECTED),
    ("Enum8('a' = 1, 'it\\'s, (b)' = 2)", "1", "a"),
    ("Enum8('a' = 1, 'it\\'s, (b)' = 2)", '"1"', REJECTED),
    ("Enum8('a' = 1, 'it\\'s, (b)' = 2)", "3", REJECTED),
    ("Enum8('a' = -1, '-1' = 2)", "-1", "-1"),
    ("Enum8('a' = -1, '-1' = 2)", "2", "-1"),
    ("Enum16('x' = 1000)", '""', REJECTED),
    ("Date", '"2024-02-29"', "2024-02-29"),
    ("Date", '"2024-02-30"', REJECTED),
    ("Date", '"2023-02-29"', REJECTED),
    ("Date", '"2024-13-01"', REJECTED),
    ("Date", '"2024-2-3"', REJECTED),
    ("Date", '"1969-12-31"', REJECTED),
    ("Date", '"2150-01-01"', REJECTED),
    ("Date", '"2149-06-06"', "2149-06-06"),
    ("Date", '"2024-05-01T23:30:00-02:00"', REJECTED),
    ("Date", '"2024-05-01T22:00:00-02:00"', "2024-05-02"),
    ("Date", "20240501", REJECTED),
    ("Date32", '"1900-01-01"', "1900-01-01"),
    ("Date32", '"1899-12-31"', REJECTED),
    ("Date32", '"2299-12-31"', "2299-12-31"),
    ("Date32", '"2300-01-01"', REJECTED),
    ("DateTime('UTC')", '"2024-05-01T10:11:12Z"', "2024-05-01 10:11:12"),
    ("DateTime('UTC')", '"2024-05-01T10:11:12+02:00"', "2024-05-01 08:11:12"),
    ("DateTime('UTC')", '"2024-05-01T10:11:12.999Z"', REJECTED),
    ("DateTime('UTC')", '"2024-05-01 10:11:12"', "2024-05-01 10:11:12"),
    ("DateTime('UTC')", '"12"', REJECTED),
    ("DateTime('UTC')", '"2024"', REJECTED),
    ("DateTime('UTC')", "12", REJECTED),
    ("DateTime('UTC')", "1714557600", "2024-05-01 10:00:00"),
    ("DateTime('UTC')", "1714557600123", REJECTED),
    ("DateTime('UTC')", "true", REJECTED),
    ("DateTime('UTC')", '"2024-05-01t10:11:12z"', "2024-05-01 10:11:12"),
    ("DateTime64(6, 'UTC')", '"2024-05-01t10:11:12.123456+01:00"', "2024-05-01 09:11:12.123456"),
    ("DateTime64(9, 'UTC')", '"2024-05-01 10:11:12.123456789z"', "2024-05-01 10:11:12.123456789"),
    ("DateTime('UTC')", '"2024-05-01t10:00:00y"', REJECTED),
    ("DateTime('UTC')", '"2024-02-30t10:00:00z"', REJECTED),
    ("DateTime('UTC')", '"2024-02-30T10:00:00Z"', REJECTED),
    ("DateTime('UTC')", '"2024-05-01T25:00:00Z"', REJECTED),
    ("DateTime('UTC')", '"2024-05-01T10:60:00Z"', REJECTED),
    ("DateTime('UTC')", '"2024-05-01T10:11:60Z"', REJECTED),
    ("DateTime('UTC')", '"2024-05-01T10:11:12 PM"', REJECTED),
    ("DateTime('UTC')", '"01/05/2024 10:00"', REJECTED),
    ("DateTime('UTC')", '"1970-01-01T00:00:00+01:00"', REJECTED),
    ("DateTime('UTC')", '"2106-02-07T06:28:15Z"', "2106-02-07 06:28:15"),
    ("DateTime('UTC')", '"2106-02-07T06:28:16Z"', REJECTED),
    ("DateTime('UTC')", '"0000-00-00 00:00:00"', REJECTED),
    ("DateTime('Europe/Berlin')", '"2024-05-01T10:00:00Z"', "2024-05-01 12:00:00"),
    ("DateTime('Europe/Berlin')", '"2024-05-01T10:00:00"', "2024-05-01 12:00:00"),
    ("DateTime64(3, 'UTC')", '"2024-05-01T10:11:12.1239Z"', REJECTED),
    ("DateTime64(3, 'UTC')", '"2024-05-01T10:11:12.123Z"', "2024-05-01 10:11:12.123"),
    ("DateTime64(3, 'UTC')", '"2024-05-01T10:11:12.120Z"', "2024-05-01 10:11:12.120"),
    ("DateTime64(3, 'UTC')", '"2024-05-01T10:11:12.12Z"', "2024-05-01 10:11:12.120"),
    ("DateTime64(3, 'UTC')", '"1900-01-01T00:00:00.000Z"', "1900-01-01 00:00:00.000"),
    ("DateTime64(3, 'UTC')", '"1899-12-31T23:59:59.999Z"', REJECTED),
    ("DateTime64(3, 'UTC')", '"2024-05-01T24:11:12.123Z"', REJECTED),
    ("DateTime64(3, 'UTC')", '"2024-05-01T10:11:60.123Z"', REJECTED),
    ("DateTime64(3, 'UTC')", '"2024-02-30T10:11:12.123Z"', REJECTED),
    ("DateTime64(3, 'UTC')", '"2024-05-01T10:11:12.Z"', REJECTED),
    ("DateTime64(3, 'UTC')", '"2024-05-01T10:11:12.1:3Z"', REJECTED),
    ("DateTime64(3, 'UTC')", '"2024-0:-01T10:11:12.123Z"', REJECTED),
    ("DateTime64(3, 'UTC')", '"2024-05-01T10:11:12.123z"', "2024-05-01 10:11:12.123"),
    ("DateTime64(3, 'UTC')", "1714557600.125", "2024-05-01 10:00:00.125"),
    ("DateTime64(3, 'UTC')", "1714557600123", "2024-05-01 10:00:00.123"),
    ("DateTime64(3, 'UTC')", '"1960-01-01T00:00:00.5Z"', "1960-01-01 00:00:00.500"),
    ("DateTime64(3, 'UTC')", '"2300-01-01T00:00:00Z"', REJECTED),
    ("DateTime64(9, 'UTC')", '"2024-05-01T10:11:12.123456789Z"', "2024-05-01 10:11:12.123456789"),
    ("DateTime64(9, 'UTC')", '"2263-01-01T00:00:00Z"', REJECTED),
    ("DateTime64(0, 'UTC')", '"2024-05-01T10:11:12.9Z"', REJECTED),
    ("DateTime64(3, 'UTC')", '"2024-05-01T10:11:12.123456Z"', REJECTED),
    ("DateTime64(3, 'UTC')", '"2024-05-01T10:11:12.123000000Z"', "2024-05-01 10:11:12.123"),
    ("DateTime('UTC')", '"2024-05-01T10:11:12.001Z"', REJECTED),
    ("DateTime('UTC')", '"2024-05-01T10:11:12.000Z"', "2024-05-01 10:11:12"),
    ("Nullable(UInt16)", "null", None),
    ("Nullable(UInt16)", "70000", REJECTED),
    ("Nullable(UInt16)", "7", "7"),
    ("Nullable(String)", "null", None),
    ("Nullable(String)", '""', ""),
    ("LowCardinality(Nullable(String))", "null", None),
    ("Nullable(DateTime('UTC'))", '"soon"', REJECTED),
    ("Array(UInt8)", "[1, 2]", "[1,2]"),
    ("Array(UInt8)", "[]", "[]"),
    ("Array(UInt8)", "[256]", REJECTED),
    ("Array(UInt8)", "[1, null]", REJECTED),
    ("Array(UInt8)", '["1", "x"]', REJECTED),
    ("Array(UInt8)", "5", REJECTED),
    ("Array(UInt8)", '"[1"', REJECTED),
    ("Array(UInt8)", '{"a": 1}', REJECTED),
    ("Array(UInt8)", "null", DEFAULT),
    ("Array(Nullable(UInt8))", "[1, null]", "[1,NULL]"),
    ("Array(Nullable(UInt8))", "[1, 300]", REJECTED),
    ("Array(Array(Date))", '[["2024-01-01"], []]', "[['2024-01-01'],[]]"),
    ("Array(Array(Date))", '[["2024-01-01"], ["2024-02-30"]]', REJECTED),
    ("Array(Array(Date))", "[null]", REJECTED),
    ("Array(LowCardinality(String))", '["a", 1, {"b": true}]', "['a','1','{\"b\":true}']"),
    ("Array(Date)", '["2673416723.14600", "2206726573958"]', REJECTED),
    ("Array(Date)", '["1714521600.000", "1714521600000"]', "['2024-05-01','2024-05-01']"),
    ("Array(Decimal(18, 4))", "[1.5, 2]", "[1.5,2]"),
    ("Array(Decimal(18, 4))", "[1.23456]", REJECTED),
    ("Map(String, UInt8)", '{"a": 1}', "{'a':1}"),
    ("Map(String, UInt8)", "{}", "{}"),
    ("Map(String, UInt8)", '{"a": 256}', REJECTED),
    ("Map(String, UInt8)", '{"a": null}', REJECTED),
    ("Map(String, UInt8)", "[1]", REJECTED),
    ("Map(LowCardinality(String), Nullable(String))", '{"a": null, "b": 1}', "{'a':NULL,'b':'1'}"),
    ("Map(UInt16, Array(String))", '{"7": ["x"]}', "{7:['x']}"),
    ("Map(UInt16, Array(String))", '{"x": ["x"]}', REJECTED),
    ("JSON", '{"a": {"b": 1}}', '{"a":{"b":1}}'),
    ("JSON", "[1]", REJECTED),
    ("JSON", '"x"', REJECTED),
    # Below a double's range.
    ("UInt64", "1e-400", REJECTED),
    ("Decimal(18, 4)", "-1e-400", REJECTED),
    ("Bool", "1e-400", REJECTED),
    ("Float64", "1e-400", "0"),
    ("String", "1e-400", "1e-400"),
    ("Array(UInt8)", "[1, 1e-400]", REJECTED),
    ("Map(String, UInt8)", '{"a": 1e-400}', REJECTED),
    ("Map(UInt8, Float64)", '{"0": 1e-400, "72": 71.99999999999999999}', "{0:0,72:72}"),
    ("JSON(a UInt8)", '{"a": 1e-400}', REJECTED),
    ("Enum8('0' = 5, '1' = 1)", "1e-400", REJECTED),
    ("Enum8('0' = 5, '1' = 1)", "0", "0"),
    # Strings that read as containers.
    ("Array(UInt8)", '"[1]"', REJECTED),
    ("Array(UInt8)", '"\\u005b1]"', REJECTED),
    ("Map(String, UInt8)", '"{\\"a\\": 1}"', REJECTED),
    ("JSON", '"{\\"a\\": 1}"', REJECTED),
    ("JSON(a UInt8)", '"{\\"a\\": 1}"', REJECTED),
    ("JSON", '{"a": "[1]", "b": "{}"}', '{"a":"[1]","b":"{}"}'),
    ("Array(Array(Date))", '["[]"]', REJECTED),
    ("Array(JSON)", '["{}"]', REJECTED),
    ("Array(JSON)", '[{"a": "{}"}, {}]', """['{"a":"{}"}','{}']"""),
    ("Map(UInt16, Array(String))", '{"7": "[]"}', REJECTED),
    ("Map(UInt16, Array(String))", '{"7": ["[]", "{"]}', "{7:['[]','{']}"),
    ("JSON(l Array(UInt8))", '{"l": "[1]"}', REJECTED),
    ("JSON(l Array(UInt8))", '{"l": [1], "m": "[1]"}', '{"l":[1],"m":"[1]"}'),
]  # fmt: skip
TYPES = list(dict.fromkeys(kind for kind, _, _ in CASES))


@pytest.fixture(scope="module")
def world(clickhouse_server, tmp_path_factory) -> World:
    made = World(tmp_path_factory.mktemp("lake"), client_of(clickhouse_server), "load_columns")
    made.sql("CREATE DATABASE {db}")
    return made


def payload(kind: str, value: str) -> str:
    return f'{{"type": "t", "c{TYPES.index(kind)}": {value if value != "nan_word" else "1e999"}}}'


@pytest.fixture(scope="module", params=["pull", "push"])
def loaded(world: World, request) -> tuple[dict[int, dict], dict[int, tuple]]:
    """By the case's number: the row in the table as texts, and (column, value) in sluice.rejected."""
    name = f"t_{request.param}"
    columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate(TYPES))
    world.sql(
        f"CREATE TABLE {{db}}.{name} ({columns}, _offset Int64, _slice DateTime('UTC'), "
        "_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _offset"
    )
    pipeline: Pipeline = world.pipeline({"t": name}, clickhouse={"read": request.param})
    land(world.lake, unit(), [Event("t", payload(kind, value)) for kind, value, _ in CASES])
    world.load(pipeline, unit())
    texts = ", ".join(f"toString(c{n})" for n in range(len(TYPES)))
    found = world.sql(f"SELECT _offset, {texts} FROM {{db}}.{name}")
    rejected = world.sql(f"SELECT offset, column, value FROM sluice.rejected WHERE target = '{{db}}.{name}'")
    return {row[0]: dict(enumerate(row[1:])) for row in found}, {row[0]: row[1:] for row in rejected}


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: f"{CASES[n][0]}={CASES[n][1]}"[:60])
def test_a_value_arrives_exactly_or_its_row_is_rejected(loaded, number: int):
    kind, value, expected = CASES[number]
    rows, rejected = loaded
    if expected is REJECTED:
        assert number not in rows
        column = "" if value == "nan_word" else f"c{TYPES.index(kind)}"
        assert re.split(r"[.\[]", rejected[number][0])[0] == column
    else:
        assert number not in rejected
        blank = {"Array(UInt8)": "[]", "UInt16": "0", "String": ""}.get(kind)
        assert rows[number][TYPES.index(kind)] == (blank if expected is DEFAULT else expected)


def of_fifteen_digits(random: Random) -> str:
    """A number with a point or an exponent: JSON parsers make doubles of these."""
    digits = str(random.randrange(1, 10 ** random.randint(1, 15)))
    point = random.randint(0, len(digits) - 1)
    whole, rest = digits[:point].lstrip("0") or "0", digits[point:]
    if len(whole + rest) > 15:  # the zero before the point counts
        rest = rest[:-1]
    exponent = random.choice(["", f"e{random.randint(-14, 25)}", f"E+{random.randint(0, 25)}"])
    return f"{random.choice(['', '-'])}{whole}.{rest or '0'}{exponent}"


@pytest.mark.parametrize("looked_at", [True, False], ids=["event by event", "none is long"])
def test_a_number_of_up_to_fifteen_digits_keeps_its_value(world: World, looked_at: bool):
    name = f"short_{looked_at}".lower()
    world.sql(
        f"CREATE TABLE {{db}}.{name} (price Decimal(76, 30), _slice DateTime('UTC'), _offset Int64, "
        "_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _offset"
    )
    random = Random(15)
    numbers = [of_fifteen_digits(random) for _ in range(5000)]
    place = unit(7 + looked_at)
    made = land(world.lake, place, [Event("click", f'{{"price": {number}}}') for number in numbers])
    manifest = encode(replace(made, long_numbers=looked_at))
    world.lake.put(layout.manifest(place.slice.id, place.cluster), manifest)
    world.load(world.pipeline({"click": name}), place)
    found = world.sql(f"SELECT price FROM {{db}}.{name} ORDER BY _offset")
    assert [row[0] for row in found] == [Decimal(number) for number in numbers]


def test_sixty_columns_and_nested_paths(world: World):
    wide = ", ".join(f"f{n} UInt32" for n in range(60))
    world.sql(
        f"CREATE TABLE {{db}}.wide ({wide}, login String DEFAULT 'nobody', tz LowCardinality(String), "
        "whole String, _slice DateTime('UTC'), _cluster LowCardinality(String), _offset UInt64) "
        "ENGINE = MergeTree ORDER BY _offset"
    )
    paths = {"login": "actor.login", "tz": "actor.place.tz", "whole": "actor"}
    pipeline = world.pipeline({"click": {"table": "wide", "columns": paths}})
    actors = [
        {"login": "ann", "place": {"tz": "UTC"}},
        {"login": None},
        None,
        "ann",
        ["ann", ["UTC"]],
        {"place": ["UTC"], "login": "bob"},
    ]
    numbers = {f"f{n}": n for n in range(60)}
    land(world.lake, unit(1), [event(actor=actor, **numbers) for actor in actors])
    world.load(pipeline, unit(1))
    assert world.sql("SELECT login, tz FROM {db}.wide ORDER BY _offset") == [
        ("ann", "UTC"),
        ("nobody", ""),
    ]
    assert world.sql("SELECT whole FROM {db}.wide ORDER BY _offset LIMIT 1") == [
        ('{"login":"ann","place":{"tz":"UTC"}}',)
    ]
    assert world.sql("SELECT sum(f59), sum(f0) FROM {db}.wide") == [(59 * 2, 0)]
    rejected_rows = "SELECT offset, column FROM sluice.rejected WHERE target = '{db}.wide' ORDER BY offset"
    assert world.sql(rejected_rows) == [(2, "tz"), (3, "login"), (4, "login"), (5, "tz")]


def test_an_event_that_is_no_object_is_rejected_as_a_whole(world: World):
    world.sql(
        "CREATE TABLE {db}.whole (a Nullable(String), b String, _slice DateTime('UTC'), "
        "_cluster LowCardinality(String), _offset Int64) ENGINE = MergeTree ORDER BY _offset"
    )
    pipeline = world.pipeline({"click": "whole"})
    texts = [
        '["x", "y"]',
        "5",
        '"x"',
        "null",
        '{"a": 1e999, "b": 1}',
        "{}",
        '  {"a": "spaced"}',
        '{"c": [1]}',
    ]
    land(world.lake, unit(2), [Event("click", text) for text in texts])
    world.load(pipeline, unit(2))
    assert world.sql("SELECT _offset, a, b FROM {db}.whole ORDER BY _offset") == [
        (5, None, ""),
        (6, "spaced", ""),
        (7, None, ""),
    ]
    rejected = world.sql(
        "SELECT offset, column, value, payload FROM sluice.rejected WHERE target = '{db}.whole' "
        "ORDER BY offset"
    )
    assert rejected == [(number, "", texts[number], texts[number]) for number in range(5)]


def test_defaults_materialized_alias_and_ephemeral_columns(world: World):
    world.sql(
        "CREATE TABLE {db}.defaults (n UInt16 DEFAULT 7, twice UInt32 DEFAULT n * 2, "
        "half UInt16 MATERIALIZED intDiv(n, 2), same UInt16 ALIAS n, e UInt16 EPHEMERAL 3, list "
        "Array(String) DEFAULT ['x'], "
        "_slice DateTime('UTC'), _cluster LowCardinality(String), _offset Int64) "
        "ENGINE = MergeTree ORDER BY n"
    )
    pipeline = world.pipeline({"click": "defaults"})
    land(world.lake, unit(3), [event(n=10, half=99, same=99, e=99), event(list=[]), event(n=None, twice=5)])
    world.load(pipeline, unit(3))
    found = world.sql("SELECT n, twice, half, same, list FROM {db}.defaults ORDER BY _offset")
    assert found == [(10, 20, 5, 10, ["x"]), (7, 14, 3, 7, []), (7, 5, 3, 7, ["x"])]


def test_a_new_column_fills_from_the_next_load_on(world: World, tmp_path: Path):
    world.sql(
        "CREATE TABLE {db}.grows (a String, _slice DateTime('UTC'), _cluster LowCardinality(String)) "
        "ENGINE = MergeTree ORDER BY a"
    )
    pipeline = world.pipeline({"click": "grows"})
    for hour in (4, 5):
        land(world.lake, unit(hour), [event(a="x", b=hour)])
    world.load(pipeline, unit(4))
    world.sql("ALTER TABLE {db}.grows ADD COLUMN b UInt8")
    world.load(pipeline, unit(4), unit(5))
    assert world.sql("SELECT b FROM {db}.grows ORDER BY _slice") == [(0,), (5,)]
    world.load(pipeline, unit(4), unit(5), mode="reload")
    assert world.sql("SELECT b FROM {db}.grows ORDER BY _slice") == [(4,), (5,)]


def test_of_a_field_that_is_there_twice_the_first_counts(world: World):
    """The landing refuses such an event only where it reads the field itself."""
    world.sql(
        "CREATE TABLE {db}.again (s String, n UInt64, d Decimal(9, 2), l Array(UInt8), "
        "_slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY s"
    )
    text = '{"type": "click", "s": "a", "n": 1, "d": 1.25, "l": [1], "s": "b", "n": null, "d": 2, "l": [2]}'
    pipeline = world.pipeline({"click": "again"})
    land(world.lake, unit(6), [Event("click", text)])
    world.load(pipeline, unit(6))
    assert world.sql("SELECT * EXCEPT (_slice, _cluster) FROM {db}.again") == [("a", 1, Decimal("1.25"), [1])]


def test_names_that_need_quoting(world: World):
    nasty = [
        "a`b",
        "it's",
        "back\\slash",
        "a.b",
        "{x}",
        "{y:String}",
        "sp ace",
        "é",
        "slice",
        "cluster",
        "rows",
    ]
    columns = ", ".join(
        f"`{n.replace(chr(92), chr(92) * 2).replace('`', chr(92) + '`')}` UInt8" for n in nasty
    )
    world.sql(
        f"CREATE TABLE {{db}}.`na``sty` ({columns}, _slice DateTime('UTC'), _cluster LowCardinality(String)) "
        "ENGINE = MergeTree ORDER BY _slice"
    )
    pipeline = world.pipeline({"click": "na`sty"})
    land(
        world.lake,
        unit(6),
        [event(**{name: number for number, name in enumerate(nasty)}), event(**{"a`b": -1})],
    )
    result = world.load(pipeline, unit(6))
    assert (result.summary()["rows"], result.summary()["rejected_rows"]) == (1, 1)
    [row] = world.sql("SELECT * FROM {db}.`na``sty`")
    assert row[: len(nasty)] == tuple(range(len(nasty)))
