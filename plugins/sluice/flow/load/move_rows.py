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
    found: TargetTable
    destinations: Sequence[Destination]
    writer: Writer

    def execute(self) -> None:
        """Attaches the staged parts; where a quorum has to have the rows first, inserts them."""
        if not self.found.attachable:
            self._insert()
            return
        for place in self.destinations:
            self._attach(place)

    def _attach(self, place: Destination) -> None:
        keys = self._partitions(place)
        for start in range(0, len(keys), _PARTITIONS_AT_ONCE):
            some = keys[start : start + _PARTITIONS_AT_ONCE]
            commands = [Sql(f"ATTACH PARTITION ID {literal(key)} FROM {place.staged}") for key in some]
            sql = render("load/attach_partitions", target=table(place.table), partitions=listed(commands))
            self.writer.run("move", sql, blocks=len(commands))

    def _insert(self) -> None:
        """The target's views fire, as they have with the staged rows."""
        target = self.destinations[0]
        sql = render(
            "load/move_rows",
            target=table(target.table),
            columns=listed(map(identifier, self.found.filled)),
            staging=target.staged,
            fence=self.writer.attempt.fence,
        )
        self.writer.run("move", sql, blocks=len(self._partitions(target)))

    def _partitions(self, place: Destination) -> list[str]:
        found = self.writer.rows(render("load/staged_partitions"), {"name": place.staged_name})
        return [key for (key,) in found]
