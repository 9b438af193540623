"""Reads what `EXPLAIN QUERY TREE passes = 1` prints of a view's SELECT: the server's own understanding. Pure.

QUERY id: 0
  PROJECTION COLUMNS
    _slice DateTime('UTC')
  PROJECTION
    LIST id: 1, nodes: 1
      COLUMN id: 2, column_name: _slice, result_type: DateTime('UTC'), source_id: 3
  JOIN TREE
    TABLE id: 3, alias: __table1, table_name: db.clicks
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sluice.clients.clickhouse.client import WRITE, Client
from sluice.clients.clickhouse.sql import Sql, identifier, render

_NODE = re.compile(r"(?P<kind>[A-Z_ ]+) id: (?P<id>\d+)")
_TABLE = re.compile(r"TABLE id: \d+,.* table_name: (?P<name>.*)")
_COLUMN = re.compile(
    r"COLUMN id: .*column_name: (?P<name>.*), result_type: (?P<type>.*), source_id: (?P<source>\d+)"
)
_FUNCTION = re.compile(r"FUNCTION id: .*function_name: (?P<name>.*), function_type: (?P<type>\w+)")
_TYPE = re.compile(r".*, (?:result_type|constant_value_type): (?P<type>.*?)(?:, source_id: \d+)?$")
_EXPRESSIONS = ("TABLE", "QUERY", "UNION", "TABLE_FUNCTION")


@dataclass(frozen=True)
class QueryNode:
    """A line, and the lines that are indented below it."""

    text: str
    children: list[QueryNode] = field(default_factory=list)

    @property
    def kind(self) -> str:
        match = _NODE.match(self.text)
        return match["kind"] if match else ""

    @property
    def id(self) -> str:
        match = _NODE.match(self.text)
        return match["id"] if match else ""

    def section(self, title: str) -> list[QueryNode]:
        """Returns the children of the child with this title."""
        return next((child.children for child in self.children if child.text == title), [])

    def walk(self) -> Iterator[QueryNode]:
        yield self
        for child in self.children:
            yield from child.walk()


def parse(lines: Sequence[str]) -> QueryNode:
    """Returns the tree's root."""
    root = QueryNode("")
    path = [(-1, root)]
    for line in lines:
        text = line.lstrip(" ")
        depth = len(line) - len(text)
        while path[-1][0] >= depth:
            path.pop()
        node = QueryNode(text)
        path[-1][1].children.append(node)
        path.append((depth, node))
    return root.children[0]


def pushed(root: QueryNode) -> QueryNode:
    """Returns the part of a view's SELECT that the server carries out: of a UNION the first SELECT."""
    return queries(root)[0] if root.kind == "UNION" else root


def queries(union: QueryNode) -> list[QueryNode]:
    return [child for item in union.section("QUERIES") for child in item.children]


def reads(node: QueryNode, source: str) -> int:
    """Returns how often `source` (database.table) is read, in subqueries of expressions, too."""
    matches = (_TABLE.fullmatch(inner.text) for inner in node.walk())
    return sum(1 for match in matches if match and match["name"] == source)


def tables(node: QueryNode) -> set[str]:
    """Returns everything that is read, in subqueries of expressions, too; a table function by its line."""
    found = set()
    for inner in node.walk():
        match = _TABLE.fullmatch(inner.text)
        if match or inner.kind == "TABLE_FUNCTION":
            found.add(match["name"] if match else inner.text)
    return found


def functions(node: QueryNode) -> set[str]:
    """Returns the ordinary functions that are called, without aggregate functions."""
    matches = (_FUNCTION.match(inner.text) for inner in node.walk())
    return {match["name"] for match in matches if match and match["type"] == "ordinary"}


def reads_once(node: QueryNode, source: str) -> bool:
    """Returns whether each SELECT reads `source` in one place of its FROM: then a view's rows do not depend
    on how the rows of its source are cut into blocks, or on what else is in it. A UNION's branches count
    each."""
    if node.kind == "TABLE":
        return True
    if node.kind == "UNION":
        return all(reads_once(query, source) for query in queries(node) if reads(query, source))
    froms = [child for child in node.children if child.text == "JOIN TREE"]
    elsewhere = sum(reads(child, source) for child in node.children if child not in froms)
    expressions = [
        expression for child in froms for expression in _expressions(child) if reads(expression, source)
    ]
    return not elsewhere and len(expressions) == 1 and reads_once(expressions[0], source)


def _expressions(node: QueryNode) -> list[QueryNode]:
    """Returns the outermost tables and subqueries below a node."""
    expressions: list[QueryNode] = []
    for child in node.children:
        expressions += [child] if child.kind in _EXPRESSIONS else _expressions(child)
    return expressions


def passes(root: QueryNode, name: str, source: str) -> bool:
    """Returns whether the SELECT gives the column `name` of `source` as it is, under the same name."""
    places = [index for index, column in enumerate(names(root)) if column == name]
    origins = {node.id: node for node in root.walk() if node.kind in _EXPRESSIONS}
    return len(places) == 1 and _same(root, places[0], name, source, origins)


