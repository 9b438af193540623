"""What needs somebody: one list with a finding for each cause, the most urgent first. Pure.

The overview, a pipeline's page, an hour's card and `sluice status` are views of this list. What the page,
verify and the watch say of one thing is one finding:

| cause | takes in |
| --- | --- |
| a missing table | verify's and the watch's "table missing", and hours that lack it alone |
| what verify has found | the watch's "anomaly" |
| incomplete hours | verify's "incomplete"; the watch's "hour overdue", "hour not committed", "lag" |
| a paused DAG | hours that are late |
| an unusual hour | the watch's "rejects above share", "field missing", "too few events" |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

import pendulum

from sluice.config.pipeline import Pipeline
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.causes import Cause, causes_of
from sluice.flow.verify.repairs import Repairs, ranged
from sluice.flow.verify.verdict import OpenAnomaly, Verification, by_tables
from sluice.page.models import Cell, Example, Finding, FindingKind, OverviewCell, OverviewRow, RepairRow
from sluice.page.odd import RECORDS, Odd
from sluice.slices import Slice, floor
from sluice.watch.problems import Alarm, ProblemKind, watch_remedy

MOST, MOST_EXAMPLES, MOST_COMMANDS = 50, 3, 5
_BAD, _WARN, _NONE = "bad", "warn", ""
_TONES = {
    **dict.fromkeys(FindingKind, _WARN),
    **dict.fromkeys(
        (
            FindingKind.UNAVAILABLE,
            FindingKind.NO_TABLE,
            FindingKind.DAMAGE,
            FindingKind.EXPIRED,
            FindingKind.DELETES,
            FindingKind.FAILED,
        ),
        _BAD,
    ),
    FindingKind.NOTE: _NONE,
}
_AT_WORK = "a run is working on it: repairs are offered again once it has ended"
_URGENCY = {kind: number for number, kind in enumerate(FindingKind)}


@dataclass(frozen=True)
class Known:
    """All that is known of a pipeline and of the hours of a range. `alarms` are the watch's; `gone`: target
    tables that are not there, None where nobody asked, and `absent` those of the whole pipeline where `gone`
    are only an hour's; `paused`: whether the hourly DAG is, None where
    Airflow has none. `error`: the lake or ClickHouse did not answer; `one`: it is all about one hour."""

    pipeline: Pipeline
    now: datetime
    cells: Sequence[OverviewCell] = ()
    anomalies: Sequence[OpenAnomaly] = ()
    verifications: Sequence[Verification] = ()
    alarms: Sequence[Alarm] = ()
    gone: Collection[str] | None = None
    absent: Collection[str] | None = None
    odd: Sequence[Odd] = ()
    paused: bool | None = False
    watched: bool = True
    error: str = ""
    one: bool = False

    @cached_property
    def cell_by_id(self) -> Mapping[str, OverviewCell]:
        return {cell.id: cell for cell in self.cells}

    @cached_property
    def open_alarms(self) -> tuple[Alarm, ...]:
        return tuple(alarm for alarm in self.alarms if not alarm.over)

    @cached_property
    def missing(self) -> Mapping[str, tuple[Alarm | OpenAnomaly, ...]]:
        """The tables that are not there, with who said so. Whether a target is, only the page knows now, if
        it has asked: verify and the watch have seen it before."""
        said: dict[str, list[Alarm | OpenAnomaly]] = {name: [] for name in sorted(self.gone or ())}
        there = {t.table for t in self.pipeline.targets} - set(said) if self.gone is not None else set()
        for alarm in self.open_alarms:
            if alarm.problem.kind is ProblemKind.TABLE:
                said.setdefault(table_of(alarm.problem.place), []).append(alarm)
        for anomaly in self.anomalies:
            if anomaly.kind == AnomalyKind.TABLE_MISSING or anomaly.cause:
                said.setdefault(anomaly.cause or anomaly.table, []).append(anomaly)
        return {name: tuple(sources) for name, sources in said.items() if name not in there}

    @cached_property
    def judged(self) -> tuple[OpenAnomaly, ...]:
        """The anomalies by the tables that are there now: what had to wait for one can be repaired."""
        absent = self.gone if self.absent is None else self.absent
        if absent is None:
            return tuple(self.anomalies)
        return tuple(by_tables(one, absent) for one in self.anomalies)

    @property
    def knows_lookback(self) -> bool:
        """Whether the cells cover every hour that the watch looks at."""
        if self.one:
            return True
        if not self.cells or "T" not in self.cells[0].id:
            return False
        length = self.pipeline.slice
        first, last = (self._slice(self.cells[at].id) for at in (0, -1))
        begun = floor(self.now - self.pipeline.lookback, length)
        return first.start <= begun and last.end >= floor(self.now, length) - length

    def cell_of(self, slice_id: str) -> OverviewCell | None:
        """Returns the cell of a slice, or of its day; None for one outside of the range."""
        return self.cell_by_id.get(slice_id) or self.cell_by_id.get(slice_id[:10])

    def hours(self, count: int) -> str:
        noun = "hour" if self.pipeline.slice == timedelta(hours=1) else "slice"
        return f"this {noun}" if self.one else f"{count:,} {noun}{'' if count == 1 else 's'}"

    def fill(self, first: str, last: str) -> RepairRow:
        """Returns the command that lands and loads what hours lack; `first` and `last` are ids, or days."""
        length = self.pipeline.slice
        end = min(self._slice(last, last=True).start, floor(self.now, length) - length)
        start = self._slice(first)
        until = Slice(max(pendulum.instance(end), start.start), length)
        return repair_row(Repairs.of(self.pipeline).run([start, until], "fill"))

    def _slice(self, name: str, last: bool = False) -> Slice:
        if "T" in name:
            return Slice.from_id(name, self.pipeline.slice)
        day = pendulum.instance(datetime.fromisoformat(f"{name}T00:00:00+00:00"))
        return Slice(day.add(days=1) - self.pipeline.slice if last else day, self.pipeline.slice)


@dataclass
class _Hours:
    """Hours that have something in common."""

    count: int = 0
    first: str = ""
    last: str = ""

    def add(self, name: str, count: int = 1) -> None:
        self.count += count
        self.first = min(self.first or name, name)
        self.last = max(self.last, name)


def repair_row(command: str) -> RepairRow:
    run = ranged(command)
    if run is None or not run.mode or run.yes:  # a yes is for a shell
        return RepairRow(command=command)
    return RepairRow(command=command, mode=run.mode, start=run.start, end=run.until, tables=run.tables)


def finding(kind: FindingKind, what: str, **more: object) -> Finding:
    return Finding.model_validate({"kind": kind, "tone": _TONES[kind], "what": what, **more})


def findings_of(known: Known, of_hours: Iterable[Finding] | None = None) -> list[Finding]:
    """Returns the findings. `of_hours` are those on what keeps hours from being complete, where more is known
    of these than their cells."""
    hours = list(_incomplete(known) if of_hours is None else of_hours)
    found = [
        *([finding(FindingKind.UNAVAILABLE, "Nothing is known", message=known.error)] if known.error else []),
        *_missing_tables(known),
        *hours,
        *_causes(known),
        *_unusual(known),
        *_alarms(known, incomplete=bool(hours)),
        *_unattended(known, hours),
    ]
    busy = [cell.id for cell in known.cells if cell.running]
    left = [_left_to_run(one) if _is_at_work(one, busy, known.one) else one for one in found]
    return sorted(left, key=lambda one: (_URGENCY[one.kind], -one.slices, one.first))


def _is_at_work(one: Finding, busy: Sequence[str], only: bool) -> bool:
    """Returns whether a run is at work on one of its hours. `busy`: slices or days; `only` there is one."""
    return any(
        only or (one.first[: len(name)] <= name[: len(one.first)] and name[: len(one.last)] <= one.last)
        for name in busy
    )


def _left_to_run(one: Finding) -> Finding:
    """Returns the finding without its repair; one of what is merely unfinished warns nobody."""
    if not one.repairs:
        return one
    tone = _NONE if one.tone == _WARN else one.tone
    return one.model_copy(update={"repairs": [], "tone": tone, "advice": _AT_WORK})


def needing(findings: Iterable[Finding]) -> list[Finding]:
    """Returns those that need somebody."""
    return [one for one in findings if one.tone]


def verdict_line(findings: Iterable[Finding]) -> str:
    """`needs attention: adx.clicks is missing in ClickHouse: 25 hours; 2 more: …`"""
    lines = [one.line for one in needing(findings)]
    if not lines:
        return "nothing needs attention"
    more = f"; {len(lines) - 1:,} more: {' · '.join(lines[1:3])}" if len(lines) > 1 else ""
    return f"needs attention: {lines[0]}{more}{' …' if len(lines) > 3 else ''}"


def with_findings(row: OverviewRow, findings: Sequence[Finding]) -> OverviewRow:
    return row.model_copy(
        update={"findings": list(findings[:MOST]), "more": max(len(findings) - MOST, 0)},
    )


def by_need(rows: Iterable[OverviewRow]) -> list[OverviewRow]:
    """Sorts rows that have their findings: what needs somebody most comes first."""

    def place(row: OverviewRow) -> tuple[int, int, str]:
        first = next(iter(needing(row.findings)), None)
        if first is None:
            return len(_URGENCY), 0, row.pipeline
        return _URGENCY[first.kind], -first.slices, row.pipeline

    return sorted(rows, key=place)


def table_of(place: str) -> str:
    """Returns the table of `table e.clicks, shard s`."""
    return place.removeprefix("table ").partition(", shard ")[0]


def _missing_tables(known: Known) -> Iterator[Finding]:
    by_cell = _hours_by_cell(known)
    for table, said in known.missing.items():
        hours = _Hours()
        for of_cell in (by_cell[cell] for cell in (Cell.NO_TABLE, Cell.LANDED) if cell in by_cell):
            hours.add(of_cell.first, of_cell.count)
            hours.add(of_cell.last, 0)
        anomalies = [one for one in said if isinstance(one, OpenAnomaly)]
        outside = {name for one in anomalies for name in one.slices if not known.cell_of(name)}
        for name in sorted(outside) or ([known.cells[0].id] if known.one and not hours.count else []):
            hours.add(name)
        messages = [one.problem.message if isinstance(one, Alarm) else one.message for one in said[:1]]
        command = known.pipeline.command("doctor")
        yield finding(
            FindingKind.NO_TABLE,
            f"{table} is missing in ClickHouse",
            names=[str(ProblemKind.TABLE)],
            table=table if table in {target.table for target in known.pipeline.targets} else "",
            effect=known.hours(hours.count) if hours.count else "nothing can be loaded into it",
            message="".join(messages),
            advice=f"`{command}` prints its CREATE TABLE. Then fill the hours that lack it.",
            repairs=[known.fill(hours.first, hours.last)] if hours.count else [],
            slices=hours.count,
            first=hours.first,
            last=hours.last,
            since=min((one.since if isinstance(one, Alarm) else one.found_at for one in said), default=""),
        )


_CELLS = {str(cell): cell for cell in Cell}


def _hours_by_cell(known: Known) -> dict[Cell, _Hours]:
    hours: dict[Cell, _Hours] = {}
    for cell in known.cells:
        for name, count in (cell.counts or {cell.cell: 1}).items():
            hours.setdefault(_CELLS[name], _Hours()).add(cell.id, count)
    return hours


_NOT_DONE = frozenset({Cell.LATE, Cell.FAILED, Cell.NO_TABLE, Cell.EXPIRED, Cell.STALE})
_WORDS_OF_CELLS = {
    Cell.EXPIRED: (FindingKind.EXPIRED, "Kafka no longer has the records"),
    Cell.FAILED: (FindingKind.FAILED, "The last run failed"),
    Cell.STALE: (FindingKind.STALE, "A table has the rows of an earlier landing"),
    Cell.LOSSY: (FindingKind.LOSS, "Landed with a loss"),
}


def _incomplete(known: Known) -> Iterator[Finding]:
    """Yields findings by the hours' cells."""
    hours = _hours_by_cell(known)
    for cell, (kind, what) in _WORDS_OF_CELLS.items():
        if of_cell := hours.get(cell):
            advice = "`on_expired: land_rest` lands what is left." if cell is Cell.EXPIRED else ""
            fills = cell in (Cell.FAILED, Cell.STALE)
            yield _of_hours(known, kind, what, of_cell, advice=advice, fills=fills, since=_since(known, cell))
    late: dict[str, _Hours] = {}
    for one in known.cells:
        count = one.counts.get(Cell.LATE, 0) if one.counts else int(one.cell is Cell.LATE)
        if count:
            what = "Not complete" if one.counts else "Not landed" if one.unlanded else "Not loaded"
            reason = paused_words(known) if one.counts or one.unlanded else ""
            late.setdefault(reason or what, _Hours()).add(one.id, count)
    for what, of_cell in late.items():
        advice = paused_advice(known) or "The next hourly run goes back to them."
        since = _since(known, Cell.LATE)
        yield _of_hours(known, FindingKind.LATE, what, of_cell, advice=advice, fills=True, since=since)


