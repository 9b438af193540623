"""The casts alone, evaluated by the server without a load: every value is exact, or is called a rejected row.

One statement for each type, so that a changed cast is known within a second; test_fuzz_columns.py and
test_load_columns.py hold the same of whole loads.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import Any

import pytest

from sluice.clients.clickhouse.client import WRITE, Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal
from sluice.clients.clickhouse.types import parse
from sluice.clients.connections import Connection
from sluice.flow.load.casts.casts import UnsupportedType, cast
from sluice.flow.load.casts.event_paths import QUOTED
from sluice.flow.load.casts.exact_numbers import EVENT, LARGE, LONG, ODD
from tests.integration.fuzz_values import KINDS, Kind, expected
from tests.integration.landed import client_of
from tests.integration.load.test_fuzz_columns import same
from tests.integration.load.test_load_columns import CASES, DEFAULT, REJECTED
from tests.mutants.server import ADDRESS
from tests.support.clickhouse_at import at
from tests.support.oracle import loads, unreadable

pytestmark = pytest.mark.integration

_ENUM, _MAPS = "Enum8('a=b' = 1, 'c' = 2)", "Array(Map(String, UInt8))"
_MAP_OF_MAPS, _DEEP = "Map(String, Map(String, UInt8))", "Array(Array(Array(UInt8)))"
_LIMITED, _SKIPPED = "JSON(max_dynamic_paths=10, max_dynamic_types = 3, a UInt8)", "JSON(SKIP b, a UInt8)"
_SIX = "JSON(a.b.c.d.e.f UInt8)"


def _of_six(token: str) -> str:
    return f'{{"a":{{"b":{{"c":{{"d":{{"e":{{"f":{token}}}}}}}}}}}}}'


ALL_CASES = [
    *CASES,
    *((_ENUM, '"a=b"', "a=b"), (_ENUM, '"a"', REJECTED), (_ENUM, '"c"', "c")),
    *((_MAPS, '[{"a": 1}, {}]', "[{'a':1},{}]"), (_MAPS, '[{"a": 256}]', REJECTED)),
    *((_MAPS, "[null]", REJECTED), (_MAPS, '[{"a": 1}, 5]', REJECTED)),
    *((_MAP_OF_MAPS, '{"x": {"a": 1}}', "{'x':{'a':1}}"), (_MAP_OF_MAPS, '{"x": null}', REJECTED)),
    *(
        (_DEEP, "[[[1], []], []]", "[[[1],[]],[]]"),
        (_DEEP, "[[[256]]]", REJECTED),
        (_DEEP, "[[null]]", REJECTED),
    ),
    *((_LIMITED, '{"a": 1, "b": 2}', '{"a":1,"b":2}'), (_LIMITED, '{"a": 256, "b": 2}', REJECTED)),
    *((_SKIPPED, '{"a": 1, "b": 2}', '{"a":1}'), (_SKIPPED, '{"a": 256}', REJECTED)),
    *((_SIX, _of_six("1"), '{"a":{"b":{"c":{"d":{"e":{"f":1}}}}}}'), (_SIX, _of_six("256"), REJECTED)),
]
TYPES = list(dict.fromkeys(kind for kind, _, _ in ALL_CASES))
BLANK = {"Array": "[]", "Map": "{}"}  # of a container without a value; a scalar is NULL
NONE_LONG = Sql("0 AS long_numbers")
# What the landing looks for before it says that an event holds no number that a double does not keep.
SIXTEEN = re.compile(r"[0-9./]{16}|[ :,\[]-?[0-9]+([.][0-9]+)?[eE]-[0-9]{3}")


@pytest.fixture(scope="module")
def client(request: pytest.FixtureRequest) -> Client:
    """`make mutants` keeps one server running for all of them."""
    if ADDRESS not in os.environ:
        return client_of(request.getfixturevalue("clickhouse_server"))
    return open_client(Connection("clickhouse_test", **at(int(os.environ[ADDRESS])).place))


def evaluate(
    client: Client, kind: str, read: str, payloads: Sequence[str], long: Sql = LONG, key: str = "k"
) -> list[tuple[bool, Any]]:
    """Of each payload whether its field `key` is a rejected row, and the value, as `read` selects it."""
    made = cast(parse(kind), "x", key=key, quoted=f"JSONType(event_text, {literal(key)}) = 'String'")
    field = literal(f"Tuple({identifier(key)} Nullable(String))")
    texts = ", ".join(map(literal, payloads))
    shared = listed([long, LARGE, EVENT, *ODD, QUOTED])
    rows = client.rows(
        f"SELECT n, {made.unfit}, {read.format('v')} FROM (SELECT n, _payload, {shared}, "
        f"tupleElement(JSONExtract(event_text, {field}), 1) AS x, {made.value} AS v FROM (SELECT "
        f"tupleElement(row, 1) AS n, tupleElement(row, 2) AS _payload FROM (SELECT "
        f"arrayJoin(arrayZip(arrayEnumerate([{texts}]), [{texts}])) AS row))) ORDER BY n",
        settings=WRITE,
    )
    assert [row[0] for row in rows] == list(range(1, len(payloads) + 1))
    return [(bool(row[1]), row[2]) for row in rows]


def event(token: str) -> str:
    return f'{{"k": {token}}}'


@pytest.mark.parametrize("kind", TYPES)
def test_values_that_were_chosen(client: Client, kind: str):
    cases = [(token, said) for one, token, said in ALL_CASES if one == kind and token != "nan_word"]
    found = evaluate(client, kind, "toString({})", [event(token) for token, _ in cases])
    blank = BLANK.get(parse(kind).plain.name)
    wanted = [blank if said is DEFAULT or said is None else said for _, said in cases]
    said = [REJECTED if unfit else value for unfit, value in found]
    assert dict(zip(cases, said, strict=True)) == dict(zip(cases, wanted, strict=True))


@pytest.mark.parametrize(
    ("kind", "token", "other", "value"),
    [
        ("UInt8", "72", "71.99999999999999999", "72"),
        ("Int128", "72", "71.99999999999999999", "72"),
        ("Decimal(18, 4)", "71.99", "71.990000000000000001", "71.99"),
        ("Bool", "1", "1.0000000000000000001", "true"),
        ("DateTime64(3, 'UTC')", "1714557600.125", "1714557600.12500000000000001", "2024-05-01 10:00:00.125"),
    ],
)
def test_a_number_that_stands_as_its_fields_value_is_exact(
    client: Client, kind: str, token: str, other: str, value: str
):
    # Another number of the event is the same double: where the field is not spelled so, it may be that one.
    spelled = [f'{{"k": {token}, "z": {other}}}', f'{{"z": {other}, "k":{token}}}']
    assert evaluate(client, kind, "toString({})", spelled) == [(False, value)] * 2
    [(unfit, _)] = evaluate(client, kind, "toString({})", [f'{{"k" : {token}, "z": {other}}}'])
    assert unfit


# What stands beside the field, in an event with a long number: none of it is another number's double.
_BESIDE = [
    *("-0.0", "0.0", "-0", "-0E5", "0e-400", "-0.00000000000000000000", "[1e300,-0.0]", "1e2", "100.0"),
    *("10e1", "1000e-1", '"10.0.0.1"', '"1.2.3.4.5.6.7.8.9.10.11.12"', '"2026.11.20.10.00.00.000"'),
    *('"a11e-4007"', '{"0.10.0":"1.0.0"}', '"1e-400"', '"-100.00000000000000000001"'),
]
_LONGS = ["0.23433096706867218", "1.2345678901234568e17", "-252462940612453.52", "1e-320"]


@pytest.mark.parametrize(
    ("kind", "token", "value"),
    [
        ("Array(Int64)", "[0,1,100]", "[0,1,100]"),
        ("Array(Nullable(Decimal(9, 4)))", "[0.0,null,100]", "[0,NULL,100]"),
        ("Map(String, UInt8)", '{"a":0,"b":100}', "{'a':0,'b':100}"),
        ("Array(Bool)", "[0,1]", "[false,true]"),
        ("Int64", "  0", "0"),
        ("UInt256", "  100", "100"),
        ("Decimal(18, 4)", "  100", "100"),
        ("Bool", "  0 ", "false"),
    ],
)
def test_what_else_an_event_holds_makes_no_rejected_row(client: Client, kind: str, token: str, value: str):
    spelled = [f'{{"k":{token},"f":{one},"g":{long}}}' for one in _BESIDE for long in _LONGS]
    spelled += [f'{{"g":{long},"f":{one} ,"k":{token}}}' for one in _BESIDE for long in _LONGS]
    found = evaluate(client, kind, "toString({})", spelled)
    assert {text: said for text, said in zip(spelled, found, strict=True) if said != (False, value)} == {}


@pytest.mark.parametrize(
    ("kind", "token"),
    [("Array(Int64)", "[ 100]"), ("Map(String, Int8)", '{"a": 100 }'), ("Decimal(9, 2)", "  100")],
)
@pytest.mark.parametrize(
    "other", ["100.00000000000000000001", "99.999999999999999999", "0.100000000000000000001e3"]
)
def test_another_number_of_the_same_double_does(client: Client, kind: str, token: str, other: str):
    """Which of the two the field was, nobody can tell from the double."""
    spelled = [f'{{"k":{token},"f":{other}}}', f'{{"f":[-0.0,{other}],"k":{token}}}']
    assert [unfit for unfit, _ in evaluate(client, kind, "toString({})", spelled)] == [True, True]


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("Tuple()", r"^Tuple\(\)$"),
        ("Array(Tuple(a UInt8, b Nothing))", "^Nothing$"),
        ("JSON(a.b.c.d.e.f.g UInt8)", r"^JSON\(a.b.c.d.e.f.g UInt8\)$"),
    ],
)
def test_a_type_that_no_value_fits_is_named(kind: str, named: str):
    with pytest.raises(UnsupportedType, match=named):
        cast(parse(kind), "x")


def wrong(kind: Kind, token: str, unfit: bool, value: Any) -> bool:
    verdict = expected(kind, token)
    if token == "null":
        return unfit or (value is not None and value not in ([], {}))
    if verdict is None or unfit:
        return not unfit or (verdict is not None and verdict.certain)
    return not same(verdict.value, value)


def tried(client: Client, kind: Kind, tokens: Sequence[str]) -> list[tuple]:
    """What is wrong: of all tokens as they are, and of those without long numbers as the manifests say it."""
    readable = [token for token in tokens if not unreadable(loads(token))]
    short = [token for token in readable if not SIXTEEN.search(event(token))]
    found = []
    for some, long in ((readable, LONG), (short, NONE_LONG)):
        judged = evaluate(client, kind.type, kind.read, [event(token) for token in some], long)
        found += [
            (token, *said) for token, said in zip(some, judged, strict=True) if wrong(kind, token, *said)
        ]
    return found


_EDGES = sorted(
    {
        edge + by
        for bits in (7, 8, 16, 31, 32, 53, 63, 64, 128, 255)
        for edge in (0, 1 << bits)
        for by in (-1, 0, 1)
    }
)
_WHOLE = [*map(str, _EDGES), *(f"-{edge}" for edge in _EDGES if edge > 0)]
_FRACTIONS = [
    *(
        "1.5",
        "1.50",
        "-1.23",
        "12.345",
        "0.0001",
        "0.00001",
        "999.99",
        "999.995",
        "1000.00",
        "9999999.99",
        "0.1",
    ),
    *(
        "12345678901234.5",
        "123456789012345.6",
        "0.123456789012345",
        "0.1234567890123456",
        "72.0",
        "71.99999999999999999",
    ),
    *(
        "1e3",
        "1E3",
        "1e-4",
        "12500e-4",
        "12505e-5",
        "1.5e20",
        "1e30",
        "1e-30",
        "1e308",
        "900719925474099e2",
    ),
    # Below a double's range, where the parser reads 0, and at its end.
    *("1e-400", "-1E-400", "0.1e-0400", "12345678901234e-999", "2e-324", "4e-324", "0e-400"),
]
_NO_NUMBERS = [
    "",
    " ",
    "nan",
    "inf",
    "0x10",
    "+5",
    "007",
    "1_000",
    " 12",
    "12 ",
    "-",
    ".5",
    "5.",
    "-0",
    "1.2.3",
    "e5",
    "1e",
]
_DAYS = [
    *(
        "1969-12-31",
        "1970-01-01",
        "1900-01-01",
        "1899-12-31",
        "2106-02-07",
        "2149-06-06",
        "2149-06-07",
        "2299-12-31",
    ),
    *(
        "2300-01-01",
        "2024-02-29",
        "2023-02-29",
        "2024-02-30",
        "2024-13-01",
        "2024-00-10",
        "2024-01-32",
        "0000-00-00",
    ),
]
_CLOCKS = [
    *(
        "T00:00:00Z",
        "T23:59:59Z",
        " 06:28:15",
        " 06:28:16",
        "T24:00:00Z",
        "T10:60:00Z",
        "T10:11:60Z",
        "T10:11",
        "T10",
    ),
    *(
        "T10:11:12.1Z",
        "T10:11:12.123456789Z",
        "T10:11:12.1239",
        "T23:30:00-02:00",
        "T00:30:00+0530",
        "T01:00:00+24:00",
    ),
    *("t10:11:12Z", "T10:11:12z", "T10:11:12 UTC", "T1:11:12Z", "T10:11:12.Z", "T10:11:12+14:00"),
]
_STAMPS = [
    "1714557600",
    "1714557600.125",
    "1714557600123",
    "999999999",
    "10000000000",
    "4294967295",
    "4294967296",
    "9017815302.905389",
]
_NUMBERS = [*_WHOLE, *_FRACTIONS]
_TEXTS = [*_NO_NUMBERS, "a", "it's, (b)", "é", "abcdef", "abcdefg", "true", "false", "TRUE", "null"]
_TIMES = [
    *(day + clock for day in _DAYS for clock in ("", "T12:00:00Z")),
    *(f"2024-05-01{clock}" for clock in _CLOCKS),
    *_STAMPS,
]
_NETWORK = ["1.2.3.4", "1.2.3", "1.2.3.256", "fe80::1", "fe80::1%eth0", "::ffff:1.2.3.4", "1::2::3"]
_UUIDS = [
    "123e4567-e89b-12d3-a456-426614174000",
    "123E4567-E89B-12D3-A456-426614174000",
    "123e4567e89b12d3a456426614174000",
    "123e4567-e89b-12d3-a456-42661417400g",
]
_OTHERS = [
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "[1]",
    "[1, null]",
    '{"a": 1}',
    '{"a": null}',
    '["2024-05-01", "x"]',
    "[[1]]",
    # Strings that read as containers.
    *('"[]"', '"{}"', '"[1]"', '"{\\"a\\": 1}"', '"\\u005b1]"', '"\\u007B}"', '["[1]"]', '{"a": "[1]"}'),
    *('["{\\"a\\": 1}"]', '{"a": {"a": "[1]"}}', '[["[1]"], "[]"]', '{"a": "{}"}', '[1, "[1]"]'),
]


def tokens(kind: Kind) -> list[str]:
    """JSON texts at the edges of the type, each as a number and as a string where both can be."""
    plain = parse(kind.type).plain
    of_times = plain.name.startswith("Date") or plain.text.startswith("Array(Date")
    numbers = ["0", "-1", "1.5", *_STAMPS] if of_times else [*_NUMBERS, *_STAMPS]
    texts = [*numbers, *_TEXTS, *_NETWORK, *_UUIDS, *(_TIMES if of_times else _TIMES[:5])]
    found = [*numbers, *_OTHERS, *(json.dumps(text, ensure_ascii=False) for text in texts)]
    if plain.name in ("Array", "Map"):
        inside = ("[{}]", "[1, {}]") if plain.name == "Array" else ('{{"a": {}}}', '{{"a": 1, "é": {}}}')
        found = [*_OTHERS, *(form.format(token) for token in found for form in inside)]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.type)
def test_any_value(client: Client, kind: Kind):
    assert tried(client, kind, tokens(kind)) == []
