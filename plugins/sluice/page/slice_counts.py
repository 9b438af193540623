"""What an hour brought, beside the same hour of yesterday and of a week ago. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sluice.config.pipeline import Pipeline
from sluice.page.slice_models import Balance, CountRow, TableCounts
from sluice.safe_text import visible
from sluice.state.missing_values import said
from sluice.state.row_balance import RowBalance, balance_of
from sluice.state.status import UnitStatus

MOST_TYPES = 50


@dataclass(frozen=True)
class HourTotals:
    """Of all clusters of one hour. `tables`: rows landed for a table, committed and rejected there;
    `defaults`: the columns that got some there, with shares."""

    read: int
    landed: int
    unparsed: int
    late: int
    bytes: int
    tables: dict[str, tuple[int, int, int]]
    rows: RowBalance
    defaults: dict[str, str] = field(default_factory=dict)

    @property
    def misfits(self) -> int:
        return self.rows.misfits


def totals_of(pipeline: Pipeline, statuses: Sequence[UnitStatus]) -> HourTotals | None:
    """Returns None for an hour of which nothing has landed."""
    landed = [(status, status.manifest) for status in statuses if status.manifest is not None]
    if not landed:
        return None
    return HourTotals(
        read=sum(m.read for _, m in landed),
        landed=sum(m.landed for _, m in landed),
        unparsed=sum(m.refused for _, m in landed),
        late=sum(m.late for _, m in landed),
        bytes=sum(file.bytes for _, m in landed for file in m.held_files),
        tables=_tables(pipeline, [status for status, _ in landed]),
        rows=balance_of(pipeline, [status for status, _ in landed]),
        defaults=_defaults(pipeline, [status for status, _ in landed]),
    )


def _tables(pipeline: Pipeline, landed: Sequence[UnitStatus]) -> dict[str, tuple[int, int, int]]:
    counts = {}
    for target in pipeline.targets:
        rows = [status.tables[target.table] for status in landed if target.table in status.tables]
        derived = target.counted or target.rollup is not None
        came = sum(row.landed for row in rows) if derived else _came(pipeline, target.table, landed)
        counts[target.table] = came, sum(row.rows for row in rows), sum(row.misfits for row in rows)
    return counts


def _defaults(pipeline: Pipeline, landed: Sequence[UnitStatus]) -> dict[str, str]:
    return {
        target.table: said(status.tables[target.table] for status in landed if target.table in status.tables)
        for target in pipeline.targets
        if not target.counted
    }


def _came(pipeline: Pipeline, table: str, landed: Sequence[UnitStatus]) -> int:
    target = next(one for one in pipeline.targets if one.table == table)
    came = 0
    for status in landed:
        rows = status.manifest.rows_by_type() if status.manifest else {}
        came += sum(rows[name] for name in pipeline.routed(target, rows))
    return came


_MEASURES = (
    ("Records read", "read", ""),
    ("Rows landed", "landed", ""),
    ("Unparsed", "unparsed", ""),
    ("Misfits", "misfits", ""),
    ("Later than grace", "late", ""),
    ("In the lake", "bytes", "bytes"),
)


def count_rows(now: HourTotals | None, day: HourTotals | None, week: HourTotals | None) -> list[CountRow]:
    """Returns nothing for an hour that has not landed."""
    if now is None:
        return []
    return [
        CountRow(name=name, unit=unit, now=getattr(now, key), day=_of(day, key), week=_of(week, key))
        for name, key, unit in _MEASURES
    ]


def _of(totals: HourTotals | None, key: str) -> int | None:
    return None if totals is None else int(getattr(totals, key))


def table_counts(
    now: HourTotals | None, day: HourTotals | None, week: HourTotals | None
) -> list[TableCounts]:
    """Returns what each table got and rejected, in the order of the pipeline file."""
    return [
        TableCounts(
            table=table,
            landed=landed,
            committed=committed,
            misfits=misfits,
            defaults=now.defaults.get(table, "") if now else "",
            day=day.tables.get(table, (0, 0, 0))[1] if day else None,
            week=week.tables.get(table, (0, 0, 0))[1] if week else None,
        )
        for table, (landed, committed, misfits) in (now.tables if now else {}).items()
    ]


def balance(now: HourTotals | None) -> Balance | None:
    """rows landed = loaded + misfits + without a table + not loaded yet."""
    if now is None:
        return None
    rows = now.rows
    return Balance(
        landed=rows.landed,
        loaded=rows.loaded,
        misfits=rows.misfits,
        without_table=rows.without.total(),
        not_loaded=rows.not_loaded,
        types={visible(name): count for name, count in rows.without.most_common(MOST_TYPES)},
    )
