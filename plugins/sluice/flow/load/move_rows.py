"""Moves staged rows into the tables in which they stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.flow.load.destinations import Destination
from sluice.flow.load.writer import Writer

_PARTITIONS_AT_ONCE = 1000  # of one statement


@dataclass(frozen=True)
class Move:
    target_table: TargetTable
    destinations: Sequence[Destination]
    writer: Writer

    def execute(self) -> None:
        """Attaches the staged parts; where a quorum has to have the rows first, inserts them."""
        if not self.target_table.attachable:
            self._insert()
            return
        for destination in self.destinations:
            self._attach(destination)

    def _attach(self, destination: Destination) -> None:
        keys = self._partitions(destination)
        for start in range(0, len(keys), _PARTITIONS_AT_ONCE):
            some = keys[start : start + _PARTITIONS_AT_ONCE]
            commands = [Sql(f"ATTACH PARTITION ID {literal(key)} FROM {destination.staged}") for key in some]
            sql = render(
                "load/attach_partitions", target=table(destination.table), partitions=listed(commands)
            )
            self.writer.run("move", sql, blocks=len(commands))

    def _insert(self) -> None:
        """The target's views fire, as they have with the staged rows."""
        target = self.destinations[0]
        sql = render(
            "load/move_rows",
            target=table(target.table),
            columns=listed(map(identifier, self.target_table.filled)),
            staging=target.staged,
            fence=self.writer.attempt.fence,
        )
        self.writer.run("move", sql, blocks=len(self._partitions(target)))

    def _partitions(self, destination: Destination) -> list[str]:
        rows = self.writer.rows(render("load/staged_partitions"), {"name": destination.staged_name})
        return [key for (key,) in rows]
