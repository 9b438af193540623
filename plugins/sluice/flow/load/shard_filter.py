"""Keeps the rows of a slice that belong on this shard and that no check rejects, and counts all.

The rows go into a Null table like the target, which has a column more for each that may lack a value, and
the record's own where a check may reject it. Its views keep the rows, reject some, and count what they lack
and which checks they fail. By Kafka partition other shards' rows are left out before they
are parsed. By an expression a row's columns have to be known first, their DEFAULTs included: the views keep
this shard's and count the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.clients.clickhouse.shards import Placement
from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, render
from sluice.clients.clickhouse.tables import TargetTable
from sluice.flow.load.casts.column_sql import Lack
from sluice.flow.load.casts.columns import LAKE
from sluice.flow.load.row_checks import NO_CHECKS, RowChecks
from sluice.flow.load.writer import UnitCounts, Writer

RECORD = ("_topic", "_partition", "_offset", "_timestamp", "_type", "_payload", "_row")
"""What of a record its rejected row has."""
# Of a load that counts nothing.
NONE_LACKING = Sql(
    "(SELECT now() AS slice, '' AS cluster, CAST(map(), 'Map(String, UInt64)') AS defaulted, "
    "defaulted AS nulls, defaulted AS failed WHERE 0)"
)


@dataclass(frozen=True)
class ShardFilter:
    """The tables of one attempt that tell own rows from all, and count what they lack; `lacks` is empty where
    nobody asks for that."""

    placement: Placement
    target_table: TargetTable
    writer: Writer
    lacks: tuple[Lack, ...] = ()
    checks: RowChecks = NO_CHECKS

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
        return self.writer.attempt.temporary("all") if self._passing else self.writer.attempt.staging

    @property
    def _passing(self) -> bool:
        """Whether the rows pass through a table with views."""
        return self.by_value or self._counting or self.rejects

    @property
    def rejects(self) -> bool:
        """Whether a check rejects rows: then they need all of their records' columns."""
        return bool(self.checks.rejecting)

    @property
    def _counting(self) -> bool:
        return bool(self.lacks or self.checks.counted)

    @property
    def flags(self) -> tuple[str, ...]:
        """The columns of `entry` for `lacks`, named as no column of the target is."""
        return flags_beside([column.name for column in self.target_table.columns], len(self.lacks))

    @property
    def beside(self) -> dict[str, Sql]:
        """What the rows have in `entry` beside the target's columns, by names that none of these has."""
        flags = zip(self.flags, (Sql(lack.flag) for lack in self.lacks), strict=True)
        return dict(flags) | {own: identifier(name) for name, own in self._record.items()}

    @property
    def _record(self) -> dict[str, str]:
        """Returns the names in `entry` of the record's columns."""
        taken = [column.name for column in self.target_table.columns]
        names = flags_beside(taken, len(RECORD), "record") if self.rejects else ()
        return dict(zip(RECORD, names, strict=False))

    @property
    def tables(self) -> tuple[Sql, ...]:
        """Everything that `create` makes, views first."""
        made = {
            "own": self._passing,
            "count": self.by_value,
            "lack": self._counting,
            "unfit": self.rejects,
            "all": self._passing,
            "counted": not self.placement.alone,
            "lacking": self._counting,
        }
        return tuple(self.writer.attempt.temporary(name) for name, is_made in made.items() if is_made)

    def create(self) -> None:
        """Creates the tables; the staging table exists already."""
        if not self.placement.alone:
            self.writer.run("stage", render("load/create_counted", counted=self.counts))
        if not self._passing:
            return
        definitions = [column.definition for column in self.target_table.columns]
        definitions += [Sql(f"{identifier(name)} UInt8") for name in self.flags]
        definitions += [Sql(f"{identifier(own)} {LAKE[name]}") for name, own in self._record.items()]
        sql = render("load/create_entry", entry=self.entry, definitions=listed(definitions))
        self.writer.run("stage", sql)
        own_row = self.placement.own_row if self.by_value else Sql("1")
        self._keep(own_row)
        if self.by_value:
            self._count(own_row)
        if self._counting:
            self._count_lacking(own_row)
        if self.rejects:
            self._reject()

    def _keep(self, own_row: Sql) -> None:
        attempt = self.writer.attempt
        sql = render(
            "load/create_own_view",
            view=attempt.temporary("own"),
            staging=attempt.staging,
            columns=listed(map(identifier, self.target_table.filled)),
            entry=self.entry,
            own=self._kept(own_row),
        )
        self.writer.run("stage", sql)

    def _kept(self, own_row: Sql) -> Sql:
        return Sql(f"{own_row} AND {self.checks.passing}") if self.rejects else own_row

    def _reject(self) -> None:
        """Every shard rejects the rows of all: by value each keeps those of its own Kafka partitions."""
        column, reason = self.checks.first
        record = {name.removeprefix("_"): identifier(own) for name, own in self._record.items()}
        sql = render(
            "load/create_unfit_view",
            view=self.writer.attempt.temporary("unfit"),
            rejected_rows=self.writer.attempt.rejected_rows,
            target=literal(self.target_table.table),
            column=column,
            reason=reason,
            entry=self.entry,
            passing=self.checks.passing,
            **record,
        )
        self.writer.run("stage", sql)

    def _count(self, own_row: Sql) -> None:
        view = self.writer.attempt.temporary("count")
        sql = render(
            "load/create_count_view",
            view=view,
            counted=self.counts,
            entry=self.entry,
            own=own_row,
            passing=self.checks.passing,
        )
        self.writer.run("stage", sql)

    def _count_lacking(self, own_row: Sql) -> None:
        lacking = self.writer.attempt.temporary("lacking")
        self.writer.run("stage", render("load/create_lacking", lacking=lacking))
        sql = render(
            "load/create_lacking_view",
            view=self.writer.attempt.temporary("lack"),
            lacking=lacking,
            defaulted=self._sums(null=False),
            nulls=self._sums(null=True),
            failed=self.checks.counts,
            entry=self.entry,
            own=self._kept(own_row),
        )
        self.writer.run("stage", sql)

    def _sums(self, null: bool) -> Sql:
        """Returns a map from columns to how many rows lack a value of them."""
        pairs = [
            (literal(lack.column), f"sum({identifier(flag)})")
            for lack, flag in zip(self.lacks, self.flags, strict=True)
            if lack.null is null
        ]
        names, sums = (listed(column) for column in zip(*pairs, strict=True)) if pairs else ("", "")
        return Sql(f"CAST(([{names}], [{sums}]), 'Map(String, UInt64)')")

    @property
    def lacking(self) -> Sql:
        """Returns the SELECT of (slice, cluster, defaulted, nulls, failed) of the rows that were kept."""
        lacking = self.writer.attempt.temporary("lacking") if self._counting else NONE_LACKING
        return render("load/lacking_by_unit", lacking=lacking)

    def wanted(self, routed: Sql) -> Sql:
        """Returns the condition on the lake's rows, for those that are to be parsed."""
        return Sql(f"({routed}) AND {self.placement.own_record}") if self.by_record else routed

    def counted(self) -> tuple[UnitCounts, UnitCounts]:
        """Returns (all rows that were seen, this shard's among them), by unit."""
        all_rows, own_rows = (
            render("load/counted_rows", counted=self.counts, rows=Sql(n)) for n in ("rows", "own")
        )
        return self.writer.counts(all_rows), self.writer.counts(own_rows)


def flags_beside(columns: Sequence[str], count: int, prefix: str = "lacks") -> tuple[str, ...]:
    while any(name.startswith(prefix) for name in columns):
        prefix += "_"
    return tuple(f"{prefix}{number}" for number in range(count))
