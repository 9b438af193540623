"""A long number makes a rejected row of the value that holds it, and never of one beside it.

The values are written here, digit by digit: nothing is computed.
"""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.client import Client
from tests.integration.casts import test_casts_evaluated, test_load_documents
from tests.integration.casts.test_casts_evaluated import evaluate
from tests.integration.casts.test_load_documents import make
from tests.integration.landed import Event, World, land, unit

pytestmark = pytest.mark.integration

client = test_casts_evaluated.client
world = test_load_documents.world
REJECTED = None
OTHER = "71.99999999999999999"  # is the double 72
# Values without a long number, and what they become.
SHORT: list[tuple[str, str, str]] = [
    *(("Dynamic", token, token) for token in ("[1,2]", "[0,-1]", "[0.5,0.25]", "[[1,2],[3]]")),
    ("Dynamic", '["a","b"]', "['a','b']"),
    ("Dynamic", '["a 10.0.0.1",":-7"]', "['a 10.0.0.1',':-7']"),
    ("Dynamic", "[ 1 , null,2 ]", "[1,NULL,2]"),
    ("Dynamic", "[]", "[]"),
    ("Dynamic", "[true,false]", "[true,false]"),
    ("Dynamic", "[true,1]", REJECTED),
    *(("Dynamic", token, token) for token in ('{"a":{"b":3}}', '{"a":[1,2]}', '{"a":0.5,"c":"x, 1"}')),
    *(("Dynamic", token, token) for token in ("7", "-1.5", "true")),
    ("Dynamic", "[2.5e-7]", "[2.5e-7]"),
    ("Dynamic", "2.5e-7", "2.5e-7"),
    ("Dynamic", "[9007199254740993]", "[9007199254740993]"),
    ("Array(Dynamic)", '[[1,2],"x",{"a":1},2.5]', "[[1,2],'x','{\"a\":1}',2.5]"),
    ("Map(String, Dynamic)", '{"a":[1,2],"b":"x"}', "{'a':[1,2],'b':'x'}"),
    ("Tuple(a Dynamic, b Array(Dynamic))", '{"a":[1,2],"b":[[3]]}', "([1,2],[[3]])"),
    ("JSON(a Dynamic)", '{"a":[1,2]}', '{"a":[1,2]}'),
    ("JSON", '{"a":[1,2],"b":{"c":0.5}}', '{"a":[1,2],"b":{"c":0.5}}'),
    ("Array(JSON(a Dynamic))", '[{"a":[1,2]},{"a":[3]}]', "['{\"a\":[1,2]}','{\"a\":[3]}']"),
    ("Variant(Array(Int64), Map(String, Int64))", "[1,2]", "[1,2]"),
    ("Variant(Array(Int64), Map(String, Int64))", '{"a":3}', "{'a':3}"),
    ("Variant(Array(Decimal(9, 2)), Bool)", "[1.25]", "[1.25]"),
    ("Variant(Tuple(a Int64), String)", '{"a":3}', "(3)"),
    ("Array(Variant(Array(UInt8), Bool))", "[[1,2],true]", "[[1,2],true]"),
    ("Array(Decimal(9, 7))", "[2.5e-7,1]", REJECTED),
    ("Array(Decimal(9, 8))", "[0.00000025,1]", "[0.00000025,1]"),
    ("Decimal(38, 20)", '"71.99999999999999999999"', "71.99999999999999999999"),
]  # fmt: skip
BESIDE = [
    *("0.3333333333333333", "-0.33333333333333331", "1e-400", "-1.0000000000000001e-7", OTHER),
    *("[0.3333333333333333]", '{"k2":[0.3333333333333333]}', '{"w":{"v":[[0.33333333333333331]]}}'),
    *('"0.33333333333333331"', '" 0.33333333333333331"', "12345678901234567e-3"),
]
# Of a value that holds one itself: what it says, or a rejected row.
INSIDE: list[tuple[str, str, str | None]] = [
    ("Dynamic", f"[{OTHER}]", REJECTED),
    ("Dynamic", f"[72,{OTHER}]", REJECTED),
    ("Dynamic", f"[[1],[[{OTHER}]]]", REJECTED),
    ("Dynamic", f'{{"a":{OTHER}}}', REJECTED),
    ("Dynamic", f'{{"a" : {{"b" : [1, {{"c" : {OTHER}}}]}}}}', REJECTED),
    ("Dynamic", f'["a",{OTHER}]', REJECTED),
    ("Dynamic", f'["\\"",{OTHER}]', REJECTED),
    *(("Dynamic", f"[{token}]", REJECTED) for token in ("1e-400", "-1e-400", "2.5e-0400", "1.5E-999")),
    *(("Dynamic", f'{{"a":{token}}}', REJECTED) for token in ("1e-400", "-1e-400")),
    ("Dynamic", "[0.33333333333333331]", REJECTED),
    ("Dynamic", '{"a":0.33333333333333331}', REJECTED),
    ("Dynamic", "[0.3333333333333333]", "[0.3333333333333333]"),
    ("Dynamic", "[0.3333333333333333, 0.3333333333333333]", "[0.3333333333333333,0.3333333333333333]"),
    ("Dynamic", '{"a":[0.3333333333333333]}', '{"a":[0.3333333333333333]}'),
    ("Dynamic", "[0.3333333333333333,0.33333333333333331]", REJECTED),
    ("Array(Dynamic)", f"[[1,{OTHER}]]", REJECTED),
    ("Map(String, Dynamic)", f'{{"a":[{OTHER}]}}', REJECTED),
    ("JSON(a Dynamic)", f'{{"a":[{OTHER}]}}', REJECTED),
    ("Variant(Array(Int64), Map(String, Int64))", f"[{OTHER}]", REJECTED),
    ("Array(Variant(Array(UInt8), Bool))", f"[[{OTHER}]]", REJECTED),
]
# Beside a number that is the same double: a Dynamic is what stands there as the field's value.
SAME: list[tuple[str, str | None]] = [
    (f'{{"k":[72],"z":{OTHER}}}', "[72]"),
    (f'{{"z":{OTHER},"k":[72]}}', "[72]"),
    (f'{{"z":{OTHER}, "k" : [ 72 , 1 ] }}', "[72,1]"),
    (f'{{"k": {{"a": {{"b": [72]}}}}, "z": {OTHER}}}', '{"a":{"b":[72]}}'),
    (f'{{"k":[72,"x , y"],"z":{OTHER}}}', "[72,'x , y']"),
    (f'{{"k":[{OTHER}],"z":[72]}}', REJECTED),
    (f'{{"k":[{OTHER}],"z":"[72],"}}', REJECTED),
    (f'{{"z":"k","y":[72],"k":[{OTHER}]}}', REJECTED),
    (f'{{"z":{{"k":[72]}},"k":[{OTHER}]}}', REJECTED),
    (f'{{"z":{{"k":[72]}},"\\u006b":[{OTHER}]}}', REJECTED),
    (f'{{"k":[72],"k":[{OTHER}]}}', REJECTED),
    ('{"k":[0.33333333333333331],"z":0.3333333333333333}', REJECTED),
    ('{"k":[0.3333333333333333],"z":0.33333333333333331}', "[0.3333333333333333]"),
    ('{"k":[0],"z":1e-400}', "[0]"),
    ('{"k":[1e-400],"z":0}', REJECTED),
]


