"""Questions about a node of a SELECT's query tree. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from sluice.clients.clickhouse.query_tree import QueryNode

FUNCTION = re.compile(r"FUNCTION id: .*function_name: (?P<name>.*), function_type: (?P<type>\w+)")
TABLE = re.compile(r"TABLE id: \d+,.* table_name: (?P<name>.*)")


def functions(root: QueryNode) -> frozenset[str]:
    """Returns the ordinary functions that a SELECT calls."""
    matches = (FUNCTION.match(node.text) for node in root.walk())
    return frozenset(match["name"] for match in matches if match and match["type"] == "ordinary")


def merged(state: re.Match[str]) -> str:
    """`sumIfState`: sumIfMerge; `sumSimpleState`: sum."""
    return state[1] if state[3] == "SimpleState" else f"{state[1]}{state[2] or ''}Merge"


def again(name: str, role: str) -> bool:
    """Returns whether a function puts values of `role` together once more: `sum` of sums."""
    if role.endswith("Merge"):
        return name == f"{role}State"
    return name in (role, f"{role}SimpleState")


def aggregates(node: QueryNode) -> bool:
    """Returns whether the expression aggregates rows of its own SELECT."""
    if node.kind in ("QUERY", "UNION"):
        return False
    found = FUNCTION.match(node.text)
    return bool(found and found["type"] == "aggregate") or any(map(aggregates, node.children))


def always(having: QueryNode) -> bool:
    """Returns whether it is `count() > 0`: a group has rows."""
    nodes = [node for node in having.walk() if node.kind not in ("", "LIST")]
    called = [match["name"] for node in nodes if (match := FUNCTION.match(node.text))]
    plain = len(nodes) == 3 and nodes[2].kind == "CONSTANT" and "constant_value: UInt64_0," in nodes[2].text
    return plain and called == ["greater", "count"]


def tables(node: QueryNode, own: Collection[str]) -> list[str]:
    """Returns the tables below a node that are none of `own`, each once."""
    matches = (TABLE.fullmatch(inner.text) for inner in node.walk())
    return list(dict.fromkeys(match["name"] for match in matches if match and match["name"] not in own))


def text_of(node: QueryNode) -> str:
    """Returns the lines of a node and of all below it."""
    return "\n".join(inner.text for inner in node.walk())
