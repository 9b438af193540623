"""How fresh each table is: the age that records had when their hour was committed and verified. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from sluice.page.models import Model
from sluice.slices import from_seconds
from sluice.state.freshness import Delay, FreshTable, quantile

SPAN = timedelta(days=7)
_DAY = timedelta(days=1)


class FreshnessRow(Model):
    """Of one table, the age in seconds that half of the records, and 99 of 100, had at most when their hour
    was first committed and verified, in the last day and week; None without such an hour. `newest` is its
    id."""

    table: str
    records_day: int
    p50_day: float | None
    p99_day: float | None
    p50_week: float | None
    p99_week: float | None
    newest: str
    verified: str


class Freshness(Model):
    tables: list[FreshnessRow]


def freshness_of(tables: Iterable[str], fresh_tables: Iterable[FreshTable], now: datetime) -> Freshness:
    """Returns a row for each of `tables`, those of the pipeline file, in their order."""
    by_table: dict[str, list[FreshTable]] = {table: [] for table in tables}
    for fresh_table in fresh_tables:
        if fresh_table.table in by_table:
            by_table[fresh_table.table].append(fresh_table)
    return Freshness(tables=[_row(table, own_tables, now) for table, own_tables in by_table.items()])


def _row(table: str, fresh_tables: list[FreshTable], now: datetime) -> FreshnessRow:
    week = _delays(fresh_table for fresh_table in fresh_tables if fresh_table.slice.end > now - SPAN)
    day = _delays(fresh_table for fresh_table in fresh_tables if fresh_table.slice.end > now - _DAY)
    newest = max(
        fresh_tables, key=lambda fresh_table: (fresh_table.slice.end, fresh_table.verified), default=None
    )
    return FreshnessRow(
        table=table,
        records_day=sum(fresh_table.records for fresh_table in day),
        p50_day=quantile(day, 0.5),
        p99_day=quantile(day, 0.99),
        p50_week=quantile(week, 0.5),
        p99_week=quantile(week, 0.99),
        newest=newest.slice.id if newest else "",
        verified=from_seconds(newest.verified).isoformat() if newest else "",
    )


def _delays(fresh_tables: Iterable[FreshTable]) -> list[Delay]:
    return [delay for fresh_table in fresh_tables for delay in fresh_table.delays]
