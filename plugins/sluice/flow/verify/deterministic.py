"""Which expressions give the same for the same row every time."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_IDENTIFIER, ServerError
from sluice.clients.clickhouse.sql import Sql, render
from sluice.clients.clickhouse.tables import Column

_CALL = re.compile(r"\b(\w+)\s*\(")
_WORDS = frozenset({"in", "and", "or", "not", "between", "like", "ilike", "when", "then", "else", "case"})


def changing(client: Client, columns: Sequence[Column]) -> frozenset[str]:
    """Returns columns whose DEFAULT calls what is not known to be deterministic, or reads such a column."""
    defaults = {c.name: c.default for c in columns if c.kind and c.default}
    called = {column: _calls(text) for column, text in defaults.items()}
    sure = deterministic(client, sorted(set().union(*called.values())))
    unsure = {column for column, names in called.items() if not names <= sure}
    while True:
        more = {
            name
            for name, text in defaults.items()
            if any(re.search(rf"(?<!\w){re.escape(other)}(?!\w)", text) for other in unsure)
        }
        if more <= unsure:
            return frozenset(unsure)
        unsure |= more


def _calls(expression: str) -> set[str]:
    return {name for name in _CALL.findall(expression) if name.lower() not in _WORDS}


def deterministic(client: Client, names: Sequence[str]) -> frozenset[str]:
    """Returns the functions that give the same every time; none where the server does not say."""
    for column in ("deterministic", "is_deterministic") if names else ():
        sql = render("verify/deterministic_functions", deterministic=Sql(column))
        try:
            return frozenset(name for (name,) in client.rows(sql, {"names": list(names)}))
        except ServerError as error:
            if error.code != UNKNOWN_IDENTIFIER:
                raise
    return frozenset()
