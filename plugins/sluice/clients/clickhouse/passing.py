"""Tables that stand over others and keep no rows: Distributed, Buffer, Merge, Alias, a view, remote() …

What is inserted into them goes on to the table below. What reaches that table in another way does not pass
through them, and feeds none of the views that read them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import Sql, render

_TOKEN = re.compile(
    r"""`(?:\\.|``|[^`\\])*`|"(?:\\.|""|[^"\\])*"|'(?:\\.|''|[^'\\])*'|\w+|[^\s\w]""", re.DOTALL
)
_QUOTES = "`\"'"
_MERGE = re.compile(
    r"Merge\((?P<pattern>REGEXP\()?(?P<database>'(?:\\.|[^'\\])*')\)?, (?P<name>'(?:\\.|[^'\\])*')"
)


@dataclass(frozen=True)
class Passing:
    """`place` stands over `base`, itself or through others; an INSERT into it feeds `views`."""

    place: str
    engine: str
    base: str
    views: tuple[str, ...]


def read_passing(client: Client, tables: Sequence[str]) -> list[Passing]:
    """Returns what stands over one of the tables, or over what does, as far as the user sees it."""
    passing: list[Passing] = []
    bases = {name: name for name in tables}
    below = list(bases)
    while below:
        texts = [re.split(r"[\\`']", name.partition(".")[2])[0] for name in below]
        rows = client.rows(render("clickhouse/passing_tables"), {"texts": texts})
        above = []
        for database, name, engine, text, views in rows:
            table = f"{database}.{name}"
            over = next((base for base in below if _stands_over(client, engine, database, text, base)), None)
            if over is not None and table not in bases:
                bases[table] = bases[over]
                above.append(table)
                passing.append(Passing(table, engine, bases[over], tuple(views)))
        below = above
    return passing


def _stands_over(client: Client, engine: str, database: str, text: str, table: str) -> bool:
    if engine == "Merge":
        return _merges(client, text, table)
    return _reads(text, table) or (engine != "View" and _passes_to(text, database, table))


def _reads(text: str, table: str) -> bool:
    """Returns whether a SELECT, or a function's argument, names the table (database.table)."""
    tokens, name_tokens = _tokens(text), _name(table)
    return any(tokens[at : at + 3] == name_tokens for at in range(len(tokens)))


def _passes_to(text: str, database: str, table: str) -> bool:
    """Returns whether arguments of an engine or a function of a table in `database` name the table. Without a
    database it may be in any: which one each server of a cluster takes is a setting of that server."""
    tokens, (table_database, _, name) = _tokens(text), _name(table)
    if table in tokens:  # a string may be the whole name
        return True
    if tokens[:3] == ["Alias", "(", name] and database == table_database:
        return True
    pairs = zip(tokens, tokens[1:], tokens[2:], strict=False)
    return any(
        after == name and comma == "," and before in (table_database, "") for before, comma, after in pairs
    )


def _name(table: str) -> list[str]:
    database, dot, name = table.partition(".")
    return [database, dot, name]


def _tokens(text: str) -> list[str]:
    """Returns each name and string without its quotes and escapes, and each sign as it is."""
    return [
        re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL) if token[0] in _QUOTES else token
        for token in _TOKEN.findall(text)
    ]


def _merges(client: Client, text: str, table: str) -> bool:
    """Returns whether the pattern occurs anywhere in the name, as the server matches it."""
    match = _MERGE.match(text)
    if match is None:
        return False
    database, _, name = table.partition(".")
    if match["pattern"]:
        fits = _matches(client, database, match["database"])
    else:
        fits = [database] == _tokens(match["database"])
    return fits and _matches(client, name, match["name"])


def _matches(client: Client, text: str, pattern: str) -> bool:
    [(fits,)] = client.rows(render("clickhouse/matches", pattern=Sql(pattern)), {"text": text})
    return bool(fits)
