"""Finds policies and filters that hide rows or values of a table from the connection's user.

A load that sees a part of a table takes the rest for missing, and would insert it again. The user often has
no right to read the policies, but the server plans each read with them. The plan of a read of whole tables
has no filter and no function of its own; if it has one, something is hidden. A plan reads nothing. That of
an empty table is empty too, so a load asks again if it misses rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import Sql, identifier, render, table
from sluice.errors import TargetRefused
from sluice.safe_text import visible

_OWN = "ignore"  # the function of the statement itself
_SHOWN = 200


@dataclass(frozen=True)
class Hidden:
    """`filters` that rows pass before the user sees them, and `functions` that give them or other values."""

    filters: tuple[str, ...]
    functions: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.filters or self.functions)


def check_visible(client: Client, tables: Sequence[str]) -> None:
    """Asks with one statement whether the user sees all rows of the tables, unchanged. Raises TargetRefused
    for the first table that is hidden in part."""
    if tables and _hidden(client, tables):
        for name in tables:
            if hidden := _hidden(client, [name]):
                raise _refusal(client, name, hidden)


def _hidden(client: Client, tables: Iterable[str]) -> Hidden:
    reads = Sql(" UNION ALL ".join(f"SELECT {_OWN}(*) FROM {table(name)}" for name in tables))  # noqa: S608
    lines = client.rows(render("clickhouse/explain_reads", reads=reads))
    return hidden_in(json.loads("\n".join(line for (line,) in lines)))


def hidden_in(plan: Any) -> Hidden:
    """Returns what a plan of `clickhouse/explain_reads.sql` adds to the reads. Pure."""
    filters = dict.fromkeys(text for kind, text in _additions(plan) if kind == "filter")
    functions = dict.fromkeys(text for kind, text in _additions(plan) if kind == "function")
    return Hidden(tuple(filters), tuple(functions))


def _additions(node: Any) -> Iterator[tuple[str, str]]:
    if isinstance(node, list):
        for item in node:
            yield from _additions(item)
    elif isinstance(node, dict):
        function = node.get("Function", _OWN)
        if function != _OWN:
            yield "function", str(function)
        for key, value in node.items():
            if "filter" in key.casefold():  # "Row level filter column", "Filter Column"
                yield from [("filter", value)] if isinstance(value, str) else []
            yield from _additions(value)


def _refusal(client: Client, name: str, hidden: Hidden) -> TargetRefused:
    [(user,)] = client.rows(render("clickhouse/current_user"))
    if not hidden.filters:
        return TargetRefused(
            name,
            f"user {user} doesn't see its real values: the server puts {visible(hidden.functions[0])}() "
            "into reads, as a masking policy does",
            f"take {user} out of the policy",
        )
    return TargetRefused(
        name,
        f"user {user} sees only some of its rows: a row policy or another filter keeps those with "
        f"{visible(hidden.filters[0], _SHOWN)}",
        f"take {user} out of it, or CREATE ROW POLICY sluice_reads_all ON {table(name)} USING 1 "
        f"TO {identifier(user)}",
    )
