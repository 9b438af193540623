"""What an hour brought, beside the same hour of yesterday and of a week ago. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.config.pipeline import Pipeline, Target
from sluice.page.models import Model
from sluice.safe_text import visible
from sluice.state.row_balance import RowBalance, balance_of, said
from sluice.state.status import UnitStatus

MOST_TYPES = 50


class CountRow(Model):
    """A number of the hour, and of the same hour of the day and of the week before, where that has landed.
    `unit` is empty or `bytes`."""

    name: str
    unit: str
    now: int
    day: int | None
    week: int | None


class TableCounts(Model):
    """What landed for a table and is committed and rejected there; `day` and `week`: committed then.
    `defaults` names columns that got defaults, with shares."""

    table: str
    landed: int
    committed: int
    rejected_rows: int
    defaults: str
    day: int | None
    week: int | None


class Balance(Model):
    """landed = loaded + rejected rows + without_table + not_loaded, in rows; `types` are those without a
    table."""

    landed: int
    loaded: int
    rejected_rows: int
    without_table: int
    not_loaded: int
    types: dict[str, int]


@dataclass(frozen=True)
class HourTotals:
    """Of all clusters of one hour: its `counts` by what they are called, and what each table got."""

    counts: dict[str, int]
    tables: dict[str, TableCounts]
    rows: RowBalance


_BYTES = "In the lake"


def totals_of(pipeline: Pipeline, statuses: Sequence[UnitStatus]) -> HourTotals | None:
    """Returns None for an hour of which nothing has landed."""
    landed = [status for status in statuses if status.manifest is not None]
    if not landed:
        return None
    manifests = [status.manifest for status in landed if status.manifest]
    rows = balance_of(pipeline, landed)
    counts = {
        "Records read": sum(m.read for m in manifests),
        "Rows landed": sum(m.landed for m in manifests),
        "Rejected records": sum(m.refused for m in manifests),
        "Rejected rows": rows.rejected_rows,
        "Later than grace": sum(m.late for m in manifests),
        _BYTES: sum(file.bytes for m in manifests for file in m.held_files),
    }
    return HourTotals(counts, {t.table: _table(pipeline, t, landed) for t in pipeline.targets}, rows)


def _table(pipeline: Pipeline, target: Target, landed: Sequence[UnitStatus]) -> TableCounts:
    rows = [status.tables[target.table] for status in landed if target.table in status.tables]
    return TableCounts(
        table=target.table,
        landed=sum(landed_for(pipeline, target, status) for status in landed),
        committed=sum(row.rows for row in rows),
        rejected_rows=sum(row.rejected_rows for row in rows),
        defaults="" if target.counted else said(rows),
        day=None,
        week=None,
    )


def landed_for(pipeline: Pipeline, target: Target, status: UnitStatus) -> int:
    """Returns the rows that a unit has for a table. Those of traffic counts and of rollups are known when it
    is loaded."""
    if target.counted or target.rollup is not None:
        row = status.tables.get(target.table)
        return row.landed if row else 0
    rows = status.manifest.rows_by_type() if status.manifest else {}
    return sum(rows[name] for name in pipeline.routed(target, rows))


def count_rows(now: HourTotals | None, day: HourTotals | None, week: HourTotals | None) -> list[CountRow]:
    """Returns nothing for an hour that has not landed."""
    return [
        CountRow(
            name=name,
            unit="bytes" if name == _BYTES else "",
            now=count,
            day=day.counts[name] if day else None,
            week=week.counts[name] if week else None,
        )
        for name, count in (now.counts if now else {}).items()
    ]


def table_counts(
    now: HourTotals | None, day: HourTotals | None, week: HourTotals | None
) -> list[TableCounts]:
    """Returns what each table got and rejected, in the order of the pipeline file."""

    def then(totals: HourTotals | None, table: str) -> int | None:
        return totals.tables[table].committed if totals else None

    return [
        table.model_copy(update={"day": then(day, name), "week": then(week, name)})
        for name, table in (now.tables if now else {}).items()
    ]


def balance(now: HourTotals | None) -> Balance | None:
    """rows landed = loaded + rejected rows + without a table + not loaded yet."""
    if now is None:
        return None
    rows = now.rows
    return Balance(
        landed=rows.landed,
        loaded=rows.loaded,
        rejected_rows=rows.rejected_rows,
        without_table=rows.without.total(),
        not_loaded=rows.not_loaded,
        types={visible(name): count for name, count in rows.without.most_common(MOST_TYPES)},
    )
