"""JSON columns with typed paths: what is there fits the path's type, or the whole value is a rejected row.

By both ways in which a load writes them: in one expression, and with names for the parts.
"""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.client import WRITE, Client
from sluice.clients.clickhouse.sql import listed, literal
from sluice.clients.clickhouse.types import parse
from sluice.flow.load.casts.casts import cast, document_cast, unfit_of
from sluice.flow.load.casts.documents import Document
from sluice.flow.load.casts.event_paths import QUOTED
from sluice.flow.load.casts.exact_numbers import LARGE, LONG, ODD
from sluice.time_grammar import AS_WRITTEN
from tests.integration.casts import test_casts_evaluated
from tests.integration.casts.test_casts_evaluated import event

pytestmark = pytest.mark.integration

client = test_casts_evaluated.client
OTHER = "71.99999999999999999"  # is the double 72
# By type: values that fit, each as it is written again, and those that do not.
CASES: dict[str, tuple[dict[str, str], list[str]]] = {
    "JSON(a UInt8)": (
        {'{"a":1}': '{"a":1}', '{"a":"1"}': '{"a":1}', '{"a":255,"b":"x"}': '{"a":255,"b":"x"}'},
        ['{"a":256}', '{"a":-1}', '{"a":1.5}', '{"a":[1]}', '{"a":{"a":1}}', '{"a":"x"}', f'{{"a":{OTHER}}}',
         "5", "[1]", '"{}"', '"{\\"a\\":1}"', "true"],
    ),
    "JSON(b.c UInt8)": (
        {'{"b":{"c":1}}': '{"b":{"c":1}}', '{"b":{"c":1,"d":2}}': '{"b":{"c":1,"d":2}}'},
        ['{"b.c":1}', '{"b":{"c":256}}', '{"b":5}', '{"b":[1]}', '{"b":"c"}', '{"b":{"c":{}}}',
         '{"b":{"c":1},"b.c":1}'],
    ),
    "JSON(a.b.c UInt8)": (
        {'{"a":{"b":{"c":1}}}': '{"a":{"b":{"c":1}}}'},
        ['{"a.b":{"c":1}}', '{"a":{"b.c":1}}', '{"a.b.c":1}', '{"a":{"b":3}}', '{"a":3}', '{"a":{"b":[]}}',
         '{"a":{"b":{"c":300}}}'],
    ),
    "JSON(a UInt8, b Int8)": (
        {'{"a":1,"b":-1}': '{"a":1,"b":-1}'},
        ['{"a":1,"b":128}', '{"a":-1,"b":1}', '{"a":256,"b":128}'],
    ),
    "JSON(d Array(UInt8))": (
        {'{"d":[1,2]}': '{"d":[1,2]}'},
        ['{"d":"[1]"}', '{"d":[256]}', '{"d":5}', '{"d":[null]}', '{"d":{"a":1}}', f'{{"d":[{OTHER}]}}'],
    ),
    "JSON(t DateTime('UTC'))": (
        {'{"t":"2024-05-01 10:00:00"}': '{"t":"2024-05-01 10:00:00"}'},
        ['{"t":"2024-02-30 10:00:00"}', '{"t":"2200-01-01 00:00:00"}', '{"t":"1960-01-01 00:00:00"}'],
    ),
    "JSON(s String)": ({'{"s":"x"}': '{"s":"x"}', '{"s":""}': '{"s":""}'}, ['{"s.t":1', "3"]),
    "JSON(d Map(String, UInt8), j JSON(a UInt8))": (
        {'{"d":{"a":1},"j":{"a":2}}': '{"d":{"a":1},"j":{"a":2}}'},
        ['{"d":"{}"}', '{"d":{"a":256}}', '{"j":"{}"}', '{"j":{"a":256}}'],
    ),
    "Array(JSON(a UInt8))": (
        {'[{"a":1},{"a":2}]': "['{\"a\":1}','{\"a\":2}']", "[]": "[]"},
        ['[{"a":1},{"a":256}]', '["{}"]', "[1]", "{}"],
    ),
    "Array(JSON(d Array(UInt8)))": (
        {'[{"d":[1]},{"d":[2,3]}]': "['{\"d\":[1]}','{\"d\":[2,3]}']"},
        ['[{"d":[1]},{"d":[256]}]', '[{"d":"[]"}]'],
    ),
}  # fmt: skip
# By type: values, and of each the paths that are rejected rows, as (name, type, what is there).
TOLD: dict[str, dict[str, list[tuple[str, str, str]]]] = {
    "JSON(a UInt8, b Int8)": {
        '{"a":1,"b":-1}': [],
        '{"a":256,"b":-1}': [("a", "UInt8", "256")],
        '{"a":1,"b":"x"}': [("b", "Int8", "x")],
        '{"a":-1,"b":128}': [("a", "UInt8", "-1"), ("b", "Int8", "128")],
    },
    "JSON(b.c Nullable(UInt8), s String)": {
        '{"b":{"c":1},"s":"[x"}': [],
        '{"b":{"c":1.5},"s":""}': [("b.c", "Nullable(UInt8)", "1.5")],
        f'{{"b":{{"c":72}},"z":{OTHER}}}': [],
        f'{{"b":{{"c":{OTHER}}}}}': [("b.c", "Nullable(UInt8)", "72")],
    },
    "JSON(b.d Array(UInt8))": {'{"b":{"d":"[]"}}': [("b.d", "Array(UInt8)", "[]")]},
    "JSON(d Array(UInt8), m Map(String, UInt8), j JSON(a UInt8))": {
        '{"d":[1],"m":{"x":1},"j":{"a":1}}': [],
        '{"d":[],"m":{},"j":{}}': [],
        '{"d":"[]"}': [("d", "Array(UInt8)", "[]")],
        '{"m":"{}"}': [("m", "Map(String, UInt8)", "{}")],
        '{"j":"{}"}': [("j", "JSON(a UInt8)", "{}")],
        '{"d":[256],"m":{"x":-1},"j":{"a":"y"}}': [
            ("d", "Array(UInt8)", "[256]"),
            ("m", "Map(String, UInt8)", '{"x":-1}'),
            ("j", "JSON(a UInt8)", '{"a":"y"}'),
        ],
    },
}  # fmt: skip


