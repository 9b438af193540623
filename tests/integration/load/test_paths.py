"""A column's path means what it means to landing, masks and searches: tests/support/path_cases.py."""

from __future__ import annotations

import json
from random import Random

import pytest

from tests.integration.casts import test_load_documents
from tests.integration.casts.test_load_documents import loaded, make
from tests.integration.landed import World
from tests.support.path_cases import CASES, random_event, read_by_model

pytestmark = pytest.mark.integration

world = test_load_documents.world


@pytest.mark.parametrize("path", ["user.id", "a.b.c"])
@pytest.mark.parametrize("column", ["x", "of its own name"])
def test_columns(world: World, path: str, column: str):
    name = "x" if column == "x" else path
    make(world, f"`{name}` Nullable(String)")
    cases = [case for case in CASES if case.path == path]
    rows, rejected_rows = loaded(
        world, [case.event for case in cases], f"`{name}`", {"x": path} if name == "x" else {}
    )
    kept = {number: case.value for number, case in enumerate(cases) if not case.rejected}
    assert rows == kept
    assert set(rejected_rows) == {number for number, case in enumerate(cases) if case.rejected}


def test_a_default_is_for_a_field_that_is_missing(world: World):
    make(world, "n Nullable(String) DEFAULT 'none', s String DEFAULT 'none', a Array(UInt8) DEFAULT [7]")
    expected = {
        '{"u.n": null}': ("NULL", "none", "[7]"),
        '{"u": {"n": null}}': ("NULL", "none", "[7]"),
        '{"u.n": null, "u": {"n": "p"}}': ("p", "none", "[7]"),
        '{"u.n": "p", "u": {}}': ("p", "none", "[7]"),
        '{"u": {}}': ("none", "none", "[7]"),
        '{"u.s": "p", "u": {"s": "q"}}': ("none", "p", "[7]"),
        '{"u.s": null, "u": {"s": "q"}}': ("none", "q", "[7]"),
        '{"u.a": [1], "u": {"a": [2]}}': ("none", "none", "[1]"),
        '{"u.a": [1]}': ("none", "none", "[1]"),
        '{"u": {"a": [2]}}': ("none", "none", "[2]"),
        '{"u.a": null}': ("none", "none", "[7]"),
        '{"u.a": [1], "u": {"a": "x"}}': ("none", "none", "[1]"),
        '{"u.a": "[1]"}': None,
        '{"u.a": "[1]", "u": {"a": [1]}}': None,
        '{"u.a": [1, 256]}': None,
        '{"u": {"a": [256]}}': None,
    }
    rows, rejected_rows = loaded(
        world, [*expected], "tuple(ifNull(n, 'NULL'), s, toString(a))", {"n": "u.n", "s": "u.s", "a": "u.a"}
    )
    assert {event: rows.get(number) for number, event in enumerate(expected)} == expected
    assert len(rows) + len(rejected_rows) == len(expected)


def test_numbers_are_exact_in_each_spelling(world: World):
    """A long number beside them, and the same digits under the other key, make nothing exact or odd."""
    make(world, "d Decimal(38, 20)")
    odd = "71.99999999999999999"  # is the double 72
    events = [
        f'{{"u.d": {odd}, "u": {{"d": 72}}}}',
        f'{{"u.d": 72.0, "u": {{"d": {odd}}}}}',
        f'{{"u.d": 1.5, "x": {odd}}}',
        f'{{"u": {{"d": 72}}, "x": {odd}}}',
    ]
    rows, rejected_rows = loaded(world, events, "toString(d)", {"d": "u.d"})
    assert rows == {2: "1.5", 3: "72"}
    assert set(rejected_rows) == {0, 1}


def test_random_events(world: World):
    """Columns of several paths at once, against the model."""
    paths = {"ab": "a.b", "abc": "a.b.c", "ac": "a.c", "bc": "b.c"}
    make(world, ", ".join(f"{name} Nullable(String)" for name in paths))
    chance = Random(20)
    events = [random_event(chance) for _ in range(2_000)]
    rows, rejected_rows = loaded(
        world, [json.dumps(event) for event in events], f"({', '.join(paths)})", paths
    )
    assert len(rows) + len(rejected_rows) == len(events) and len(rows) > 500
    for number, values in rows.items():
        expected = [read_by_model(events[number], path.split(".")) for path in paths.values()]
        assert [_said(value) for value in values] == [_plain(value) for value in expected], events[number]
    for number, (_, reason, _) in rejected_rows.items():
        assert "an object at" in reason, events[number]


def _said(text: str | None) -> object:
    return json.loads(text) if text is not None and text[:1] in ("{", "[") else text


def _plain(value: object) -> object:
    return json.loads(json.dumps(value))
