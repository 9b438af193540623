"""Any JSON value in a type of any nesting: exactly there, or a misfit whose place is named.

The types and values are nearly the same in every run (generated.py); tests/faults/test_nested_long.py tries
new ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.settings import WRITE
from sluice.clients.clickhouse.sql import listed, literal
from sluice.clients.clickhouse.types import parse
from sluice.flow.load.casts.casts import cast
from sluice.flow.load.casts.event_paths import QUOTED
from sluice.flow.load.casts.exact_numbers import LONG, ODD
from tests.integration import nested_types, test_casts_evaluated
from tests.integration.generated import generate
from tests.integration.test_casts_evaluated import SIXTEEN, event
from tests.support import oracle_nested as nested
from tests.support.oracle import loads, unreadable

pytestmark = pytest.mark.integration

client = test_casts_evaluated.client
_TYPES, _VALUES = 40, 60


def evaluate(client: Client, name: str, shown: str, payloads: Sequence[str]) -> list[tuple[bool, Any, str]]:
    """Of each payload whether its field `k` is a misfit, the value, and the path of the misfit."""
    made = cast(parse(name), "x", key="k", quoted="JSONType(_payload, 'k') = 'String'")
    texts = ", ".join(map(literal, payloads))
    shared = listed([LONG, *ODD, QUOTED])
    rows = client.rows(
        f"SELECT n, tupleElement(c, 2), CAST(tupleElement(c, 1), {literal(shown)}), "
        f"if(tupleElement(c, 2), tupleElement({made.where}, 1), '') FROM (SELECT *, {made.pair} AS c FROM "
        f"(SELECT n, _payload, {shared}, "
        "tupleElement(JSONExtract(_payload, 'Tuple(k Nullable(String))'), 1) AS x FROM (SELECT "
        "tupleElement(row, 1) AS n, tupleElement(row, 2) AS _payload FROM (SELECT "
        f"arrayJoin(arrayZip(arrayEnumerate([{texts}]), [{texts}])) AS row)))) ORDER BY n",
        settings=WRITE,
    )
    assert [row[0] for row in rows] == list(range(1, len(payloads) + 1))
    return [(bool(bad), value, path) for _, bad, value, path in rows]


def wrong(kind: Any, token: str, misfit: bool, value: Any, path: str) -> str:
    """What is wrong with it, or nothing. In an event with a number of many digits any number may be refused,
    as another one's double."""
    found = nested.judge(kind, token)
    doubted = SIXTEEN.search(event(token)) is not None or None in found.doubts
    if misfit:
        if doubted or _plain(path) in map(_plain, (*found.misfits, *found.doubts)):
            return ""
        return f"refused at {path!r}, which is none of {found.misfits or found.doubts}"
    if found.misfits:
        return f"became {value!r}, expected a misfit at {found.misfits}"
    if doubted and nested.choosing(kind):
        return ""
    return "" if nested.same(found.value, value) else f"became {value!r}, expected {found.value!r}"


def _plain(path: str) -> str:
    """JSON has several spellings of a key's character."""
    return re.sub(r"\\u[0-9A-F]{4}", lambda found: found[0].lower(), path)


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
    judged = evaluate(client, kind.name, kind.shown, list(map(event, texts)))
    told = [(text, wrong(kind, text, *said)) for text, said in zip(texts, judged, strict=True)]
    bad = sum(said[0] for said in judged)
    return [f"{kind.name} of {text}: {said}" for text, said in told if said], len(texts) - bad, bad


def test_any_value_of_any_type_fits_exactly_or_is_a_misfit_with_its_place(client: Client):
    lines, fitting, misfits = [], 0, 0
    for kind in generate(nested_types.TYPES, _TYPES, None):
        told, good, bad = tried(client, kind, _VALUES, None)
        lines, fitting, misfits = lines + told, fitting + good, misfits + bad
    assert lines == []
    assert fitting > 300 < misfits, "it has to try both what fits and what does not"


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
def test_a_string_that_reads_as_a_container_is_the_misfit_itself(client: Client, name, token, path):
    [(misfit, _, found)] = evaluate(client, name, name, [event(token)])
    assert (misfit, found) == (True, path)