def asked(client: Client, stages: list[str], values: str, unfit: str, texts: list[str]) -> list[tuple]:
    payloads = ", ".join(literal(event(text)) for text in texts)
    rows = f"SELECT arrayJoin([{payloads}]) AS _payload"
    rows = f"SELECT _payload, {listed([LONG, LARGE, *ODD, QUOTED])} FROM ({rows})"
    field = literal("Tuple(k Nullable(String))")
    rows = f"SELECT *, tupleElement(JSONExtract(_payload, {field}), 1) AS x FROM ({rows})"
    for stage in stages:
        rows = f"SELECT *, {stage} FROM ({rows})"
    found = client.rows(f"SELECT _payload, {unfit}, toString({values}) FROM ({rows})", settings=WRITE)
    said = {payload: (bool(bad), value) for payload, bad, value in found}
    return [said[event(text)] for text in texts]


def check(kind: str, found: list[tuple], texts: list[str]) -> None:
    fits, _ = CASES[kind]
    said = {text: None if bad else value for text, (bad, value) in zip(texts, found, strict=True)}
    assert said == {text: fits.get(text) for text in texts}


@pytest.mark.parametrize("kind", CASES)
def test_in_one_expression(client: Client, kind: str):
    texts = [text for part in CASES[kind] for text in part]
    made = cast(parse(kind), "x", key="k", quoted="JSONType(_payload, 'k') = 'String'")
    check(kind, asked(client, [], made.value, made.unfit, texts), texts)


@pytest.mark.parametrize("kind", [kind for kind in CASES if kind.startswith("JSON")])
def test_with_names_for_the_parts(client: Client, kind: str):
    texts = [text for part in CASES[kind] for text in part]
    made = document_of(kind)
    assert [path.unfit for path in made.paths] == [f"b7_{number}" for number in range(len(made.paths))]
    check(kind, asked(client, [*named(made), f"{made.value} AS v"], "v", unfit_of("x", "v"), texts), texts)


def document_of(kind: str) -> Document:
    return document_cast(parse(kind), "x", "k", "JSONType(_payload, 'k') = 'String'", "7", AS_WRITTEN)


def named(made: Document) -> list[str]:
    return [f"{expression} AS {name}" for name, expression in made.named]


@pytest.mark.parametrize("kind", TOLD)
def test_a_path_that_does_not_fit_is_told_with_what_is_there(client: Client, kind: str):
    texts, made = list(TOLD[kind]), document_of(kind)
    told = {text: [] for text in texts}
    for path in made.paths:
        for text, (bad, there) in zip(
            texts, asked(client, named(made), path.text, path.unfit, texts), strict=True
        ):
            told[text] += [(path.name, path.kind.text, there)] if bad else []
    assert told == TOLD[kind]
