"""What a plan of a plain read adds hides rows or values. The plans are those of servers, shortened."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.clients.clickhouse.hidden_rows import Hidden, hidden_in

INPUTS = [{"Node Type": "INPUT", "Result Name": "n"}, {"Node Type": "ALIAS", "Result Name": "__table1.n"}]


def plan(read: dict[str, Any], *functions: str) -> list[Any]:
    """A Project over what reads the table."""
    called = [{"Node Type": "FUNCTION", "Function": name, "Result Name": f"{name}(n)"} for name in functions]
    project = {"Node Type": "Expression", "Expression": {"Actions": [*INPUTS, *called]}, "Plans": [read]}
    return [{"Plan": project}]


READ = {"Node Type": "ReadFromMergeTree", "Description": "d.t", "Parts": 1, "Granules": 1}


def row_level(column: str, *actions: dict[str, Any]) -> dict[str, Any]:
    expression = {"Actions": list(actions)}
    filtered = {"Row level filter column": column, "Row level filter expression": expression}
    return {**READ, "Prewhere info": {"Row level filter": filtered}}


LESS = {"Node Type": "FUNCTION", "Function": "less", "Result Name": "less(n, 5_UInt8)"}


@pytest.mark.parametrize(
    ("seen", "hidden"),
    [
        (plan(READ, "ignore"), Hidden((), ())),
        ([{"Plan": {"Node Type": "ReadNothing"}}], Hidden((), ())),
        (plan(row_level("less(n, 5_UInt8)", LESS), "ignore"), Hidden(("less(n, 5_UInt8)",), ("less",))),
        (plan(row_level("shown"), "ignore"), Hidden(("shown",), ())),
        (plan(row_level("0"), "ignore"), Hidden(("0",), ())),
        (
            plan({"Node Type": "Filter", "Filter Column": "less(n, 5_UInt8)", "Plans": [READ]}, "ignore"),
            Hidden(("less(n, 5_UInt8)",), ()),
        ),
        (plan(READ, "ignore", "SHA256"), Hidden((), ("SHA256",))),
        (
            [{"Plan": {"Node Type": "Union", "Plans": [READ, row_level("shown")]}}],
            Hidden(("shown",), ()),
        ),
    ],
)
def test_what_a_plan_adds(seen: Any, hidden: Hidden):
    assert hidden_in(seen) == hidden
    assert bool(hidden_in(seen)) == (hidden != Hidden((), ()))
