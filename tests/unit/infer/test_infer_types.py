"""Types from values: a table of cases, judged by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest

from sluice.infer.infer import column
from sluice.infer.types import JSON, ArrayOf, Leaf, MapOf, Rules, TupleOf, unfit
from sluice.infer.values import loads

UUID = "1e6b1e5c-6f5e-4f0c-9a52-0f6f0c2e8a11"
TIME3, TIME6, TIME9 = (f"DateTime64({digits}, 'UTC')" for digits in (3, 6, 9))
MONEY = "Decimal(18, 2)"


def of(texts: list[str], name: str = "x", missing: int = 0, always: bool = True, **rules):
    """The column for values as JSON texts, in a field that `missing` more events lack; `always`: of which
    somebody says that no event lacks it."""
    return column(name, [loads(text) for text in texts], len(texts) + missing, Rules(**rules), always)


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


UNREAD = {"beyond a double nothing is read": 1, "beyond a double beside others": 1}
CASES: list[tuple[str, str, list[str], str]] = [
    # what it shows, the field's name, its values, its type
    ("truth", "x", ["true", "false"], "Bool"),
    ("counts have room to grow", "x", ["1", "2"], "UInt64"),
    ("any below zero", "x", ["1", "-2"], "Int64"),
    ("the last of 64 bits", "x", ["18446744073709551615"], "UInt64"),
    ("both edges of 64 bits", "x", ["-1", "18446744073709551615"], "Int128"),
    ("beyond 64 bits, a text to a load", "x", ["18446744073709551616"], "String"),
    (
        "beyond 64 bits in arrays and objects",
        "x",
        ['[18446744073709551616, {"a": -1e3}]', "[]"],
        "Array(String)",
    ),
    ("beyond a double beside others", "x", ["18446744073709551616", "1e400"], "String"),
    (
        "one of many fractions is a whole number beyond 64 bits",
        "x",
        [*["1.123"] * 1_000, "1" + "0" * 20],
        "Float64",
    ),
    ("beyond a double nothing is read", "x", ["1e400"], "String"),
    ("fractions", "x", ["1", "2.123456"], "Float64"),
    ("few fractions are no money yet", "x", ["1.25"] * 19, "Float64"),
    ("many fractions with few digits", "x", ["1.25", "7"] * 20, MONEY),
    ("money by its name", "total", ["1.5"], MONEY),
    ("money by a name of two words", "unitPrice", ["12.3456"], "Decimal(18, 4)"),
    ("money with too many digits", "price", ["1.23456"], "Float64"),
    ("much money", "total", ["99999999999999.5"], "Decimal(38, 2)"),
    ("more digits than a double has", "total", ["1234567890123456.5"], "Float64"),
    ("texts of money", "total_price", ['"12.50"', '"0"', '"-3.1"'], MONEY),
    ("texts of money, finer", "unit_price", ['"0.1234"'], "Decimal(18, 4)"),
    ("texts of much money", "total", ['"12345678901234.50"'], "Decimal(38, 2)"),
    ("texts of money with too many digits", "price", ['"0.12345"'], "String"),
    ("texts of money and another", "price", ['"1.50"', '"free"'], "String"),
    ("texts of numbers that may be versions", "release", ['"1.10"', '"1.9"'], "String"),
    ("texts of money that are none", "price", ['"1,50"'], "String"),
    ("a name of money and no number", "bid_id", ['"007"'], "String"),
    ("exponents", "x", ["1e5", "2e-9"], "Float64"),
    ("truth is no number", "x", ["1", "true"], "String"),
    ("a quoted number is a text", "x", ["1", '"1"'], "String"),
    ("ISO 8601", "x", ['"2026-11-20T10:00:00Z"', '"2026-11-20 10:00"'], TIME3),
    ("RFC 3339", "x", ['"2026-11-20t10:00:00.5+01:00"'], TIME3),
    ("microseconds", "x", ['"2026-11-20T10:00:00.123456+0100"', '"2026-11-20T10:00:00Z"'], TIME6),
    ("nanoseconds", "x", ['"2026-11-20T10:00:00.123456789Z"'], TIME9),
    ("nanoseconds that 64 bits do not hold", "x", ['"2262-11-20T10:00:00.123456789Z"'], "String"),
    ("no such day", "x", ['"2026-02-30T10:00:00Z"'], "String"),
    ("a zone that no place has", "x", ['"2026-02-20T10:00:00+15:00"'], "String"),
    ("the farthest zone", "x", ['"2026-02-20T10:00:00+14:00"'], TIME3),
    ("no such hour", "x", ['"2026-02-20T24:00:00Z"'], "String"),
    ("before what a column holds", "x", ['"1899-12-31T23:59:59Z"'], "String"),
    ("the first instant, said in another zone", "x", ['"1899-12-31T23:00:00-01:00"'], TIME3),
    ("seconds since 1970", "created_at", ["1700000000", "1700000001"], TIME3),
    ("milliseconds since 1970", "eventTime", ["1700000000123"], TIME3),
    ("seconds with microseconds", "ts", ["1700000000.123456"], TIME6),
    ("seconds in a field that names no time", "user_id", ["1700000000"], "UInt64"),
    ("a time that is 0", "created_at", ["1700000000", "0"], TIME3),
    ("times before 1970", "created_at", ["1700000000", "-86400", "1700000001"], TIME3),
    ("mostly no times", "created_at", ["1700000000", "7", "8"], "UInt64"),
    ("two units beside a small number", "ts", ["1700000000", "1700000000123", "7"], "UInt64"),
    ("days", "x", ['"2026-11-20"', '"1999-01-31"'], "Date"),
    ("old days", "x", ['"1960-11-20"'], "Date32"),
    ("no such month", "x", ['"2026-13-01"'], "String"),
    ("UUIDs", "x", [f'"{UUID}"', f'"{UUID.upper()}"'], "UUID"),
    ("a UUID without its signs", "x", [f'"{UUID.replace("-", "")}"'], "String"),
    ("IPv4", "x", ['"10.0.0.1"'], "IPv4"),
    ("no IPv4", "x", ['"10.0.0.256"'], "String"),
    ("IPv6, and IPv4 beside it", "x", ['"2001:db8::1"', '"10.0.0.1"'], "IPv6"),
    ("an address of one machine", "x", ['"fe80::1%eth0"'], "String"),
    ("empty texts", "x", ['""'], "String"),
    ("few texts", "x", ['"de"', '"us"'] * 20, "LowCardinality(String)"),
    ("many texts", "x", [f'"u{n}"' for n in range(40)], "String"),
    ("few values", "x", ['"de"'] * 19, "String"),
    ("nothing", "x", [], "String"),
    ("arrays", "x", ['["a"]', "[]"], "Array(String)"),
    ("empty arrays", "x", ["[]"], "Array(String)"),
    ("null in an array", "x", ["[1, null]"], "Array(Nullable(UInt64))"),
    ("arrays of arrays", "x", ["[[1]]", "[[2], []]"], "Array(Array(UInt64))"),
    ("null beside an array in one", "x", ["[[1], null]"], "String"),
    ("an array of all kinds", "x", ['[1, "a", {}]'], "Array(String)"),
    ("arrays in a Tuple need it in each row", "x", ['{"a": 1, "b": []}'] * 99, "JSON"),
    (
        "stable objects",
        "x",
        ['{"id": 1, "login": "a"}', '{"id": 2, "login": "b"}'] * 50,
        "Tuple(`id` UInt64, `login` LowCardinality(String))",
    ),
    (
        "few objects: each element may be missing in the next",
        "x",
        ['{"id": 1}'] * 99,
        "Tuple(`id` Nullable(UInt64))",
    ),
    (
        "an element that is missing",
        "x",
        ['{"id": 1}'] * 150 + ['{"id": 1, "n": 1}'] * 150,
        "Tuple(`id` UInt64, `n` Nullable(UInt64))",
    ),
    ("an element that is null", "x", ['{"id": 1}'] * 150 + ['{"id": null}'], "Tuple(`id` Nullable(UInt64))"),
    ("an array that is missing", "x", ['{"id": 1}', '{"id": 1, "n": []}'] * 100, "JSON"),
    (
        "objects in stable objects",
        "x",
        ['{"a": {"b": {"c": 1.5, "price": 1.5}}}'] * 100,
        f"Tuple(`a` Tuple(`b` Tuple(`c` {MONEY}, `price` {MONEY})))",
    ),
    (
        "an array of objects",
        "x",
        ['[{"sku": "a", "n": [1]}, {"sku": "b", "n": []}]'] * 100,
        "Array(Tuple(`sku` LowCardinality(String), `n` Array(UInt64)))",
    ),
    ("an array of objects that move", "x", ['[{"a": 1}, {"b": 1}, {"c": []}]'], "Array(JSON)"),
    ("keys that come and go", "x", ['{"a": 1}', '{"b": 1}', '{"c": 1}'], "JSON"),
    ("empty objects", "x", ["{}"], "JSON"),
    (
        "many keys with one type of value",
        "x",
        [f'{{"u{n}": {n}, "u{n + 1}": 1}}' for n in range(30)],
        "Map(String, UInt64)",
    ),
    (
        "of which some are null",
        "x",
        [f'{{"u{n}": {n}, "v{n}": null}}' for n in range(30)],
        "Map(String, Nullable(UInt64))",
    ),
    (
        "many keys with arrays",
        "x",
        [f'{{"u{n}": ["a"]}}' for n in range(30)],
        "Map(String, Array(LowCardinality(String)))",
    ),
    ("many keys with several types", "x", [f'{{"u{n}": {n}, "v{n}": "a"}}' for n in range(30)], "JSON"),
    ("a key with a dot", "x", ['{"a.b": 1}'], "String"),
    ("a key with a dot deep inside", "x", ['{"a": [{"b": {"c.d": 1}}]}'], "String"),
    ("a key without a letter", "x", ['{"": 1}'], "String"),
    ("a key that no element may have", "x", ['{"null": 1}'] * 100, "JSON"),
    ("a key with quotes", "x", ['{"a`\'\\"": 1}'] * 100, "JSON"),
    ("a key twice", "x", ['{"a": 1, "a": 2}', '{"b": 1}', '{"c": 1}'], "String"),
    ("half a surrogate", "x", ['{"a": "\\ud800"}', '{"b": 1}', '{"c": 1}'], "String"),
    ("deep objects", "x", [nested(50)], "JSON"),
    ("many deep objects", "x", [nested(50)] * 100, "Tuple(" + "`a` Tuple(" * 4 + "`a` JSON" + ")" * 5),
    ("deeper than a document", "x", [nested(900)], "Tuple(`a` Nullable(String))"),
    ("deep arrays", "x", ["[" * 50 + "]" * 50], "Array(Array(Array(Array(Array(String)))))"),
]


@pytest.mark.parametrize(("shows", "name", "values", "expected"), CASES, ids=[case[0] for case in CASES])
def test_types_from_values(shows: str, name: str, values: list[str], expected: str):
    found = of(values, name)
    assert (found.type, found.refused) == (expected, UNREAD.get(shows, 0))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1"], "Nullable(UInt64)"),
        (["1", "null"], "Nullable(UInt64)"),
        (['["a"]'], "Array(String)"),
        (['{"a": []}'], "JSON"),
        (['"de"', '"us"', "null"] * 20, "LowCardinality(Nullable(String))"),
        (["null"], "Nullable(String)"),
        (
            ['{"id": 1, "in": {"v": "a"}}'] * 100,
            "Tuple(`id` Nullable(UInt64), `in` Tuple(`v` LowCardinality(Nullable(String))))",
        ),
        (['{"id": 1, "tags": []}'] * 100, "JSON"),
        (['{"id": 1, "in": {"v": {"w": []}}}'] * 100, "JSON"),
        (['{"a.b": 1}'], "Nullable(String)"),
    ],
)
def test_what_may_lack_is_nullable(values: list[str], expected: str):
    assert of(values, missing=1).type == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1"], "Nullable(UInt64)"),
        (['"de"', '"us"'] * 20, "LowCardinality(Nullable(String))"),
        (['["a"]'], "Array(String)"),
        (["[1, null]"], "Array(Nullable(UInt64))"),
        (['{"a": 1, "b": 2}'] * 100, "Tuple(`a` Nullable(UInt64), `b` Nullable(UInt64))"),
        (
            ['{"id": 1, "in": {"v": 1, "tags": []}, "tags": [1]}'] * 100,
            "Tuple(`id` Nullable(UInt64), `in` Tuple(`v` Nullable(UInt64), `tags` Array(String)), "
            "`tags` Array(UInt64))",
        ),
        (['{"a": []}'], "JSON"),
        ([f'{{"u{n}": {n}, "u{n + 1}": 1}}' for n in range(30)], "Map(String, UInt64)"),
    ],
)
def test_what_no_sampled_event_lacks_may_still_be_missing(values: list[str], expected: str):
    found = of(values, always=False)
    assert (found.type, found.refused, found.present) == (expected, 0, len(values))


@pytest.mark.parametrize(
    ("name", "events", "missing", "expected"),
    [
        ("orderId", 10_000, 0, "UInt64"),
        ("user_uuid", 10_000, 0, "UInt64"),
        ("sent", 10_000, 0, "UInt64"),
        ("order_id", 9_999, 0, "Nullable(UInt64)"),
        ("order_id", 10_000, 1, "Nullable(UInt64)"),
        ("amount", 10_000, 0, "Nullable(UInt64)"),
        ("humid", 10_000, 0, "Nullable(UInt64)"),
    ],
)
def test_an_identifier_and_a_time_that_many_events_have(name: str, events: int, missing: int, expected: str):
    assert of(["7"] * events, name, missing, always=False).type == expected


def test_a_few_unfit_do_not_make_a_text():
    """One in a thousand, or as the rules say; each is named."""
    prices = [f"{n}.5" for n in range(4_999)]
    found = of([*prices, '"twelve"'], "total")
    assert found.type == "Decimal(18, 2)"
    assert found.warning == "1 of 5,000 would be rejected: a text of 6 characters"
    assert found.warning in found.comment
    assert of([*prices[:998], '"twelve"'], "total").type == "String"
    assert of([*prices[:998], '"twelve"'], "total", unfit_values=0.01).warning.startswith("1 of 999")
    assert of([*prices, *['"twelve"'] * 6], "total").type == "String"
    assert of([*prices, '"twelve"'], "total", unfit_values=0.0).type == "String"


def test_unfit_inside_name_their_path_and_add_up():
    items = ['{"items": [{"n": 1, "p": 2}, {"n": 3, "p": 4}]}'] * 2_000
    found = of([*items, '{"items": [{"n": 1, "p": 1}, {"n": "x", "p": 1}]}'])
    assert found.type == "Tuple(`items` Array(Tuple(`n` UInt64, `p` UInt64)))"
    assert found.warning == "1 of 2,001 would be rejected: .items[1].n is a text of 1 characters"
    odd = [
        '{"items": [{"n": "x", "p": 1}]}',
        '{"items": [{"n": 1, "p": "y"}]}',
        '{"items": [{"n": 1, "p": "z"}]}',
    ]
    found = of([*items, *odd])
    assert (found.type, found.refused) == ("Tuple(`items` Array(Tuple(`n` String, `p` String)))", 0)


def test_a_time_that_is_0_may_be_a_unfit():
    found = of([*["1700000000"] * 2_000, "0"], "created_at")
    assert (found.type, found.warning) == (TIME3, "1 of 2,001 would be rejected: a number")


def test_a_type_that_no_load_fills_is_not_proposed():
    def no_tuple(kind: str) -> bool:
        return "Tuple" not in kind

    assert of(['{"id": 1}'] * 100, fills=no_tuple).type == "JSON"
    assert of(['[{"id": 1}]'] * 100, fills=no_tuple).type == "Array(JSON)"
    assert of(['[{"id": 1}]'] * 100, fills=lambda kind: kind == "String").type == "String"


@pytest.mark.parametrize(
    ("values", "missing", "comment"),
    [
        (["1", "2"], 0, "in all 2 events; whole numbers of at most 1 digit"),
        (["1000"] * 3, 1, "in 75.0 % of 4 events; whole numbers of at most 4 digits"),
        (['"x"'] * 9_999, 1, "in 99.9 % of 10,000 events; 1 different text; at most 1 characters"),
        (
            ['{"a": [1], "b": "c"}'],
            0,
            "in all 1 events; only 1 objects show a container at one of their keys, which a Tuple needs in "
            "each row",
        ),
        (['"\\u001b[31m\\n\'"'], 0, "in all 1 events; 1 different text; at most 7 characters"),
    ],
)
def test_comments_say_how_many_and_why(values: list[str], missing: int, comment: str):
    assert of(values, missing=missing).comment == comment


def test_a_comment_has_a_bound():
    found = of([f'"{n}{"x" * 10_000}"' for n in range(9)])
    assert len(found.comment) <= 401 and "x" * 61 not in found.comment
    deep = of([nested(900), "[" * 900 + "]" * 900, '{"' + "k" * 10_000 + '": 1}'])
    assert len(deep.comment) <= 401


PLACE = TupleOf((("a", Leaf("UInt64")), ("b", ArrayOf(Leaf("Bool", nullable=True)))))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Leaf("Decimal", (18, 2)), "1.25", None),
        (Leaf("Decimal", (18, 2)), "1.255", ("", Decimal("1.255"))),
        (Leaf("Decimal", (4, 2)), "100", ("", 100)),
        (Leaf("Decimal", (4, 2)), '"99.25"', None),
        (Leaf("Decimal", (4, 2)), '"100"', ("", "100")),
        (Leaf("Decimal", (4, 2)), '"1.255"', ("", "1.255")),
        (Leaf("Decimal", (4, 2)), '"+1"', ("", "+1")),
        (Leaf("Decimal", (38, 2)), "1234567890123456.5", ("", Decimal("1234567890123456.5"))),
        (Leaf("DateTime64", (9,)), '"2262-11-20T10:00:00Z"', ("", "2262-11-20T10:00:00Z")),
        (Leaf("DateTime64", (3,)), '"2262-11-20T10:00:00Z"', None),
        (Leaf("UInt64"), "1.5", ("", Decimal("1.5"))),
        (Leaf("Bool"), "1", ("", 1)),
        (JSON, "[]", ("", [])),
        (PLACE, '{"a": 1, "b": [null, true], "more": 1}', None),
        (PLACE, '{"b": []}', (".a", None)),
        (PLACE, '{"a": 1, "b": null}', (".b", None)),
        (PLACE, '{"a": 1, "b": [true, "x"]}', (".b[1]", "x")),
        (PLACE, "3", ("", 3)),
        (MapOf(ArrayOf(PLACE)), '{"k": [{"a": 1, "b": []}, {"a": -1, "b": []}]}', ("[][1].a", -1)),
        (MapOf(Leaf("UInt64")), '{"k": null}', ("[]", None)),
    ],
)
def test_the_first_place_that_does_not_fit(kind, value: str, expected):
    assert unfit(kind, loads(value)) == expected