def _of_hours(
    known: Known, kind: FindingKind, what: str, hours: _Hours, advice: str, fills: bool, since: str
) -> Finding:
    effect = known.hours(hours.count)
    if what == paused_words(known):
        effect += " isn't complete" if hours.count == 1 else " aren't complete"
    return finding(
        kind,
        what,
        effect=effect,
        advice=advice,
        repairs=[known.fill(hours.first, hours.last)] if fills else [],
        slices=hours.count,
        first=hours.first,
        last=hours.last,
        since=since,
    )


def paused_words(known: Known) -> str:
    """Returns why no hourly run takes an hour; empty where one does."""
    if known.paused is False:
        return ""
    return f"DAG {known.pipeline.name} {'is paused' if known.paused else 'is not in Airflow'}"


def paused_advice(known: Known) -> str:
    if known.paused is False:
        return ""
    return (
        f"`airflow dags unpause {known.pipeline.name}`"
        if known.paused
        else "`airflow dags list-import-errors`"
    )


def _since(known: Known, cell: Cell) -> str:
    """Returns since when the watch has seen hours with this cell."""
    kinds = {Cell.EXPIRED: {ProblemKind.EXPIRED}, Cell.LATE: {ProblemKind.OVERDUE, ProblemKind.NOT_COMMITTED}}
    seen = [alarm for alarm in known.open_alarms if alarm.problem.kind in kinds.get(cell, ())]
    return min((alarm.since for alarm in seen), default="")


