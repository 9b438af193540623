"""Any JSON value against any column type: exactly there, or rejected with the column named.

The same values in every run; tests/faults/test_fuzz_long.py tries new ones.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import pytest

from tests.integration.fuzz_values import KINDS, Kind, expected, tokens_of
from tests.integration.generated import generate
from tests.integration.landed import Event, World, client_of, land, unit
from tests.support.oracle import ambiguous, loads, unreadable

pytestmark = pytest.mark.integration

VALUES = 40  # of each type


def load_all(world: World, table: str, cases: list[tuple[int, str]]) -> tuple[dict, dict]:
    """By the case's number: the value in its column, and the column that sluice.rejected names."""
    columns = ", ".join(f"c{n} {kind.type}" for n, kind in enumerate(KINDS))
    world.sql(
        f"CREATE TABLE {{db}}.{table} ({columns}, _offset Int64, _slice DateTime('UTC'), "
        "_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _offset"
    )
    land(world.lake, unit(), [Event("t", f'{{"type": "t", "c{n}": {token}}}') for n, token in cases])
    [loaded] = world.load(world.pipeline({"t": table}), unit(), mode="reload").units
    values = ", ".join(kind.read.format(f"c{n}") for n, kind in enumerate(KINDS))
    rows = world.sql(f"SELECT _offset, {values} FROM {{db}}.{table}")
    rejected = world.sql(f"SELECT offset, column FROM sluice.rejected WHERE target = '{{db}}.{table}'")
    assert len(rows) + len(rejected) == len(cases) == loaded.rows + loaded.rejected_rows
    assert Counter([row[0] for row in [*rows, *rejected]]) == Counter(range(len(cases)))
    return {row[0]: row[1 + cases[row[0]][0]] for row in rows}, dict(rejected)


def judge(kind: Kind, column: str, token: str, there: dict, rejected: dict, number: int) -> str | None:
    """What is wrong with a case, or None."""
    verdict = expected(kind, token)
    if number in rejected:
        either_number = ("String" in kind.type or "Decimal" in kind.type) and ambiguous(loads(token))
        if verdict is not None and verdict.certain and not either_number:
            return f"rejected, expected {verdict.value!r}"
        named = re.split(r"[.\[]", rejected[number])[0]
        return (
            None if named == column or (not named and unreadable(loads(token))) else f"column {named!r} named"
        )
    if verdict is None:
        return f"became {there[number]!r}, expected a rejection"
    return (
        None
        if same(verdict.value, there[number])
        else f"became {there[number]!r}, expected {verdict.value!r}"
    )


def same(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, set):
        return any(
            number == found and math.copysign(1, number) == math.copysign(1, found) for number in wanted
        )
    if isinstance(wanted, list):
        return len(wanted) == len(found) and all(map(same, wanted, found))
    if isinstance(wanted, dict):
        return wanted.keys() == found.keys() and all(same(wanted[key], found[key]) for key in wanted)
    if isinstance(found, str) and isinstance(wanted, bytes):
        found = found.encode()
    return bool(wanted == found)


@pytest.fixture(scope="module")
def world(clickhouse_server, tmp_path_factory) -> World:
    made = World(tmp_path_factory.mktemp("lake"), client_of(clickhouse_server), "fuzz")
    made.sql("CREATE DATABASE {db}")
    return made


def fuzz(world: World, table: str, count: int, seed: int | None = None) -> list[str]:
    """All that is wrong, a line for each case."""
    cases = [(n, token) for n, kind in enumerate(KINDS) for token in generate(tokens_of(kind), count, seed)]
    there, rejected = load_all(world, table, cases)
    assert len(there) > len(cases) // 10 < len(rejected), "it has to try both what fits and what does not"
    wrong = []
    for number, (n, token) in enumerate(cases):
        said = judge(KINDS[n], f"c{n}", token, there, rejected, number)
        wrong += [f"{KINDS[n].type} of {token}: {said}"] if said else []
    return wrong


def test_every_value_is_exactly_there_or_rejected(world: World):
    assert fuzz(world, "short", VALUES) == []
