"""Which TTLs of a table delete rows, and of which slices they cannot have deleted any yet.

`TO DISK`, `TO VOLUME` and `RECOMPRESS` keep every row. `DELETE` (or no action), `WHERE` and `GROUP BY` do not
(https://clickhouse.com/docs/engines/table-engines/mergetree-family/mergetree#table_engine-mergetree-ttl).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_IDENTIFIER, ServerError
from sluice.clients.clickhouse.sql import Sql, listed, render
from sluice.clients.clickhouse.tables import TargetTable, ViewTable
from sluice.config.pipeline import Pipeline
from sluice.slices import Unit
from sluice.state.ledger import unit_of

_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`|[(\[{]|[)\]}]|,| (?:TTL|SETTINGS) |.", re.DOTALL)
_KEEPS = re.compile(r" (?:TO (?:DISK|VOLUME) '|RECOMPRESS CODEC\()")
_ACTION = re.compile(r" (?:DELETE|WHERE|GROUP BY)(?: |$)")
_QUOTED = re.compile(r"'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`", re.DOTALL)
_ASSIGNMENT = re.compile(r"(`(?:\\.|[^`\\])*`|\w+) = ")


def deleting(engine_full: str) -> tuple[Sql, ...]:
    """Returns the instants at which rows of a table are deleted, as expressions over its columns.

    `MergeTree ORDER BY d TTL d + toIntervalMonth(1) TO DISK 'cold', d + toIntervalYear(1) SETTINGS …`:
    `d + toIntervalYear(1)`.
    """
    rules = [part for part in _elements(engine_full) if not _KEEPS.search(_unquoted(part))]
    return tuple(Sql(_expression(part)) for part in rules)


def _elements(engine_full: str) -> Iterator[str]:
    """Yields the TTL clause, one rule after the other. Keys and assignments of a `GROUP BY … SET …` have
    commas."""
    rule = ""
    for part in _parts(engine_full):
        text = _unquoted(rule)
        if " GROUP BY " in text and (" SET " not in text or _ASSIGNMENT.match(part)):
            rule = f"{rule}, {part}"
            continue
        if rule:
            yield rule
        rule = part
    if rule:
        yield rule


def _parts(engine_full: str) -> Iterator[str]:
    """Yields the TTL clause, cut at its outermost commas."""
    depth, begun, element = 0, False, ""
    for part in _TOKEN.findall(engine_full):
        depth += (part in "([{") - (part in ")]}")
        if not begun:
            begun = depth == 0 and part == " TTL "
        elif depth == 0 and part == " SETTINGS ":
            break
        elif depth == 0 and part == ",":
            yield element.strip()
            element = ""
        else:
            element += part
    if element.strip():
        yield element.strip()


def _unquoted(text: str) -> str:
    """Returns the text with nothing but spaces inside its quotes, in the same places."""
    return _QUOTED.sub(lambda found: found[0][0] + " " * (len(found[0]) - 2) + found[0][-1], text)


def _expression(element: str) -> str:
    action = _ACTION.search(_unquoted(element))
    return element[: action.start()] if action else element


def instants(expressions: Iterable[Sql]) -> Sql:
    """Returns them as seconds since the epoch. DateTime64 and Date32 go on where DateTime ends (2106)."""
    return listed(Sql(f"toInt64(toDateTime64({expression}, 0))") for expression in expressions)


def forgets(table: TargetTable | ViewTable) -> bool:
    """Returns whether rows of the table may vanish by themselves."""
    return bool(deleting(table.engine_full))


def lasting(
    client: Client, pipeline: Pipeline, target_table: TargetTable, units: Collection[Unit]
) -> frozenset[Unit]:
    """Returns those of `units` whose every row has to be there still, where the TTL says so by `_slice`
    alone.

    Ask after the rows are counted: what has not expired now had not expired then.
    """
    expressions = deleting(target_table.engine_full)
    kinds = {column.name: Sql(column.type) for column in target_table.columns}
    if not expressions or not units or not {"_slice", "_cluster"} <= kinds.keys():
        return frozenset()
    sql = render(
        "verify/lasting",
        slice=kinds["_slice"],
        cluster=kinds["_cluster"],
        expiries=instants(expressions),
    )
    try:
        rows = client.rows(sql, _asked(units))
    except ServerError as error:
        if error.code == UNKNOWN_IDENTIFIER:  # the TTL reads other columns
            return frozenset()
        raise
    return frozenset(unit_of(pipeline, start, cluster) for start, cluster in rows)


def _asked(units: Collection[Unit]) -> dict[str, Sequence[int] | Sequence[str]]:
    ordered = sorted(units)
    return {
        "starts": [int(unit.slice.start.timestamp()) for unit in ordered],
        "clusters": [unit.cluster for unit in ordered],
    }
