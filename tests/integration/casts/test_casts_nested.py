"""Any JSON value in a type of any nesting: exactly there, or a rejected row whose place is named.

The types and values are nearly the same in every run (generated.py); tests/faults/test_nested_long.py tries
new ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from sluice.clients.clickhouse.client import WRITE, Client
from sluice.clients.clickhouse.sql import Sql, listed, literal, render
from sluice.clients.clickhouse.tables import Column
from sluice.clients.clickhouse.types import parse
from sluice.flow.load.casts.casts import cast
from sluice.flow.load.casts.columns import fill
from sluice.flow.load.casts.containers import texts_of
from sluice.flow.load.casts.event_paths import QUOTED
from sluice.flow.load.casts.exact_numbers import EVENT, LARGE, LONG, ODD
from tests.integration import nested_types
from tests.integration.casts import test_casts_evaluated
from tests.integration.casts.test_casts_evaluated import SIXTEEN, event
from tests.integration.generated import generate
from tests.support import oracle_nested as nested
from tests.support.oracle import loads, unreadable

pytestmark = pytest.mark.integration

client = test_casts_evaluated.client
_TYPES, _VALUES = 40, 60


def evaluate(client: Client, name: str, shown: str, payloads: Sequence[str]) -> list[tuple[bool, Any, str]]:
    """Of each payload whether its field `k` is a rejected row, the value, and the path of the rejected
    row."""
    made = cast(parse(name), "x", key="k", quoted="JSONType(event_text, 'k') = 'String'")
    texts = ", ".join(map(literal, payloads))
    shared = listed([LONG, LARGE, EVENT, *ODD, QUOTED])
    rows = client.rows(
        f"SELECT n, tupleElement(c, 2), CAST(tupleElement(c, 1), {literal(shown)}), "
        f"if(tupleElement(c, 2), tupleElement({made.where}, 1), '') FROM (SELECT *, {made.pair} AS c FROM "
        f"(SELECT n, _payload, {shared}, "
        "tupleElement(JSONExtract(event_text, 'Tuple(k Nullable(String))'), 1) AS x FROM (SELECT "
        "tupleElement(row, 1) AS n, tupleElement(row, 2) AS _payload FROM (SELECT "
        f"arrayJoin(arrayZip(arrayEnumerate([{texts}]), [{texts}])) AS row)))) ORDER BY n",
        settings=WRITE,
    )
    assert [row[0] for row in rows] == list(range(1, len(payloads) + 1))
    return [(bool(bad), value, path) for _, bad, value, path in rows]


def filled_by(
    client: Client, name: str, shown: str, payloads: Sequence[str], path: str = "k"
) -> list[tuple[bool, Any, str]]:
    """The same by all that a load does for a column `k` of the type."""
    asked = f"SELECT toTypeName(defaultValueOfTypeName({literal(name)}))"
    [(canonical,)] = client.rows(asked, settings=WRITE)
    filling = fill([Column("k", canonical)], {"k": path})
    [*_, check] = [one for one in filling.checks if one.column == "k"] or [None]
    texts = ", ".join(map(literal, payloads))
    rows = Sql(
        "SELECT tupleElement(row, 1) AS n, tupleElement(row, 2) AS _payload FROM (SELECT "
        f"arrayJoin(arrayZip(arrayEnumerate([{texts}]), [{texts}])) AS row)"
    )
    for stage in (*filling.stages, *([filling.places] if filling.places else [])):
        rows = render("load/name_expressions", named=listed(stage), rows=rows)
    unfit, place = (check.unfit, check.parts["column"]) if check else ("0", "''")
    found = client.rows(
        f"SELECT n, {unfit}, CAST(v0, {literal(shown)}), if({unfit}, {place}, '') FROM ({rows}) ORDER BY n",
        settings=WRITE,
    )
    assert [row[0] for row in found] == list(range(1, len(payloads) + 1))
    return [(bool(bad), value, path.removeprefix("k")) for _, bad, value, path in found]


def wrong(kind: Any, token: str, unfit: bool, value: Any, path: str, filled: bool = False) -> str:
    """What is wrong with it, or nothing; `filled`: in a column, which fills what an object lacks. In an event
    with a number of many digits any number may be refused, as another one's double."""
    found = nested.judge(kind, token, filled)
    doubted = SIXTEEN.search(event(token)) is not None or None in found.doubts
    if unfit:
        if doubted or _plain(path) in map(_plain, (*found.rejected_rows, *found.doubts)):
            return ""
        return f"refused at {path!r}, which is none of {found.rejected_rows or found.doubts}"
    if found.rejected_rows:
        return f"became {value!r}, expected a rejected row at {found.rejected_rows}"
    if doubted and nested.choosing(kind):
        return ""
    return "" if nested.same(found.value, value) else f"became {value!r}, expected {found.value!r}"


