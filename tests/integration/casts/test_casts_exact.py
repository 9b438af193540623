"""Numbers of which a double keeps less than was written: each is what was written, or a rejected row.

The values are written here, digit by digit: nothing is computed.
"""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.client import WRITE, Client
from sluice.clients.clickhouse.types import parse
from sluice.flow.load.casts.casts import cast
from tests.integration.casts import test_casts_evaluated
from tests.integration.casts.test_casts_evaluated import evaluate

pytestmark = pytest.mark.integration

client = test_casts_evaluated.client
REJECTED = None
OTHER = "71.99999999999999999"  # is the double 72
LONG_ONE = "0.23433096706867218"
CASES: list[tuple[str, str, str | None]] = [
    # Zeros at the end say nothing.
    *(("Decimal(9, 2)", f'{{"k" : {token}}}', "1.1") for token in (f"1.1{'0' * n}" for n in (0, 14, 15, 20))),
    ("Decimal(9, 2)", '{"k" : 1.01000000000000000}', "1.01"),
    ("Int64", '{"k" : 20.000000000000000000}', "20"),
    ("Int64", '{"k" : -1000000000000000.0}', "-1000000000000000"),
    # Sixteen digits and more, with the point at every place.
    ("Decimal(18, 2)", '{"k": 900719925474099.27}', "900719925474099.27"),
    ("Decimal(18, 2)", '{"k": 900719925474099.27, "z": 900719925474099.271}', REJECTED),
    ("Decimal(18, 1)", '{"k": 900719925474099.27}', REJECTED),
    ("Decimal(38, 18)", '{"k": 0.123456789012345678}', "0.123456789012345678"),
    ("Decimal(38, 18)", '{"k": 1.23456789012345678e-1}', "0.123456789012345678"),
    ("Decimal(18, 2)", '{"k": 71.990000000000000001}', REJECTED),
    ("Array(Decimal(18, 2))", '{"k": [900719925474099.27, 1.5]}', "[900719925474099.27,1.5]"),
    ("Decimal(18, 2)", '{"k": 12345678901234.56}', "12345678901234.56"),
    *(
        ("Decimal(38, 18)", f'{{"k": {digits[:n]}.{digits[n:]}}}', f"{digits[:n]}.{digits[n:]}")
        for digits in ("90071992547409927", "72057594037927951")
        for n in range(1, 17)
    ),
    # With an exponent in place of a point.
    *(
        ("Int64", f'{{"k": {digits}{e}0}}', REJECTED)
        for digits in ("9007199254740993", "9999999999999999", "1111111111111113")
        for e in "eE"
    ),
    ("Int64", '{"k": 1.00000000000000000001e+2}', REJECTED),
    ("Int64", '{"k": 1.00000000000000000001E2}', REJECTED),
    ("Int64", '{"k": 1e0000000000000005}', "100000"),
    ("Int64", '{"k" : 100000, "z": [1e0000000000000005, 12345678901234.5]}', "100000"),
    ("Decimal(18, 8)", f'{{"k": 1.2345678901234e5, "z": {LONG_ONE}}}', "123456.78901234"),
    ("Decimal(18, 9)", f'{{"k": 1.23456789012345e5, "z": {LONG_ONE}}}', "123456.789012345"),
    ("Int64", f'{{"k" : 100, "z": [{LONG_ONE}, 1.00000000000000000001e+2]}}', REJECTED),
    ("Int64", f'{{"k" : 100, "z": [{LONG_ONE}, 1.00000000000000000001e2]}}', REJECTED),
    # Too small for a double.
    *(
        ("Int64", f'{{"k": {token}}}', REJECTED)
        for token in ("1e-400", "10e-400", "1.05e-400", "2.5e-400", "-0.01E-399", "90.90e-410", "5e-0400")
    ),
    *(("Int64", f'{{"k":[{token}]}}', REJECTED) for token in ("10e-400", "1.05e-400")),
    ("Array(Int64)", '{"k":[10e-400]}', REJECTED),
    ("Array(Int64)", '{"k":[0e-400]}', "[0]"),
    # Beside another number of the same double: it is what stands there as the field's value.
    *(
        ("Int64", text.replace("?", OTHER), "72")
        for text in (
            *('{"z":?,"k":72}', '{"z":?,"k":72,"y":1}', '{"z":?,"k": 72}', '{"z":?,"k": 72, "y":1}'),
            *('{"z":?,"k":"72"}', '{"z":?,"k": "72"}'),
        )
    ),
    ("Int64", f'{{"z":{OTHER},"k" :72}}', REJECTED),
    ("Int64", f'{{"z":{{"k":72}},"k":{OTHER}}}', REJECTED),
    ("Int64", f'{{"z":{{"k":72}},"\\u006b":{OTHER}}}', REJECTED),
    ("Int64", f'{{"z":["]"],"k":72,"y":{OTHER}}}', "72"),
    # A number that reads as the name of an Enum.
    *(
        ("Enum8('0' = 1, '72' = 2, '100' = 3)", f'{{"k": {token}}}', value)
        for token, value in (
            *(("0", "0"), ("72", "72"), ('"72"', "72"), ("100", "100"), ("1e2", "100")),
            *((OTHER, REJECTED), ("1e-400", REJECTED), ("99.999999999999999999", REJECTED)),
        )
    ),
    *(
        ("Enum8('0' = 1, 'a' = 2)", f'{{"k": {token}}}', value)
        for token, value in (("0", "0"), ("1e-400", None))
    ),
    *(("Enum8('72' = 1)", f'{{"k": {token}}}', value) for token, value in (("72", "72"), (OTHER, None))),
    # Beside a number of the same double an element may be either; beside another one it is what it says.
    ("Map(String, Int64)", '{"k":{"a":1},"z":1.00000000000000000001}', REJECTED),
    ("Map(String, Int64)", '{"k":{"a":1},"z":0.30000000000000000004}', "{'a':1}"),
    # A text has the numbers as the event spells them, unless it is not known which of them is meant.
    *(
        ("String", f'{{"k":{value}{beside}}}', said)
        for value, beside, said in (
            ('{"n":99999999999999.99}', "", '{"n":99999999999999.99}'),
            ('{"n":99999999999999.99,"m":99999999999999.991}', "", REJECTED),
            ('{"n":0.1}', ',"z":0.1000000000000000055', REJECTED),
            ('{"n":0.1}', ',"z":0.1000000000000001', '{"n":0.1}'),
            ("99999999999999.990", "", "99999999999999.99"),
            ('"99999999999999.98"', ',"z":99999999999999.99', "99999999999999.98"),
            ("99999999999999.99", ',"z":"a: 99999999999999.991, b"', "99999999999999.99"),
            ("1e-400", "", "1e-400"),
            ("1e-400", ',"z":0.0', REJECTED),
            ('{"n":20000000000000000000}', "", '{"n":20000000000000000000}'),
            ('{"n":20000000000000000000,"m":"20000000000000000000"}', "", REJECTED),
            ('["a 20000000000000000000 b"]', ',"z":20000000000000000000', '["a 20000000000000000000 b"]'),
        )
    ),
    *(
        ("Array(String)", f'{{"k":[{value}]}}', said)
        for value, said in (
            (
                '{"n":20000000000000000000},99999999999999.99',
                """['{"n":20000000000000000000}','99999999999999.99']""",
            ),
            ('{"n":20000000000000000000},"20000000000000000000"', REJECTED),
        )
    ),
    # An element has no key of its own, whichever stands beside it: not even the empty one.
    *(
        (kind, f'{{"k":{container},"{key}":72}}', REJECTED)
        for kind, container in (("Array(Int64)", f"[{OTHER}]"), ("Map(String, Int64)", f'{{"a":{OTHER}}}'))
        for key in ("", "x", "x0", "XXXX")
    ),
]