# What verify has found, and the watch in its name.
_PLAIN: dict[str, str] = {
    AnomalyKind.INCOMPLETE: "not complete",
    AnomalyKind.LOSS: "records lost in Kafka",
    AnomalyKind.STALLED: "a partition stands still",
    AnomalyKind.GAP: "offsets between hours are missing",
    AnomalyKind.OVERLAP: "offsets are in two hours",
    AnomalyKind.BACKWARD: "boundaries go back",
    AnomalyKind.OFFSETS: "offsets aren't those of the boundaries",
    AnomalyKind.LACKING: "landed without a topic",
    AnomalyKind.READ: "record counts don't match",
    AnomalyKind.LANDED: "row counts of the lake don't match",
    AnomalyKind.REJECTED_RECORDS: "counts of rejected records don't match",
    AnomalyKind.MOSTLY_REJECTED: "most records are rejected",
    AnomalyKind.MANIFEST: "a manifest can't be read",
    AnomalyKind.FILE_MISSING: "a lake file is gone",
    AnomalyKind.FILE_NOT_MOVED: "a lake file isn't in its place",
    AnomalyKind.FILE_SIZE: "a lake file has another size",
    AnomalyKind.FILE_CHECKSUM: "a lake file has changed",
    AnomalyKind.FILE_UNKNOWN: "a lake file that nothing names",
    AnomalyKind.ATTEMPT: "files of an old attempt",
    AnomalyKind.NOT_ERASED: "not searched for what is erased",
    AnomalyKind.ROW_PAYLOAD: "payloads in the lake can't be read",
    AnomalyKind.ROW_TYPE: "rows in the lake have another type",
    AnomalyKind.ROW_HOUR: "rows in the lake are of another hour",
    AnomalyKind.ROW_IDENTITY: "rows in the lake are of other offsets",
    AnomalyKind.LEDGER: "row counts don't match",
    AnomalyKind.ROWS_MISSING: "rows are missing",
    AnomalyKind.ROWS_EXTRA: "too many rows",
    AnomalyKind.VALUES: "values differ from the lake",
    AnomalyKind.ROWS_DUPLICATE: "duplicate rows",
    AnomalyKind.ROWS_FOREIGN: "rows that no landing read",
    AnomalyKind.ROWS_UNCOVERED: "rows that no load wrote",
    AnomalyKind.REJECTED_ROWS: "counts of rejected rows don't match",
    AnomalyKind.REJECTED_VALUES: "rejected rows differ from the lake",
    AnomalyKind.COUNTS: "traffic counts don't match",
    AnomalyKind.VIEW: "a view's table doesn't match",
    AnomalyKind.VIEW_MISSING: "a materialized view is gone",
    AnomalyKind.READERS_VIEW: "the readers' view doesn't match",
    AnomalyKind.MISPLACED: "rows on the wrong shard",
    AnomalyKind.LEFT: "rows on a shard that left",
}
_NAMED = 2