def _plain(path: str) -> str:
    """JSON has several spellings of a key's character."""
    return re.sub(r"\\u([0-9A-Fa-f]{4})", lambda found: chr(int(found[1], 16)), path)


def _clashes(value: Any) -> bool:
    """Whether the driver cannot read an object of it in a Dynamic: keys `a` and `a.b` beside each other."""
    if isinstance(value, list):
        return any(map(_clashes, value))
    if not isinstance(value, dict):
        return False
    paths = sorted(_paths(value))
    inside = any(after.startswith(f"{before}.") for before in paths for after in paths)
    return inside or len(set(paths)) < len(paths) or any(map(_clashes, value.values()))


def _paths(value: dict[str, Any]) -> list[str]:
    return [
        f"{key}.{path}" if path else key
        for key, inner in value.items()
        for path in (_paths(inner) if isinstance(inner, dict) and inner else [""])
    ]


def tried(client: Client, kind: Any, count: int, seed: int | None) -> tuple[list[str], int, int]:
    """What is wrong, and how many values fit and do not."""
    values = {one: loads(one) for one in generate(nested_types.tokens(kind), count, seed)}
    texts = [one for one, value in values.items() if value is not None and not unreadable(value)]
    texts = [one for one in texts if not _clashes(values[one])]
    events = list(map(event, texts))
    judged = evaluate(client, kind.name, kind.shown, events)
    told = [(text, wrong(kind, text, *said)) for text, said in zip(texts, judged, strict=True)]
    if texts_of(parse(kind.name)) or isinstance(kind, nested.Named):
        again = filled_by(client, kind.name, kind.shown, events)
        told += [(text, wrong(kind, text, *said, True)) for text, said in zip(texts, again, strict=True)]
    bad = sum(said[0] for said in judged)
    return [f"{kind.name} of {text}: {said}" for text, said in told if said], len(texts) - bad, bad


@pytest.mark.long
def test_any_value_of_any_type_fits_exactly_or_is_a_rejected_row_with_its_place(client: Client):
    lines, fitting, rejected_rows = [], 0, 0
    for kind in generate(nested_types.TYPES, _TYPES, None):
        told, good, bad = tried(client, kind, _VALUES, None)
        lines, fitting, rejected_rows = lines + told, fitting + good, rejected_rows + bad
    assert lines == []
    assert fitting > 300 < rejected_rows, "it has to try both what fits and what does not"


@pytest.mark.parametrize(
    ("name", "token", "path"),
    [
        ("Map(Date, UInt8)", r'"{\"a\": 1}"', ""),
        ("Array(UInt8)", r'"[\"x\"]"', ""),
        ("Tuple(`a` UInt8)", r'"{\"a\": \"x\"}"', ""),
        ("Tuple(UInt8, Date)", r'"[1, 2]"', ""),
        ("Array(Map(Date, UInt8))", r'[{}, "{\"a\": 1}"]', "[1]"),
        ("Map(String, Array(UInt8))", r'{"k": "[\"x\"]"}', '["k"]'),
        ("Array(Tuple(`a` Array(UInt8)))", r'[{"a": "[\"x\"]"}]', "[0].a"),
    ],
)
def test_a_string_that_reads_as_a_container_is_the_rejected_row_itself(client: Client, name, token, path):
    [(unfit, _, found)] = evaluate(client, name, name, [event(token)])
    assert (unfit, found) == (True, path)


def test_a_key_of_any_spelling_is_the_place_of_a_rejected_row(client: Client):
    kind = "Map(UUID, UInt8)"
    [(unfit, _, found)] = evaluate(client, kind, kind, [event(r'{"a\n\u000b\u0085\u2028": 1}')])
    assert (unfit, _plain(found)) == (True, '["a\\n\v\x85\u2028"]')


_DASHED, _PLAIN = "e3e70682-c209-4cac-629f-6fbed82c07cd", "e3e70682c2094cac629f6fbed82c07cd"


