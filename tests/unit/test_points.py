"""Every named point is in the code: none is dead, and what the code calls is one of them.

That a run really comes to each, and that no step is without one: tests/faults/test_kills_points.py.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from sluice import crash_points

LIBRARY = Path(crash_points.__file__).parent


def calls() -> Counter[str]:
    """`Land.READ` and so on, as `crash_points.reached(…)` gets them."""
    found: Counter[str] = Counter()
    for path in LIBRARY.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "crash_points.reached":
                found.update(ast.unparse(given) for given in node.args if isinstance(given, ast.Attribute))
    return found


def test_every_point_is_called_at_one_place():
    called = calls()
    named = [
        f"{type(point).__name__}.{point.name}"
        for point in (*crash_points.POINTS, *crash_points.Forget, *crash_points.Erase)
    ]
    assert set(called) == set(named)
    twice = {name for name, times in called.items() if times > 1}
    assert twice == {"Land.COMMITTED"}  # a manifest is created, or replaced


def test_points_of_one_step_have_names_of_their_own():
    assert len({str(point) for point in crash_points.Land}) == len(crash_points.Land)
    assert len({(type(point), point.value) for point in crash_points.POINTS}) == len(crash_points.POINTS)


def test_a_point_does_nothing():
    assert [crash_points.reached(point) for point in crash_points.POINTS] == [None] * len(crash_points.POINTS)
