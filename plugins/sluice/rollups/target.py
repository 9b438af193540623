"""The table of a rollup: whether it can take what the SELECT gives."""

from __future__ import annotations

from sluice.clickhouse.client import Client
from sluice.clickhouse.errors import ServerError
from sluice.errors import TargetRefused
from sluice.load.columns import ALWAYS
from sluice.load.inspect import TargetTable, read_table
from sluice.load.sql import Sql, identifier, render, table
from sluice.pipeline import Target
from sluice.rollups.select import everything
from sluice.rollups.spec import Rollup

Columns = tuple[tuple[str, str], ...]
"""(name, type) of what a SELECT gives."""


def columns_of(client: Client, rollup: Rollup) -> Columns:
    """Raises ServerError when the SELECT does not work."""
    return tuple(
        (row[0], row[1]) for row in client.rows(render("describe_rollup", select=everything(rollup)))
    )


def check_rollup(client: Client, found: TargetTable, target: Target, rollup: Rollup) -> None:
    """Raises TargetRefused: the SELECT does not work, or gives what the table cannot take."""
    database, _, name = rollup.source.partition(".")
    if read_table(client, database, name) is None:
        raise TargetRefused(target.table, f"its source {rollup.source} is not there", "create that first")
    try:
        given = columns_of(client, rollup)
    except ServerError as error:
        if error.retryable:
            raise
        raise TargetRefused(
            target.table, f"its SELECT fails: {error.reason}", f"correct {rollup.sql}"
        ) from error
    for name, kind in given:
        if name in ALWAYS:
            remedy = f"leave it out of {rollup.sql}: every row gets its own slice and cluster"
            raise TargetRefused(target.table, f"its SELECT gives {name}", remedy)
        if name not in found.filled:
            remedy = f"ALTER TABLE {table(target.table)} ADD COLUMN {identifier(name)} {kind}"
            raise TargetRefused(target.table, f"it has no column {name}, which its SELECT gives", remedy)


def creation_of(target: Target, rollup: Rollup) -> str:
    """A CREATE TABLE for what the SELECT gives."""
    keys = "toDateTime(0, 'UTC') AS _slice, CAST('', 'LowCardinality(String)') AS _cluster"
    return (
        f"create it, for instance: CREATE TABLE {table(target.table)} ENGINE = MergeTree PARTITION BY "
        f"toYYYYMM(_slice) ORDER BY (_slice, _cluster) EMPTY AS SELECT *, {keys} FROM ({everything(rollup)})"
    )


def cast(name: str, given: str, wanted: str) -> Sql:
    """A value that does not fit its column stops the rollup; states of aggregate functions go as they are."""
    if given == wanted or "AggregateFunction" in given + wanted:
        return identifier(name)
    quoted = wanted.replace("\\", "\\\\").replace("'", "\\'")
    return Sql(f"accurateCast({identifier(name)}, '{quoted}')")
