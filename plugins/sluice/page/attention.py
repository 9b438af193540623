"""Which pipeline needs somebody, and for what: from its cells, its problems and its schedule. Pure.

The overview is sorted by it. A pipeline has every need that it has a reason for; the most urgent one decides
its place, then how often it has it, then its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Self

from pydantic import Field

from sluice.flow.verify.causes import Cause, causes_of
from sluice.flow.verify.repairs import ranged
from sluice.flow.verify.verdict import OpenAnomaly, Verification
from sluice.page.models import Model, NeedRow, OverviewRow

# What is wrong, by cause, as the page shows it.

MOST_CAUSES, MOST_EXAMPLES, MOST_COMMANDS = 200, 20, 20


class RepairRow(Model):
    """A command that repairs. What a run of the backfill DAG has to be given for the same: a mode,
    `[start, end)`, and tables, none for all; all are empty for a command that is no run."""

    command: str
    mode: str = ""
    start: str = ""
    end: str = ""
    tables: list[str] = Field(default_factory=list)


class CauseRow(Model):
    """What is wrong, once for all `slices` hours, from `first` to `last`, that have it. `breaks`: a count is
    wrong; `examples` are the first of `anomalies`. `held_at`: when all of these hours were last verified
    without an anomaly, empty where no verification that is kept says so."""

    name: str
    place: str
    message: str
    breaks: bool
    advice: str
    repairs: list[RepairRow]
    slices: int
    first: str
    last: str
    found_at: str
    held_at: str
    anomalies: int
    examples: list[OpenAnomaly]


class Anomalies(Model):
    """What is open, by cause, and the last verifications, the newest first."""

    causes: list[CauseRow]
    verifications: list[Verification]


def cause_rows(
    anomalies: Iterable[OpenAnomaly], verifications: Sequence[Verification] = ()
) -> list[CauseRow]:
    """Returns the causes, wrong counts before unfinished hours. `verifications` are in order, the newest
    last."""
    sound = [verification for verification in reversed(verifications) if not verification.found]
    return [_row(cause, sound) for cause in causes_of(anomalies)[:MOST_CAUSES]]


def _row(cause: Cause, sound: Sequence[Verification]) -> CauseRow:
    slices = cause.slices
    return CauseRow(
        name=cause.name,
        place=cause.place,
        message=cause.message,
        breaks=cause.breaks,
        advice=cause.advice,
        repairs=[repair_row(command) for command in cause.commands[:MOST_COMMANDS]],
        slices=len(slices),
        first=slices[0] if slices else "",
        last=slices[-1] if slices else "",
        found_at=max(anomaly.found_at for anomaly in cause.anomalies),
        held_at=_held_at(slices, sound),
        anomalies=len(cause.anomalies),
        examples=list(cause.anomalies[:MOST_EXAMPLES]),
    )


def _held_at(slices: Sequence[str], sound: Sequence[Verification]) -> str:
    """Returns when all of the slices were last verified without an anomaly. `sound` are the verifications
    without any, the newest first."""
    if not slices:
        return ""
    first, last = _minute(slices[0]), _minute(slices[-1])
    covering = (
        verification.at
        for verification in sound
        if verification.start[:16] <= first and last < verification.until[:16]
    )
    return next(covering, "")


def _minute(slice_id: str) -> str:
    """Returns 2026-11-20T10:00 for 2026-11-20T10Z, 2026-11-20T10:15 for 2026-11-20T1015Z: as text these are
    in the order of time, like the edges of verifications, which are in UTC, too."""
    return f"{slice_id[:13]}:{slice_id[13:-1] or '00'}"


def repair_row(command: str) -> RepairRow:
    run = ranged(command)
    if run is None or not run.mode or run.yes:  # a yes is for a shell
        return RepairRow(command=command)
    return RepairRow(command=command, mode=run.mode, start=run.start, end=run.until, tables=run.tables)


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
