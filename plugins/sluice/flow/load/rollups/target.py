"""The table of a rollup: whether it can take what the SELECT gives, and how."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.settings import STEADY
from sluice.clients.clickhouse.sql import Sql, identifier, literal, render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.clients.clickhouse.types import parse
from sluice.config.pipeline import Target
from sluice.config.rollups import Rollup
from sluice.errors import TargetRefused
from sluice.flow.load.casts.columns import ALWAYS, Filling
from sluice.flow.load.casts.nested import MisfitCheck
from sluice.flow.load.rollups.values import Unprovable, convert
from sluice.state.target_ddl import everything

NamedTypes = tuple[tuple[str, str], ...]
"""(name, type) of what a SELECT gives."""


def columns_of(client: Client, rollup: Rollup) -> NamedTypes:
    """Raises ServerError when the SELECT does not work."""
    # With the settings that the rollup's statement carries, on which the types may depend.
    rows = client.rows(render("rollups/describe", select=everything(rollup)), settings=STEADY)
    return tuple((row[0], row[1]) for row in rows)


def check_rollup(client: Client, target_table: TargetTable, target: Target, rollup: Rollup) -> Filling:
    """Returns how the columns are filled by what the SELECT gives.

    Raises TargetRefused: the SELECT does not work, or gives what the table cannot take exactly.
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
    for name, kind in select_columns:
        if name in ALWAYS:
            remedy = f"leave it out of {rollup.sql}: every row gets its own slice and cluster"
            raise TargetRefused(target.table, f"its SELECT gives {name}", remedy)
        if name not in kinds:
            remedy = f"ALTER TABLE {table(target.table)} ADD COLUMN {identifier(name)} {kind}"
            raise TargetRefused(target.table, f"it has no column {name}, which its SELECT gives", remedy)
    return _filling(target, rollup, select_columns, kinds)


def _filling(target: Target, rollup: Rollup, select_columns: NamedTypes, kinds: Mapping[str, str]) -> Filling:
    """The SELECT's `n`-th column is `g<n>`, its value `v<n>`, and whether that is a misfit `m<n>`."""
    values, named, checks = [], [], []
    for number, (name, kind) in enumerate(select_columns):
        try:
            column_cast = convert(parse(kind), parse(kinds[name]), f"g{number}")
        except Unprovable as error:
            reason = (
                f"its SELECT gives column {name} as {kind}, of which not every value can be {kinds[name]}"
            )
            altered = f"ALTER TABLE {table(target.table)} MODIFY COLUMN {identifier(name)} {kind}"
            remedy = f"cast it in {rollup.sql}, or {altered}"
            raise TargetRefused(target.table, reason, remedy) from error
        # A table that the SELECT joins may be altered after its types were read.
        misfit = f"(toTypeName(g{number}) != {literal(kind)})"
        misfit = misfit if column_cast.misfit == "0" else f"({misfit} + {column_cast.misfit} > 0)"
        named += [Sql(f"{column_cast.value} AS v{number}"), Sql(f"{misfit} AS m{number}")]
        values.append(Sql(f"v{number}"))
        checks.append(MisfitCheck(name, kinds[name], _text(kind, f"g{number}"), f"m{number}"))
    return Filling(tuple(name for name, _ in select_columns), tuple(values), (tuple(named),), tuple(checks))


def _text(kind: str, x: str) -> str:
    return "''" if kind.startswith("AggregateFunction") else f"ifNull(toString({x}), 'NULL')"