def said(client: Client, kind: str, payloads: list[str], key: str = "k") -> dict[str, str | None]:
    found = evaluate(client, kind, "toString({})", payloads, key=key)
    return {
        payload: REJECTED if unfit else value for payload, (unfit, value) in zip(payloads, found, strict=True)
    }


@pytest.mark.parametrize("kind", dict.fromkeys(kind for kind, _, _ in SHORT))
def test_a_long_number_beside_a_value_says_nothing_of_it(client: Client, kind: str):
    wanted = {
        payload: value
        for one, token, value in SHORT
        for other in ("1", *BESIDE)
        for payload in (f'{{"k": {token}, "v": {other}}}', f'{{"v":{other},"k":{token}}}')
        if one == kind
    }
    assert said(client, kind, list(wanted)) == wanted


@pytest.mark.parametrize("kind", dict.fromkeys(kind for kind, _, _ in INSIDE))
def test_a_long_number_inside_a_value_is_what_was_written(client: Client, kind: str):
    wanted = {f'{{"k":{token},"y":1}}': value for one, token, value in INSIDE if one == kind}
    assert said(client, kind, list(wanted)) == wanted


def test_a_dynamic_beside_another_number_of_the_same_double(client: Client):
    assert said(client, "Dynamic", [payload for payload, _ in SAME]) == dict(SAME)


