"""Which pipeline needs somebody, and for what: from its cells, its problems and its schedule. Pure.

The overview is sorted by it. A pipeline has every need that it has a reason for; the most urgent one decides
its place, then how often it has it, then its name.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Self

from sluice.page.models import NeedRow, OverviewRow


class Need(StrEnum):
    """In the order of urgency, the most urgent first. A need of hours has the name of their cell. In `words`
    {0} is "1 hour" or "3 hours", {1} problems and {2} causes."""

    words: str

    UNAVAILABLE = "unavailable", "its lake or ClickHouse does not answer"
    BROKEN = "broken", "{0}: counts do not hold"
    ANOMALY = "anomaly", "{2} of counts that do not hold"
    EXPIRED = "expired", "{0}: Kafka no longer has the records"
    FAILED = "failed", "{0}: the last run failed"
    NO_TABLE = "no-table", "{0}: a table is not there"
    LATE = "late", "{0} late"
    PROBLEM = "problem", "{1} that the watch sees"
    PAUSED = "paused", "paused: no hour is landed by itself"
    STALE = "stale", "{0}: a table has the old rows"
    LOSSY = "lossy", "{0} with a recorded loss"

    def __new__(cls, name: str, words: str) -> Self:
        need = str.__new__(cls, name)
        need._value_, need.words = name, words
        return need

    def text(self, count: int, slice_seconds: int) -> str:
        noun = "hour" if slice_seconds == 3600 else "slice"
        return self.words.format(_number(count, noun), _number(count, "problem"), _number(count, "cause"))


URGENCY: dict[str, int] = {need: number for number, need in enumerate(Need)}


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def attended(row: OverviewRow) -> OverviewRow:
    """Returns the row with what the pipeline needs somebody for and how often, the most urgent first."""
    counts: Counter[str] = Counter()
    for cell in row.cells:
        counts.update(cell.counts or {cell.cell: 1})
    counts[Need.ANOMALY] = 0 if counts[Need.BROKEN] else row.anomalies
    counts[Need.PROBLEM] = sum(row.problems.values())
    counts[Need.PAUSED] = int(row.paused)
    counts[Need.UNAVAILABLE] = int(row.error != "")
    needs = [
        NeedRow(need=need, count=counts[need], text=need.text(counts[need], row.slice_seconds))
        for need in Need
        if counts[need]
    ]
    return row.model_copy(update={"needs": needs})


def by_need(rows: list[OverviewRow]) -> list[OverviewRow]:
    """Sorts rows that have their needs: what needs somebody most comes first."""
    return sorted(rows, key=_place)


def _place(row: OverviewRow) -> tuple[int, int, str]:
    if not row.needs:
        return len(URGENCY), 0, row.pipeline
    first = row.needs[0]
    return URGENCY[first.need], -first.count, row.pipeline
