"""Rewrites a view's SELECT so that it reads another table in its source's place. Pure.

Names in strings, and columns that are called like the table, are no places where it is read; so each way of
rewriting is only a candidate, until the server says that it reads the SELECT alike (query_tree.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.clients.clickhouse.sql import Sql, identifier

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


def is_union(select: str) -> bool:
    """Returns whether `select` is several SELECTs: the server gives a view's rows to the first only."""
    depth = 0
    for part in _TOKEN.findall(select):
        depth += (part == "(") - (part == ")")
        if depth == 0 and part in ("UNION", "INTERSECT"):
            return True
    return False


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