def _causes(known: Known) -> Iterator[Finding]:
    still = any(alarm.problem.kind is ProblemKind.STILL for alarm in known.open_alarms)
    since = {a.problem.place: a.since for a in known.open_alarms if a.problem.kind is ProblemKind.ANOMALY}
    for cause in causes_of(one for one in known.judged if not _is_covered(known, one)):
        if cause.name == AnomalyKind.STALLED and still:
            continue
        yield _of_cause(known, cause, since.get(f"{cause.name}, {cause.place}", ""))


def _is_covered(known: Known, anomaly: OpenAnomaly) -> bool:
    """Returns whether another finding says it: on a missing table, or by the cells of its hours."""
    if anomaly.kind == AnomalyKind.TABLE_MISSING or anomaly.cause:
        return True
    if anomaly.kind == AnomalyKind.INCOMPLETE:
        return bool(anomaly.slices) and all(known.cell_of(name) for name in anomaly.slices)
    if anomaly.kind == AnomalyKind.LOSS:
        cells = [known.cell_of(name) for name in anomaly.slices]
        return bool(cells) and all(cell and _has_loss(cell) for cell in cells)
    return False


def _has_loss(cell: OverviewCell) -> bool:
    return bool({Cell.LOSSY, Cell.EXPIRED} & (cell.counts.keys() or {cell.cell}))


