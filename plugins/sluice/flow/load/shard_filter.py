"""Keeps the rows of a slice that belong on this shard, and counts all. Without shards it keeps every row.

By Kafka partition the others are left out before they are parsed. By an expression a row's columns have to be
known first, their DEFAULTs included: the rows go into a Null table like the target, whose views keep this
shard's and count the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice.clients.clickhouse.sharding import Placement
from sluice.clients.clickhouse.sql import Sql, identifier, listed, render
from sluice.clients.clickhouse.tables import TargetTable
from sluice.flow.load.writer import UnitCounts, Writer


@dataclass(frozen=True)
class ShardFilter:
    """The tables of one attempt that tell own rows from all."""

    placement: Placement
    target_table: TargetTable
    writer: Writer

    @property
    def by_value(self) -> bool:
        return not (self.placement.alone or self.placement.by_partition)

    @property
    def by_record(self) -> bool:
        return self.placement.by_partition and not self.placement.alone

    @property
    def counts(self) -> Sql:
        return self.writer.attempt.temporary("counted")

    @property
    def entry(self) -> Sql:
        """What the rows are inserted into."""
        return self.writer.attempt.temporary("all") if self.by_value else self.writer.attempt.staging

    @property
    def tables(self) -> tuple[Sql, ...]:
        """Everything that `create` makes, views first."""
        views = ("own", "count", "all") if self.by_value else ()
        counted = () if self.placement.alone else ("counted",)
        return tuple(map(self.writer.attempt.temporary, (*views, *counted)))

    def create(self) -> None:
        """Creates the tables; the staging table exists already."""
        if self.placement.alone:
            return
        attempt = self.writer.attempt
        self.writer.run("stage", render("load/create_counted", counted=self.counts))
        if not self.by_value:
            return
        definitions = listed(column.definition for column in self.target_table.columns)
        self.writer.run("stage", render("load/create_entry", entry=self.entry, definitions=definitions))
        own_row = self.placement.own_row
        sql = render(
            "load/create_own_view",
            view=attempt.temporary("own"),
            staging=attempt.staging,
            columns=listed(map(identifier, self.target_table.filled)),
            entry=self.entry,
            own=own_row,
        )
        self.writer.run("stage", sql)
        view = attempt.temporary("count")
        sql = render("load/create_count_view", view=view, counted=self.counts, entry=self.entry, own=own_row)
        self.writer.run("stage", sql)

    def wanted(self, routed: Sql) -> Sql:
        """Returns the condition on the lake's rows, for those that are to be parsed."""
        return Sql(f"({routed}) AND {self.placement.own_record}") if self.by_record else routed

    def counted(self) -> tuple[UnitCounts, UnitCounts]:
        """Returns (all rows that were seen, this shard's among them), by unit."""
        all_rows, own_rows = (
            render("load/counted_rows", counted=self.counts, rows=Sql(n)) for n in ("rows", "own")
        )
        return self.writer.counts(all_rows), self.writer.counts(own_rows)
