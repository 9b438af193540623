"""Checks that an event has the shape that a table's paths need. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.clients.clickhouse.sql import summed
from sluice.flow.load.casts.event_paths import ObjectNode, first_column, nodes
from sluice.flow.load.casts.nested import MisfitCheck
from sluice.type_fields import FieldPath


def strays(tree: ObjectNode, paths: Sequence[tuple[str, FieldPath]]) -> list[MisfitCheck]:
    """Returns a check for each node that it is an object: the path of one of the (column, path) leads through
    it."""
    checks = []
    for node in nodes(tree):
        name, path = first_column(node, paths)
        kind = f"an object at {'.'.join(node.path)} (its path is {'.'.join(path)})"
        checks.append(MisfitCheck(name, kind, node.text, node.stray))
    return checks


def whole(tree: ObjectNode) -> MisfitCheck:
    """Returns the check that the event is an object. Anything else would fill columns by position, or none.
    The full check is rare."""
    fields_present = summed([f"isNotNull({tree.element(name)})" for name in tree.fields])
    misfit = f"if(startsWith(_payload, '{{') * ({fields_present}) > 0, 0, JSONType(_payload) != 'Object')"
    return MisfitCheck("", "a JSON object that ClickHouse can parse", "_payload", misfit)