def _of_cause(known: Known, cause: Cause, since: str) -> Finding:
    kinds = list(dict.fromkeys(anomaly.kind for anomaly in cause.anomalies))
    words = ", ".join(_PLAIN.get(kind, str(kind)) for kind in kinds[:_NAMED])
    late = FindingKind.LATE if cause.name == AnomalyKind.INCOMPLETE else FindingKind.PROBLEM
    slices, found_at = cause.slices, min(anomaly.found_at for anomaly in cause.anomalies)
    held_at = _held_at(slices, [one for one in reversed(known.verifications) if not one.found])
    return finding(
        FindingKind.DAMAGE if cause.breaks else late,
        f"{words}{' …' if len(kinds) > _NAMED else ''} ({cause.place.removeprefix('table ')})",
        names=kinds,
        effect=known.hours(len(slices)) if slices else "",
        message=cause.message,
        advice=cause.advice,
        repairs=[repair_row(command) for command in cause.commands[:MOST_COMMANDS]],
        slices=len(slices),
        first=slices[0] if slices else "",
        last=slices[-1] if slices else "",
        since=_earlier(since, found_at, held_at),
        held_at=held_at,
        anomalies=len(cause.anomalies),
        examples=[
            Example(kind=one.kind, place=one.place, message=one.message)
            for one in cause.anomalies[: MOST_EXAMPLES if len(cause.anomalies) > 1 else 0]
        ],
    )


