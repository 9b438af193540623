"""Checks that an event has the shape that a table's paths need. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sluice.clients.clickhouse.sql import Sql, both, either, summed
from sluice.field_path import FieldPath, spellings
from sluice.flow.load.casts.event_paths import ObjectNode, nodes
from sluice.flow.load.casts.nested import MisfitCheck

Paths = Sequence[tuple[str, FieldPath]]
"""Columns and their fields' paths."""


def strays(tree: ObjectNode, paths: Paths) -> list[MisfitCheck]:
    """Returns a check for each object that a path needs, by the names of `stray_names`. What stands at a key
    with a dot, and is no object, is another field."""
    checks = []
    for node, through in _needed(tree, paths):
        name, path = through[0]
        kind = f"an object at {'.'.join(node.path)} (its path is {'.'.join(path)})"
        checks.append(MisfitCheck(name, kind, node.text, node.misfit))
    return checks


def stray_names(tree: ObjectNode, paths: Paths) -> list[Sql]:
    """Returns whether something is there that is no object, and some column's field is nowhere else."""
    names = []
    for node, through in _needed(tree, paths):
        needed = either(*(_nowhere_else(tree, path) for _, path in through))
        names.append(Sql(f"{both(node.stray, needed)} AS {node.misfit}"))
    return names


def _needed(tree: ObjectNode, paths: Paths) -> Iterator[tuple[ObjectNode, Paths]]:
    for node in nodes(tree):
        size = len(node.path)
        through = [(name, path) for name, path in paths if path[:size] == node.path and len(path) > size]
        if through:
            yield node, through


def _nowhere_else(tree: ObjectNode, path: FieldPath) -> str:
    earlier = [tree.node_of(keys).element(keys[-1]) for keys in spellings(path)[:-1]]
    return both(*(f"isNull({text})" for text in earlier))


def whole(tree: ObjectNode) -> MisfitCheck:
    """Returns the check that the event is an object. Anything else would fill columns by position, or none.
    The full check is rare."""
    fields_present = summed([f"isNotNull({tree.element(name)})" for name in tree.fields])
    misfit = f"if(startsWith(_payload, '{{') * ({fields_present}) > 0, 0, JSONType(_payload) != 'Object')"
    return MisfitCheck("", "a JSON object that ClickHouse can parse", "_payload", misfit)
