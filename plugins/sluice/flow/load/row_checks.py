"""The pipeline file's `checks` of a table: conditions on its rows, tried while they are staged."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.inspect_tables import deterministic
from sluice.clients.clickhouse.query_tree import functions
from sluice.clients.clickhouse.query_tree import parse as parse_tree
from sluice.clients.clickhouse.sql import Sql, listed, literal, render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.clients.clickhouse.types import parse
from sluice.config.pipeline import Pipeline, Target
from sluice.config.target import RowCheck
from sluice.errors import TargetRefused
from sluice.flow.load.work import UnitsRefused
from sluice.safe_text import visible
from sluice.slices import Unit
from sluice.state.held import release_command

FAILS = "fails the check "
_CONDITIONS = ("Bool", "UInt8", "Nothing")
_ALIAS = re.compile(r" \(alias .*\)( \(children \d+\))?$")
_CORRECT = "correct it in the pipeline file"


def passes(sql: str) -> str:
    """Returns the condition that a row meets the check: NULL is no yes, as in ClickHouse's own CONSTRAINT."""
    return f"(ifNull(({sql}\n) != 0, 0) = 1)"


@dataclass(frozen=True)
class RowChecks:
    """The checks of one load, as SQL by name: those that reject rows, and those that count them."""

    rejecting: Mapping[str, str]
    counted: Mapping[str, str]

    @classmethod
    def of(cls, target: Target, counts: bool) -> RowChecks:
        """Returns the target's checks, without `counts` only those that reject."""
        counted = {name: check.sql for name, check in target.checks.items() if check.on_fail != "reject"}
        return cls(target.rejecting, counted if counts else {})

    @property
    def names(self) -> list[str]:
        return sorted({*self.rejecting, *self.counted})

    @property
    def passing(self) -> Sql:
        """The condition on rows that no check rejects."""
        return Sql(" AND ".join(["1", *map(passes, self.rejecting.values())]))

    @property
    def first(self) -> tuple[Sql, Sql]:
        """Returns the name of the first check that rejects a row, and the reason."""
        pairs = [(f"NOT {passes(sql)}", name, sql) for name, sql in self.rejecting.items()]
        names = listed(f"{unfit}, {literal(name)}" for unfit, name, _ in pairs)
        reasons = listed(f"{unfit}, {literal(f'{FAILS}`{sql}`')}" for unfit, _, sql in pairs)
        return Sql(f"multiIf({names}, '')"), Sql(f"multiIf({reasons}, '')")

    @property
    def counts(self) -> Sql:
        """Returns a map from each counted check to how many rows fail it."""
        names = listed(literal(name) for name in self.counted)
        counts = listed(f"countIf(NOT {passes(sql)})" for sql in self.counted.values())
        return Sql(f"CAST(([{names}], [{counts}]), 'Map(String, UInt64)')")


NO_CHECKS = RowChecks({}, {})


def check_conditions(client: Client, target_table: TargetTable, target: Target, own: bool) -> None:
    """Raises TargetRefused unless each check is a condition on the columns of one row, and what the client
    raises. `own`: the checks are those of an earlier load."""
    remedy = "reload these hours, which takes the checks of the pipeline file" if own else _CORRECT
    columns = {column.name for column in target_table.columns}
    for name, check in target.checks.items():
        if name in columns:
            raise _refused(target_table, name, "a column has the name, too", "give the check another name")
        if wrong := _wrong(client, target_table, check):
            raise _refused(target_table, name, wrong, remedy)


def _wrong(client: Client, target_table: TargetTable, check: RowCheck) -> str:
    name, condition = table(target_table.table), Sql(f"({check.sql}\n)")
    try:
        ast = client.rows(render("load/explain_check", condition=Sql(check.sql)))
        [(_, kind, *_)] = client.rows(render("load/describe_check", condition=condition, table=name))
        tree = [
            line
            for (line,) in client.rows(render("load/explain_expression", expression=condition, table=name))
        ]
    except ServerError as error:
        if error.retryable:
            raise
        return error.reason
    if parse(kind).plain.name not in _CONDITIONS:
        return f"it gives {kind}, and not true or false"
    if any(_ALIAS.search(line) for (line,) in ast):
        return "it gives an expression a name (AS), which a column of the row may have"
    passing = [column.name for column in target_table.columns if column.kind == "EPHEMERAL"]
    if reads := [one for one in passing if any(f"column_name: {one}," in line for line in tree)]:
        return f"it reads {reads[0]}, which is EPHEMERAL"
    root = parse_tree(tree)
    if sum(node.kind == "QUERY" for node in root.walk()) > 1:
        return "it reads other rows by a SELECT"
    called = functions(root)
    if "arrayJoin" in called:
        return "arrayJoin() makes several rows of one"
    sure = deterministic(client, sorted(called)) if check.on_fail == "reject" else called
    if unsure := sorted(called - sure):
        return f"{unsure[0]}() may say another thing of the same row later: use `warn` or `hold`"
    return ""


def _refused(target_table: TargetTable, name: str, reason: str, remedy: str) -> TargetRefused:
    return TargetRefused(target_table.table, f"`checks: {visible(name)}`: {reason}", remedy)


# Rows that hold their hour back.
Released = Mapping[Unit, Collection[tuple[str, str]]]
"""The checks, as (name, SQL), that somebody has released a unit of."""


@dataclass(eq=False)
class RowsHeld(UnitsRefused):
    """Rows fail a check that holds their hours: by unit and check, how many."""

    held: Mapping[Unit, Mapping[str, int]]


def held_units(
    checks: Mapping[str, RowCheck], failed: Mapping[Unit, Mapping[str, int]], released: Released
) -> dict[Unit, dict[str, int]]:
    """Returns of each unit that is held the rows by check that holds, also by those that it is released of:
    one release is for all of them."""
    holding = {name: check.sql for name, check in checks.items() if check.on_fail == "hold"}
    found = {
        unit: {name: counts[name] for name in holding if counts.get(name)} for unit, counts in failed.items()
    }
    return {
        unit: counts
        for unit, counts in found.items()
        if any((name, holding[name]) not in released.get(unit, ()) for name in counts)
    }


def rows_held(pipeline: Pipeline, target: Target, held: Mapping[Unit, Mapping[str, int]]) -> RowsHeld:
    """Returns the error: which rows of which slices fail which check, and what loads them all the same."""
    unit, counts = min(held.items())
    more = f", and {len(held) - 1:,} more are held" if len(held) > 1 else ""
    failing = " and ".join(
        f"{rows:,} rows fail the check {name} (`{target.checks[name].sql}`)" for name, rows in counts.items()
    )
    release = release_command(pipeline, target.table, [one.slice for one in held])
    return RowsHeld(
        target.table,
        f"slice {unit} is held, because {failing}{more}; the table keeps what it has",
        f"correct what sends them, or let it in: `{release}`",
        frozenset(held),
        held,
    )