def _earlier(since: str, found_at: str, held_at: str) -> str:
    """Returns since when the watch has seen it, unless it was over in between; else when verify found it."""
    if not since or (held_at and datetime.fromisoformat(since) < datetime.fromisoformat(held_at)):
        return found_at
    return min(since, found_at, key=datetime.fromisoformat)


def _held_at(slices: Sequence[str], sound: Iterable[Verification]) -> str:
    """Returns when all of the slices were last verified without an anomaly. `sound` are the verifications
    without any, the newest first."""
    if not slices:
        return ""
    first, last = _minute(slices[0]), _minute(slices[-1])
    covering = (one.at for one in sound if one.start[:16] <= first and last < one.until[:16])
    return next(covering, "")


def _minute(slice_id: str) -> str:
    """Returns 2026-11-20T10:00 for 2026-11-20T10Z, 2026-11-20T10:15 for 2026-11-20T1015Z: as text these are
    in the order of time, like the edges of verifications, which are in UTC, too."""
    return f"{slice_id[:13]}:{slice_id[13:-1] or '00'}"


def _unusual(known: Known) -> Iterator[Finding]:
    """Yields what complete hours have in common that is unusual; the newest hour's share and numbers."""
    groups: dict[tuple[str, str], list[Odd]] = {}
    mostly = any(one.kind == AnomalyKind.MOSTLY_REJECTED for one in known.anomalies)
    for odd in sorted(known.odd, key=lambda one: one.slice):
        if not (mostly and odd.place == RECORDS):
            groups.setdefault((odd.kind, odd.place), []).append(odd)
    for (kind, place), odds in groups.items():
        slices = sorted({odd.slice for odd in odds})
        alarms = [a for a in known.open_alarms if a.problem.kind == kind and a.problem.place == place]
        yield finding(
            FindingKind.ODD,
            odds[-1].what,
            names=[kind],
            effect=known.hours(len(slices)),
            message=odds[-1].message,
            advice=f"`{known.pipeline.command('rejected')}` names columns and reasons."
            if "rejects" in kind
            else "",
            slices=len(slices),
            first=slices[0],
            last=slices[-1],
            since=min((alarm.since for alarm in alarms), default=""),
        )


# What the watch alone sees.
_KINDS = {
    ProblemKind.UNAVAILABLE: FindingKind.UNAVAILABLE,
    ProblemKind.RETENTION: FindingKind.DELETES,
    ProblemKind.EXPIRED: FindingKind.EXPIRED,
    ProblemKind.HELD: FindingKind.HELD,
    ProblemKind.OVERDUE: FindingKind.LATE,
    ProblemKind.NOT_COMMITTED: FindingKind.LATE,
    ProblemKind.OLDER: FindingKind.LATE,
    ProblemKind.SCHEMA: FindingKind.NOTE,
    ProblemKind.FORGETS: FindingKind.NOTE,
    ProblemKind.REJECTED: FindingKind.ODD,
    ProblemKind.FIELD: FindingKind.ODD,
    ProblemKind.CHECK: FindingKind.ODD,
    ProblemKind.FEW: FindingKind.ODD,
}
_WORDS: dict[ProblemKind, Callable[[str], str]] = {
    ProblemKind.UNAVAILABLE: lambda place: f"No answer from {place}",
    ProblemKind.RETENTION: lambda place: "Kafka deletes records soon that haven't landed",
    ProblemKind.EXPIRED: lambda place: "Kafka no longer has the records",
    ProblemKind.OVERDUE: lambda place: "Not landed",
    ProblemKind.NOT_COMMITTED: lambda place: f"Not loaded into {table_of(place)}",
    ProblemKind.HELD: lambda place: f"A check holds hours out of {table_of(place)}",
    ProblemKind.OLDER: lambda place: "Older hours aren't complete",
    ProblemKind.STILL: lambda place: f"{place.removeprefix('cluster ')} stands still",
    ProblemKind.TRANSACTION: lambda place: (
        f"{place.removeprefix('partition ')} waits behind an open transaction"
    ),
    ProblemKind.SCHEMA: lambda place: f"Fields changed: {place}",
}
_OF_SLICES = frozenset({ProblemKind.OVERDUE, ProblemKind.EXPIRED, ProblemKind.RETENTION})


