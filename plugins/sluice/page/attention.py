"""Which pipeline needs somebody, and for what: from its cells, its problems and its schedule. Pure.

The overview is sorted by it. A pipeline has every need that it has a reason for; the most urgent one decides
its place, then how often it has it, then its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sluice.page.cells import Cell
from sluice.page.models import NeedRow, OverviewRow


class Need(StrEnum):
    """In the order of urgency, the most urgent first."""

    UNAVAILABLE = "unavailable"
    BROKEN = "broken"
    ANOMALY = "anomaly"
    EXPIRED = "expired"
    FAILED = "failed"
    NO_TABLE = "no-table"
    LATE = "late"
    PROBLEM = "problem"
    PAUSED = "paused"
    STALE = "stale"
    LOSSY = "lossy"


URGENCY = {need: number for number, need in enumerate(Need)}
_OF_CELLS = {
    Need.BROKEN: Cell.BROKEN,
    Need.EXPIRED: Cell.EXPIRED,
    Need.FAILED: Cell.FAILED,
    Need.NO_TABLE: Cell.NO_TABLE,
    Need.LATE: Cell.LATE,
    Need.STALE: Cell.STALE,
    Need.LOSSY: Cell.LOSSY,
}
# {0}: "1 hour", "3 hours"
_WORDS = {
    Need.UNAVAILABLE: "its lake or ClickHouse does not answer",
    Need.BROKEN: "{0}: counts do not hold",
    Need.ANOMALY: "{2} of counts that do not hold",
    Need.EXPIRED: "{0}: Kafka no longer has the records",
    Need.FAILED: "{0}: the last run failed",
    Need.NO_TABLE: "{0}: a table is not there",
    Need.LATE: "{0} late",
    Need.PROBLEM: "{1} that the watch sees",
    Need.PAUSED: "paused: no hour is landed by itself",
    Need.STALE: "{0}: a table has the old rows",
    Need.LOSSY: "{0} with a recorded loss",
}


@dataclass(frozen=True)
class AttentionFacts:
    """`cells` are the range's slices by cell, `broken` its open anomalies, which may be of no slice;
    `problems` those that the watch sees, by kind."""

    cells: Mapping[str, int]
    broken: int = 0
    problems: Mapping[str, int] | None = None
    paused: bool = False
    unavailable: bool = False


def needs_of(facts: AttentionFacts) -> list[tuple[Need, int]]:
    """Returns what the pipeline needs somebody for and how often, the most urgent first."""
    counts = Counter({need: facts.cells.get(cell, 0) for need, cell in _OF_CELLS.items()})
    counts[Need.ANOMALY] = 0 if counts[Need.BROKEN] else facts.broken
    counts[Need.PROBLEM] = sum((facts.problems or {}).values())
    counts[Need.PAUSED] = int(facts.paused)
    counts[Need.UNAVAILABLE] = int(facts.unavailable)
    return [(need, counts[need]) for need in Need if counts[need]]


def text_of(need: Need, count: int, slice_seconds: int) -> str:
    noun = "hour" if slice_seconds == 3600 else "slice"
    return _WORDS[need].format(_number(count, noun), _number(count, "problem"), _number(count, "cause"))


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def attended(row: OverviewRow) -> OverviewRow:
    """Returns the row with its needs."""
    cells: Counter[str] = Counter()
    for cell in row.cells:
        cells.update(cell.counts or {cell.cell: 1})
    facts = AttentionFacts(cells, row.anomalies, row.problems, row.paused, row.error != "")
    needs = [
        NeedRow(need=need, count=count, text=text_of(need, count, row.slice_seconds))
        for need, count in needs_of(facts)
    ]
    return row.model_copy(update={"needs": needs})


def by_need(rows: list[OverviewRow]) -> list[OverviewRow]:
    """Sorts rows that have their needs: what needs somebody most comes first."""
    return sorted(rows, key=_place)


def _place(row: OverviewRow) -> tuple[int, int, str]:
    if not row.needs:
        return len(URGENCY), 0, row.pipeline
    first = row.needs[0]
    return URGENCY[Need(first.need)], -first.count, row.pipeline
