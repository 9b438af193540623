"""Asks for everything that could refuse the rest of a load, while nothing has been changed yet."""

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
        staged = {place.table: self._own_rows(place) for place in self.destinations[1:]}
        if self.attached:
            for place in self.destinations:
                command = Sql(f"ATTACH PARTITION ID {_NOWHERE} FROM {place.staged}")
                sql = render("load/attach_partitions", target=table(place.table), partitions=command)
                self.writer.run("rehearse", sql)
        return staged

    def _check_rights(self) -> None:
        needed = {place.table: _RIGHTS for place in self.destinations} | _OWN_RIGHTS
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
        """Only what deletes waits for a mutation."""
        names = [_REJECTED, *(place.table for place in self.destinations)]
        for name, mutation, reason in self.writer.rows(render("load/stuck_mutations"), {"tables": names}):
            own = self.staging.count_misfits(identifier(SYSTEM, "rejected"))
            if own if name == _REJECTED else self.writer.count_rows(table(name)):
                database, _, rest = name.partition(".")
                where = f"database = {literal(database)} AND table = {literal(rest)}"
                remedy = f"KILL MUTATION WHERE {where} AND mutation_id = {literal(mutation)}"
                raise Blocked(name, mutation, shorten(reason, 200), remedy)

    def _own_rows(self, place: Destination) -> UnitCounts:
        counts = self.writer.count_rows(place.staged)
        [(rows,)] = self.writer.rows(render("clickhouse/count_table", table=place.staged))
        if rows != sum(counts.values()):
            raise TargetRefused(
                place.table,
                f"materialized views give it {rows - sum(counts.values()):,} rows of no slice that is loaded",
                "let them give the source's _slice and _cluster in every row, without FULL or RIGHT JOIN, "
                "ROLLUP and CUBE",
            )
        return counts