def _alarms(known: Known, incomplete: bool) -> Iterator[Finding]:
    groups: dict[tuple[str, str], list[Alarm]] = {}
    for alarm in known.open_alarms:
        if not _is_said(known, alarm, incomplete):
            problem = alarm.problem
            place = "" if problem.kind in _OF_SLICES else problem.place
            groups.setdefault((problem.kind, place), []).append(alarm)
    for alarms in groups.values():
        problem = alarms[0].problem
        slices = sorted({_slice_in(alarm.problem.place) for alarm in alarms} - {""})
        words = _WORDS.get(problem.kind, lambda place, kind=problem.kind: f"{place}: {kind}")
        yield finding(
            _KINDS.get(problem.kind, FindingKind.PROBLEM),
            words(problem.place),
            names=[problem.kind],
            effect=known.hours(len(slices)) if slices and problem.kind in _OF_SLICES else "",
            message=problem.message,
            slices=len(slices),
            first=slices[0] if slices else "",
            last=slices[-1] if slices else "",
            since=min(alarm.since for alarm in alarms),
        )


def _slice_in(place: str) -> str:
    return place.removeprefix("slice ").partition("/")[0] if place.startswith("slice ") else ""


def _is_said(known: Known, alarm: Alarm, incomplete: bool) -> bool:
    """Returns whether another finding says it, or the page knows better."""
    kind, place = alarm.problem.kind, alarm.problem.place
    if kind in (ProblemKind.TABLE, ProblemKind.ANOMALY):
        return True
    if kind in (ProblemKind.OVERDUE, ProblemKind.EXPIRED):
        return known.cell_of(_slice_in(place)) is not None
    if kind is ProblemKind.NOT_COMMITTED:
        return incomplete or known.knows_lookback or table_of(place) in known.missing
    if kind is ProblemKind.LAG:
        return place == "seconds" and (incomplete or bool(known.missing))
    if kind is ProblemKind.UNAVAILABLE:
        return bool(known.error) and place != "kafka"
    if kind in (ProblemKind.REJECTED, ProblemKind.FIELD, ProblemKind.CHECK):
        return any(str(odd.kind) == kind and odd.place == place for odd in known.odd)
    return kind is ProblemKind.FEW and any(str(odd.kind) == kind for odd in known.odd)


def _unattended(known: Known, hours: Iterable[Finding]) -> Iterator[Finding]:
    """Yields that nothing is landed, or noticed, by itself."""
    words = paused_words(known)
    if words and not known.one and not any(one.what == words for one in hours):
        advice = paused_advice(known)
        yield finding(FindingKind.PAUSED, words, effect="no hour is landed by itself", advice=advice)
    if not known.watched:
        dag = f"{known.pipeline.name}_watch"
        advice = watch_remedy(dag, paused=True, watched=False)
        yield finding(
            FindingKind.UNWATCHED, f"{dag} is paused", effect="new problems go unnoticed", advice=advice
        )