@pytest.mark.parametrize(
    ("kind", "token", "place"),
    [
        ("Map(UUID, UInt8)", f'{{"{_DASHED}": 1, "{_PLAIN}": 2}}', f'["{_PLAIN}"]'),
        ("Map(UUID, UInt8)", f'{{"{_PLAIN}": 1, "{_DASHED}": 2}}', f'["{_DASHED}"]'),
        ("Map(UUID, UInt8)", f'{{"x": 1, "y": 2, "{_DASHED}": 3}}', '["x"]'),
        ("Map(LowCardinality(String), UInt8)", '{"a": 1, "b": 300, "a": 2}', '["a"]'),
        ("Array(Map(UInt16, UInt8))", '[{"7": 1}, {"8": 1, "7": 2, "8": 3}]', '[1]["8"]'),
    ],
)
def test_the_place_of_a_key_that_is_there_twice_is_its_second_spelling(client: Client, kind, token, place):
    [(unfit, _, found)] = evaluate(client, kind, kind, [event(token)])
    assert (unfit, found) == (True, place)


_OBJECTS = "Array(Tuple(a UInt8, b Nullable(String)))"
_LOOSE = "Array(Tuple(a Nullable(UInt8)))"
_DEEP = "Array(Tuple(a Array(UInt8), m Map(String, UInt8)))"


@pytest.mark.parametrize(
    ("name", "token", "expected"),
    [
        (_OBJECTS, '[{"b": "x", "a": 1}, {"a": 2}]', "[(1,'x'),(2,NULL)]"),
        (_OBJECTS, '[[1, "x"]]', "at [0]"),
        (_OBJECTS, '[{"a": 1}, \n\t [1, "x"]]', "at [1]"),
        (_OBJECTS, '[{"a": 1, "b": [[2]]}]', "[(1,'[[2]]')]"),
        (_OBJECTS, '["{}"]', "at [0]"),
        (_OBJECTS, "[]", "[]"),
        (_OBJECTS, "null", "[]"),
        (_OBJECTS, '"[]"', "at "),
        (_OBJECTS, '"[{\\"a\\": 1}]"', "at "),
        (_OBJECTS, '{"a": 1}', "at "),
        (_OBJECTS, '[{"a": 1, "a": 300}]', "[(1,NULL)]"),
        (_OBJECTS, '[{"a": null, "a": 1}]', "at [0].a"),
        (_LOOSE, "[{}]", "[(NULL)]"),
        (_LOOSE, '[{"A": 1}, {"a": 1}]', "[(NULL),(1)]"),
        (_LOOSE, "[{}, null]", "at [1]"),
        (_LOOSE, "[[5]]", "at [0]"),
        (_DEEP, '[{"a": [1], "m": {"k": 2}}]', "[([1],{'k':2})]"),
        (_DEEP, '[{"a": "[1]", "m": {}}]', "at [0].a"),
        (_DEEP, '[{"a": [1], "m": "{}"}]', "at [0].m"),
        (_DEEP, '[{"a": [1]}]', "at [0].m"),
        ("Array(UInt8)", '[1, "2", null]', "at [2]"),
        ("Array(UInt8)", '[1], "k": 5', "[1]"),
        ("Array(UInt8)", '5, "k": [1]', "at "),
        ("Array(UInt8)", 'null, "k": [1]', "[]"),
        ("Map(UInt8, Bool)", '{"1": true, "2": 0}', "{1:true,2:false}"),
        ("Map(UInt8, Bool)", '{"1": true, "x": 0}', 'at ["x"]'),
        ("Map(UInt8, Bool)", '5, "k": {"1": true}', "at "),
        ("Map(String, Enum8('x' = 1, '2' = 3))", '{"a": "x", "b": 1, "c": "2"}', "{'a':'x','b':'x','c':'2'}"),
        ("Map(String, Enum8('x' = 1, '2' = 3))", '{"a": "1"}', 'at ["a"]'),
    ],
)
@pytest.mark.parametrize("path", ["k", "p.k"])
def test_what_the_parse_gives_is_no_more_than_the_text_says(client: Client, name, token, expected, path):
    text = f'{{"k": {token}}}'
    payload = text if path == "k" else f'{{"z": [[1]], "p": {text}}}'
    [(unfit, value, place)] = filled_by(client, name, "String", [payload], path)
    assert (f"at {place}" if unfit else value) == expected
