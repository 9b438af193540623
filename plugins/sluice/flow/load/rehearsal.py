"""Tries everything that could refuse the rest of a load, before anything is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.clients.clickhouse.errors import shorten
from sluice.clients.clickhouse.sql import SYSTEM, Sql, identifier, literal, render, table
from sluice.errors import Blocked, TargetRefused
from sluice.flow.load.destinations import Destination
from sluice.flow.load.staging import Staging
from sluice.flow.load.writer import UnitCounts, Writer

_REJECTED, _LEDGER = f"{SYSTEM}.rejected", f"{SYSTEM}.ledger"
_RIGHTS = ("SELECT(_slice, _cluster)", "INSERT", "ALTER DELETE")
_OWN_RIGHTS = {_REJECTED: ("SELECT", "INSERT", "ALTER DELETE"), _LEDGER: ("SELECT", "INSERT")}
# No partition has such an id: there is nothing to attach, and everything else about it is checked.
_NOWHERE = Sql(literal("no-such"))


@dataclass(frozen=True)
class Rehearsal:
    """`attached`: parts are attached to the destinations."""

    destinations: Sequence[Destination]
    staging: Staging
    writer: Writer
    attached: bool

    def execute(self) -> dict[str, UnitCounts]:
        """Returns the staged rows of the views' tables by unit.

        Raises TargetRefused, Blocked by a mutation that fails, and what the client raises.
        """
        self._check_rights()
        self._check_mutations()
        staged = {destination.table: self._own_rows(destination) for destination in self.destinations[1:]}
        if self.attached:
            for destination in self.destinations:
                command = Sql(f"ATTACH PARTITION ID {_NOWHERE} FROM {destination.staged}")
                sql = render("load/attach_partitions", target=table(destination.table), partitions=command)
                self.writer.run("rehearse", sql)
        return staged

    def _check_rights(self) -> None:
        needed = {destination.table: _RIGHTS for destination in self.destinations} | _OWN_RIGHTS
        for name, rights in needed.items():
            if not self._granted(", ".join(rights), name):
                lacking = [right for right in rights if not self._granted(right, name)]
                raise TargetRefused(
                    name,
                    f"the user of the connection lacks {', '.join(lacking)}",
                    f"GRANT {', '.join(lacking)} ON {table(name)} to the user",
                )

    def _granted(self, rights: str, name: str) -> bool:
        [(granted,)] = self.writer.rows(
            render("clickhouse/check_grant", rights=Sql(rights), place=table(name))
        )
        return bool(int(granted))

    def _check_mutations(self) -> None:
        """Raises Blocked for a failing mutation of a table from which rows will be deleted."""
        names = [_REJECTED, *(destination.table for destination in self.destinations)]
        for name, mutation, reason in self.writer.rows(render("load/stuck_mutations"), {"tables": names}):
            rejected = self.staging.count_misfits(identifier(SYSTEM, "rejected"))
            if rejected if name == _REJECTED else self.writer.count_rows(table(name)):
                database, _, rest = name.partition(".")
                where = f"database = {literal(database)} AND table = {literal(rest)}"
                remedy = f"KILL MUTATION WHERE {where} AND mutation_id = {literal(mutation)}"
                raise Blocked(name, mutation, shorten(reason, 200), remedy)

    def _own_rows(self, destination: Destination) -> UnitCounts:
        counts = self.writer.count_rows(destination.staged)
        [(rows,)] = self.writer.rows(render("clickhouse/count_table", table=destination.staged))
        if rows != sum(counts.values()):
            raise TargetRefused(
                destination.table,
                f"materialized views give it {rows - sum(counts.values()):,} rows of no slice that is loaded",
                "let them give the source's _slice and _cluster in every row, without FULL or RIGHT JOIN, "
                "ROLLUP and CUBE",
            )
        return counts
