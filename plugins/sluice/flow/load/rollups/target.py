"""The table of a rollup: whether it takes what the SELECT gives, as it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.settings import STEADY
from sluice.clients.clickhouse.sql import Sql, identifier, literal, own_prefix, render
from sluice.clients.clickhouse.tables import TargetTable
from sluice.clients.clickhouse.types import Type, parse
from sluice.config.pipeline import Target
from sluice.config.target import Rollup
from sluice.errors import TargetRefused
from sluice.flow.load import new_column
from sluice.flow.load.casts.columns import ALWAYS, Filling
from sluice.state.last_ddl import everything

NamedTypes = tuple[tuple[str, str], ...]
"""(name, type) of what a SELECT gives."""


def columns_of(client: Client, rollup: Rollup) -> NamedTypes:
    """Raises ServerError when the SELECT does not work."""
    # With the settings that the rollup's statement carries, on which the types may depend.
    rows = client.rows(render("rollups/describe", select=everything(rollup)), settings=STEADY)
    return tuple((row[0], row[1]) for row in rows)


def check_rollup(
    client: Client, target_table: TargetTable, target: Target, rollup: Rollup, then: Mapping[str, str]
) -> Filling:
    """Returns how the columns are filled by what the SELECT gives.

    `then`: the types that the columns had when the SELECT was this one; without it they have today's types.
    Values of a column whose type was changed since are brought into it as ALTER TABLE brings them.
    Raises TargetRefused: the SELECT does not work, or gives other types than the columns had.
    """
    database, _, name = rollup.source.partition(".")
    if read_table(client, database, name) is None:
        raise TargetRefused(target.table, f"its source {rollup.source} is not there", "create that first")
    try:
        select_columns = columns_of(client, rollup)
    except ServerError as error:
        if error.retryable:
            raise
        raise TargetRefused(
            target.table, f"its SELECT fails: {error.reason}", f"correct {rollup.sql}"
        ) from error
    kinds = {column.name: column.type for column in target_table.columns if column.filled}
    names, values = tuple(name for name, _ in select_columns), []
    for name, kind in select_columns:
        if name in ALWAYS:
            remedy = f"leave it out of {rollup.sql}: every row gets its own slice and cluster"
            raise TargetRefused(target.table, f"its SELECT gives {name}", remedy)
        if name not in kinds:
            columns, alias = [column.name for column in target_table.columns], f"rename it in {rollup.sql}"
            remedy = new_column.remedy(target.table, name, kind, columns, alias)
            raise TargetRefused(target.table, f"it has no column {name}, which its SELECT gives", remedy)
        wanted = then.get(name, kinds[name])
        if not takes(parse(wanted), parse(kind)):
            reason = f"its SELECT gives column {name} as {kind}, the table has {wanted}"
            remedy = (
                f"let {rollup.sql} give that, or the column have the SELECT's type: a cast may cut values"
            )
            raise TargetRefused(target.table, reason, remedy)
        # Qualified: a column may be named like an alias.
        value = f"{given(names)}.{identifier(name)}"
        altered = f"CAST({value}, {literal(kinds[name])})"
        values.append(Sql(value if wanted == kinds[name] else altered))
    return Filling(names, tuple(values), (), ())


def given(columns: Collection[str]) -> Sql:
    """Returns the name of what the SELECT gives in the statement that inserts it: of no column's."""
    return Sql(f"{own_prefix(columns)}given")


def takes(column: Type, given: Type) -> bool:
    """Returns whether every value of the type `given` is the same in the column: the types are the same apart
    from LowCardinality and time zones, and the column may be Nullable."""
    column, given = _bare(column), _bare(given)
    if column.name == "Nullable":
        return takes(column.argument(0), given.argument(0) if given.name == "Nullable" else given)
    if column.name != given.name:
        return False
    if column.name == "DateTime":
        return True
    if column.name == "DateTime64":
        return column.arguments[0] == given.arguments[0]
    if column.name in ("Array", "Map", "Tuple"):
        pairs = list(zip(column.named_arguments(), given.named_arguments(), strict=False))
        same_names = all(mine == theirs for (mine, _), (theirs, _) in pairs)
        same_count = len(column.arguments) == len(given.arguments)
        return same_count and same_names and all(takes(mine, theirs) for (_, mine), (_, theirs) in pairs)
    return column.text == given.text


def _bare(kind: Type) -> Type:
    """Returns the type of the values: how they are stored, and that merges add them up, changes none."""
    if kind.name == "LowCardinality":
        return _bare(kind.argument(0))
    return _bare(kind.stored) if kind.name == "SimpleAggregateFunction" else kind
