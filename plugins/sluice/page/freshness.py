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


def freshness_of(tables: Iterable[str], found: Iterable[FreshTable], now: datetime) -> Freshness:
    """Returns a row for each of `tables`, those of the pipeline file, in their order."""
    own: dict[str, list[FreshTable]] = {table: [] for table in tables}
    for one in found:
        if one.table in own:
            own[one.table].append(one)
    return Freshness(tables=[_row(table, ones, now) for table, ones in own.items()])


def _row(table: str, found: list[FreshTable], now: datetime) -> FreshnessRow:
    week = _delays(one for one in found if one.slice.end > now - SPAN)
    day = _delays(one for one in found if one.slice.end > now - _DAY)
    newest = max(found, key=lambda one: (one.slice.end, one.verified), default=None)
    return FreshnessRow(
        table=table,
        records_day=sum(one.records for one in day),
        p50_day=quantile(day, 0.5),
        p99_day=quantile(day, 0.99),
        p50_week=quantile(week, 0.5),
        p99_week=quantile(week, 0.99),
        newest=newest.slice.id if newest else "",
        verified=from_seconds(newest.verified).isoformat() if newest else "",
    )


def _delays(found: Iterable[FreshTable]) -> list[Delay]:
    return [delay for one in found for delay in one.delays]