@pytest.mark.parametrize("kind", dict.fromkeys(kind for kind, _, _ in CASES))
def test_a_number_is_what_was_written(client: Client, kind: str):
    cases = {payload: value for one, payload, value in CASES if one == kind}
    found = evaluate(client, kind, "toString({})", list(cases))
    said = {
        payload: REJECTED if unfit else value for payload, (unfit, value) in zip(cases, found, strict=True)
    }
    assert said == cases


@pytest.mark.parametrize("key", ["é", "\u20ac", 'a"b', "a'b", "a b", "ÿ.z"])
def test_a_key_is_found_as_it_is_written(client: Client, key: str):
    name = key.replace('"', '\\"')
    payload = f'{{"z":{OTHER},"{name}":72}}'
    found = evaluate(client, "Int64", "toString({})", [payload], key=key)
    assert found == [
        (True, None) if '"' in key else (False, "72")
    ]  # an escaped one may be spelled in other ways


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("Int64", "72", "72"),
        ("Decimal(18, 4)", "71.99", "71.99"),
        ("Decimal(38, 20)", "71.99999999999999999999", "71.99999999999999999999"),
        ("Decimal(18, 4)", "71.99999", REJECTED),
        ("Bool", "1", "true"),
        ("JSON(a UInt8)", '{"a":1}', '{"a":1}'),
        ("DateTime('UTC')", "1714557600", "2024-05-01 10:00:00"),
    ],
)
def test_a_text_that_says_what_it_is_needs_no_event(client: Client, kind: str, text: str, value: str | None):
    made = cast(parse(kind), "x", key=None)
    [(unfit, found)] = client.rows(
        f"SELECT {made.unfit}, toString({made.value}) FROM (SELECT toNullable('{text}') AS x)",
        settings=WRITE,
    )
    assert (bool(unfit), found) == (value is REJECTED, value)