def test_a_key_that_differs_in_its_spaces_is_another(client: Client):
    cases = {
        f'{{"z":{{"a , b":[72]}},"a,b":[{OTHER}]}}': REJECTED,
        f'{{"z":{{"a , b":[{OTHER}]}},"a,b":[7]}}': "[7]",
        f'{{"z":{OTHER},"a,b":[72]}}': "[72]",
    }
    assert said(client, "Dynamic", list(cases), "a,b") == cases


@pytest.mark.parametrize("read", ["pull", "push"])
def test_rows_with_long_numbers_beside_their_values(world: World, read: str):
    make(
        world,
        "id UInt64, dy Dynamic, a Array(Dynamic), n Array(Int64), x Variant(Array(Int64), Bool), "
        "j JSON(b Dynamic)",
    )
    empty = '{"b":null}'
    long, other = "0.3333333333333333", "0.33333333333333331"
    wanted = {
        '{"id":1,"dy":[1,2]}': ("[1,2]", "[]", "[]", "NULL", empty),
        f'{{"id":8,"dy":[1,2],"v":{long}}}': ("[1,2]", "[]", "[]", "NULL", empty),
        f'{{"id":9,"dy":["a","b"],"v":{long}}}': ("['a','b']", "[]", "[]", "NULL", empty),
        f'{{"id":10,"dy":{{"a":{{"b":3}}}},"v":{long}}}': ('{"a":{"b":3}}', "[]", "[]", "NULL", empty),
        f'{{"id":11,"a":[[1],{{"c":2}}],"n":[3],"x":[4],"j":{{"b":[5]}},"v":{other}}}': (
            "NULL",
            "[[1],'{\"c\":2}']",
            "[3]",
            "[4]",
            '{"b":[5]}',
        ),
        f'{{"id":12,"dy":[{long}],"j":{{"u":[{long}]}}}}': (
            f"[{long}]",
            "[]",
            "[]",
            "NULL",
            f'{{"b":null,"u":[{long}]}}',
        ),
    }
    rejected_rows = {
        f'{{"id":20,"dy":[{other}]}}': ["dy", "does not fit Dynamic"],
        '{"id":21,"dy":{"a":[1e-400]}}': ["dy", "does not fit Dynamic"],
        f'{{"id":22,"dy":[1],"a":[[{other}]]}}': ["a[0]", "does not fit Dynamic"],
        f'{{"id":23,"dy":[1],"j":{{"b":[{other}]}}}}': ["j.b", "does not fit Dynamic"],
    }
    payloads = [*wanted, *rejected_rows]
    land(world.lake, unit(), [Event("click", payload) for payload in payloads])
    world.load(world.pipeline({"click": "t"}, clickhouse={"read": read}), unit())
    texts = ", ".join(f"if(isNull({name}), 'NULL', toString({name}))" for name in ("dy", "a", "n", "x", "j"))
    rows = world.sql(f"SELECT _offset, {texts} FROM {{db}}.t")
    assert {payloads[offset]: tuple(found) for offset, *found in rows} == wanted
    refused = world.sql("SELECT offset, column, reason FROM sluice.rejected WHERE target = '{db}.t'")
    assert {payloads[offset]: found for offset, *found in refused} == rejected_rows
