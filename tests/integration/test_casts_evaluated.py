"""The casts alone, evaluated by the server without a load: every value is exact, or is called a misfit.

One statement for each type, so that a changed cast is known within a second; test_fuzz_columns.py and
test_load_columns.py hold the same of whole loads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from sluice.clickhouse.client import Client
from sluice.load.casts import cast
from sluice.load.exact import LONG, NONE_LONG
from sluice.load.settings import WRITE
from sluice.load.sql import Sql, literal
from sluice.load.types import parse
from tests.integration.fuzz_values import KINDS, Kind, expected
from tests.integration.landed import client_of
from tests.integration.test_fuzz_columns import generate, same
from tests.integration.test_load_columns import CASES, DEFAULT, REJECTED
from tests.oracle import loads, unreadable

pytestmark = pytest.mark.integration

TYPES = list(dict.fromkeys(kind for kind, _, _ in CASES))
BLANK = {"Array": "[]", "Map": "{}"}  # of a container without a value; a scalar is NULL
# What the landing looks for before it says that an event holds no long number.
SIXTEEN = re.compile(r"[0-9./]{16}")


@pytest.fixture(scope="module")
def client(clickhouse_server) -> Client:
    return client_of(clickhouse_server)


def evaluate(
    client: Client, kind: str, read: str, payloads: Sequence[str], long: Sql = LONG
) -> list[tuple[bool, Any]]:
    """Of each payload whether its field `k` is a misfit, and the value, as `read` selects it."""
    made = cast(parse(kind), "x", key="k")
    field = literal("Tuple(`k` Nullable(String))")
    texts = ", ".join(map(literal, payloads))
    rows = client.rows(
        f"SELECT n, {made.misfit}, {read.format('v')} FROM (SELECT n, _payload, {long}, "
        f"tupleElement(JSONExtract(_payload, {field}), 1) AS x, {made.value} AS v FROM (SELECT "
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
    cases = [(token, said) for one, token, said in CASES if one == kind and token != "nan_word"]
    found = evaluate(client, kind, "toString({})", [event(token) for token, _ in cases])
    blank = BLANK.get(parse(kind).plain.name)
    wanted = [blank if said is DEFAULT or said is None else said for _, said in cases]
    said = [REJECTED if misfit else value for misfit, value in found]
    assert dict(zip(cases, said, strict=True)) == dict(zip(cases, wanted, strict=True))


def wrong(kind: Kind, token: str, misfit: bool, value: Any) -> bool:
    verdict = expected(kind, token)
    if token == "null":
        return misfit or (value is not None and value not in ([], {}))
    if verdict is None or misfit:
        return not misfit or (verdict is not None and verdict.certain)
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


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.type)
def test_any_value(client: Client, kind: Kind):
    assert tried(client, kind, generate(kind, 60, None)) == []