def names(query: QueryNode) -> list[str]:
    """Returns what a SELECT calls its columns."""
    return [name for name, _ in projection(query)]


def projection(query: QueryNode) -> list[tuple[str, QueryNode]]:
    """Returns (name, expression) of each column. A line is a name and a type, as the expression has it."""
    expressions = [child for item in query.section("PROJECTION") for child in item.children]
    lines = [child.text for child in query.section("PROJECTION COLUMNS")]
    columns = []
    for line, expression in zip(lines, expressions, strict=True):
        kind = _TYPE.fullmatch(expression.text)
        columns.append((line.removesuffix(f" {kind['type']}") if kind else line, expression))
    return columns


def _same(node: QueryNode, position: int, name: str, source: str, origins: dict[str, QueryNode]) -> bool:
    if node.kind == "UNION":
        return all(_same(query, position, name, source, origins) for query in queries(node))
    column = _COLUMN.fullmatch(projection(node)[position][1].text)
    origin = origins.get(column["source"]) if column else None
    if column is None or origin is None:
        return False
    if origin.kind == "TABLE":
        return reads(origin, source) == 1 and column["name"] == name
    names = [
        inner_name for inner_name, _ in projection(queries(origin)[0] if origin.kind == "UNION" else origin)
    ]
    inner = [index for index, inner_name in enumerate(names) if inner_name == column["name"]]
    return (
        origin.kind != "TABLE_FUNCTION" and len(inner) == 1 and _same(origin, inner[0], name, source, origins)
    )


def same_reading(lines: Sequence[str], source: str, other_lines: Sequence[str], other_source: str) -> bool:
    """Returns whether two trees are the same, but that the second reads `other_source` wherever the first
    reads `source`."""
    return list(_normal(lines, source)) == list(_normal(other_lines, other_source))


def _normal(lines: Sequence[str], source: str) -> Iterator[str]:
    """Yields the lines without values that the server has evaluated: those of now() differ from moment to
    moment."""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        match = _TABLE.fullmatch(line.lstrip(" "))
        if match and match["name"] == source:
            yield f"{line.removesuffix(source)}the source"
        elif following.lstrip(" ") == "EXPRESSION" and "constant_value: " in line:
            yield line.partition("constant_value: ")[0]
        else:
            yield line


def explained(client: Client, select: str) -> list[str]:
    """Returns the lines of a SELECT's query tree."""
    return [
        line for (line,) in client.rows(render("clickhouse/explain_view", select=Sql(select)), settings=WRITE)
    ]


# Rewrites a view's SELECT so that it reads another table in its source's place. Pure.
#
# Names in strings, and columns that are called like the table, are no places where it is read; so each way of
# rewriting is only a candidate, until the server says that it reads the SELECT alike (query_tree.py).
_TOKEN = re.compile(
    r"""`(?:\\.|``|[^`\\])*`|"(?:\\.|""|[^"\\])*"|'(?:\\.|''|[^'\\])*'|\w+|\s+|.""", re.DOTALL
)


def candidates(select: str, source: str, replacement: Sql) -> Iterator[Sql]:
    """Yields `select` with `replacement` in place of `source` (database.table). The second candidate gives it
    the source's name as an alias: columns may be qualified by that alone."""
    tokens = _TOKEN.findall(select)
    places = _places(tokens, *source.split(".", 1))
    yield _written(tokens, dict.fromkeys(places, replacement))
    alias = identifier(source.split(".", 1)[1])
    named = {
        start: alias if qualifies else replacement if aliased else Sql(f"{replacement} AS {alias}")
        for start, (qualifies, aliased) in places.items()
    }
    yield _written(tokens, named)


def _places(tokens: list[str], database: str, name: str) -> dict[int, tuple[bool, bool]]:
    """Returns by the index at which `database`, `.`, `name` begin, whether a column follows, and whether an
    alias does."""
    places = {}
    for start in range(len(tokens) - 2):
        here = tokens[start : start + 3]
        if (_plain(here[0]), here[1], _plain(here[2])) != (database, ".", name):
            continue
        if start and tokens[start - 1] == ".":
            continue
        rest = [token for token in tokens[start + 3 : start + 6] if not token.isspace()]
        places[start] = (rest[:1] == ["."], rest[:1] == ["AS"])
    return places


def _plain(token: str) -> str:
    """Returns the name that a token stands for; empty for what is no name."""
    if token[:1] in '`"':
        return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
    return token if token[:1] != "'" else ""


def _written(tokens: list[str], places: dict[int, Sql]) -> Sql:
    parts: list[str] = []
    skip = 0
    for index, token in enumerate(tokens):
        if index in places:
            parts.append(places[index])
            skip = 3
        if skip:
            skip -= 1
        else:
            parts.append(token)
    return Sql("".join(parts))
