"""Problems of the hours themselves, of their traffic, and of values that are missing. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt

import pendulum

from sluice.config.pipeline import Pipeline
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.causes import causes_of
from sluice.flow.verify.check import check_stalled
from sluice.flow.verify.facts import VerifyFacts, lacking, targets_of
from sluice.flow.verify.verdict import OpenAnomaly
from sluice.manifest import Manifest
from sluice.plan.backlog import Backlog
from sluice.plan.lag import Lag, PartitionLag
from sluice.safe_text import visible
from sluice.slices import Slice, SliceRange, Unit, utc
from sluice.state.additions import Addition
from sluice.state.boundaries.model import Boundaries
from sluice.state.field_changes import UnitChange
from sluice.state.held import Held, failed_words, release_command
from sluice.state.row_balance import MissingValues, missing_in, percent
from sluice.state.status import UnitStatus, complete_slices
from sluice.state.unit_state import UnitState
from sluice.watch.expected import Counts, Expected, RowHistory, expected, habit_of
from sluice.watch.problems import JUDGED, Open, Problem, ProblemKind, ProblemSource

_BOTH = (ProblemSource.LAKE, ProblemSource.CLICKHOUSE)


def overdue(
    pipeline: Pipeline, statuses: Iterable[UnitStatus], now: datetime, expired: Collection[str] = ()
) -> Iterator[Problem]:
    """Hours that ended longer ago than `settle` and `alarms.overdue`, and are not landed. `expired` are keys
    of problems that stay open while Kafka is silent: such an hour is not overdue besides."""
    for status in _late(pipeline, statuses, now):
        place = f"slice {status.unit}"
        if status.state is UnitState.EXPIRED:
            lost = sum(loss.until - loss.start for loss in status.losses)
            message = (
                f"up to {lost:,} of its offsets expired in Kafka before it was landed; "
                "`on_expired: land_rest` lands what is left and records the loss"
            )
            yield Problem(ProblemKind.EXPIRED, place, message, (ProblemSource.KAFKA, *_BOTH))
        elif status.manifest is None and f"{ProblemKind.EXPIRED}|{place}" not in expired:
            since = _ago(now, status.unit.slice.end)
            message = f"not landed {since} after its end; inspect the runs of DAG {pipeline.name}"
            yield Problem(ProblemKind.OVERDUE, place, message, _BOTH)


def held(pipeline: Pipeline, of_hours: Iterable[Held]) -> Iterator[Problem]:
    """Hours that a check holds out of a table, by table."""
    by_table: dict[str, list[Held]] = {}
    for one in of_hours:
        by_table.setdefault(one.rows.table, []).append(one)
    for table, some in by_table.items():
        newest = max(some, key=lambda one: one.slice)
        more = f", and {len(some) - 1:,} more are held" if len(some) > 1 else ""
        message = (
            f"slice {newest.slice.id} is held: {newest.rows.words}{more}; correct what sends them, "
            f"or `{release_command(pipeline, table, [one.slice for one in some])}` lets them in"
        )
        yield Problem(ProblemKind.HELD, f"table {table}", message, _BOTH)


def not_committed(
    pipeline: Pipeline,
    statuses: Iterable[UnitStatus],
    now: datetime,
    missing: Collection[str] = (),
    of_hours: Iterable[Held] = (),
) -> Iterator[Problem]:
    """Hours that are in the lake and late, by the table that lacks them or holds them as they were. A
    `missing` table is a problem of its own, which no load task repairs, and so is an hour that is held."""
    apart = {(one.slice, one.rows.cluster, one.rows.table) for one in of_hours}
    targets = {name: target for name, target in targets_of(pipeline).items() if name not in missing}
    by_table: dict[str, list[UnitStatus]] = {name: [] for name in targets}
    for status in (one for one in _late(pipeline, statuses, now) if one.manifest is not None):
        for table in lacking(pipeline, targets, status):
            if (status.unit.slice, status.unit.cluster, table) not in apart:
                by_table[table].append(status)
    for table, late in ((table, late) for table, late in by_table.items() if late):
        first, last = late[0].unit, late[-1].unit
        hours = f"{first} has" if len(late) == 1 else f"{len(late)} units from {first} to {last} have"
        since = _ago(now, first.slice.end)
        message = (
            f"{hours} landed, and {'is' if len(late) == 1 else 'are'} not committed as the pipeline file "
            f"says now, {since} after the end of the first; inspect its load task"
        )
        yield Problem(ProblemKind.NOT_COMMITTED, f"table {table}", message, _BOTH)


def older(pipeline: Pipeline, backlog: Backlog) -> Iterator[Problem]:
    """Hours before the watched range that are not complete."""
    if not backlog:
        return
    message = (
        f"{backlog}; the runs of DAG {pipeline.name} go back to them, the oldest first, or "
        f"`{pipeline.command('run', *backlog.range.words)}`"
    )
    if UnitState.EXPIRED in backlog.states.values():
        message += "; of what has expired `on_expired: land_rest` lands what is left and records the loss"
    yield Problem(ProblemKind.OLDER, "before the `lookback`", message, _BOTH)


def still_open(backlog: Backlog, oldest: Iterable[UnitStatus] = ()) -> frozenset[str]:
    """Returns the keys of problems that are not over, although their hours are no longer in the watched
    range. For the units of `oldest` Kafka was asked when it deletes them; for others that is unknown."""
    kinds = (ProblemKind.OVERDUE, ProblemKind.EXPIRED)
    oldest_units = {status.unit for status in oldest}
    waiting = (unit for unit, state in backlog.states.items() if state is UnitState.MISSING)
    return frozenset(f"{kind}|slice {unit}" for unit in backlog.states for kind in kinds) | {
        f"{ProblemKind.RETENTION}|slice {unit}" for unit in waiting if unit not in oldest_units
    }


def behind(pipeline: Pipeline, statuses: Sequence[UnitStatus], now: datetime) -> Iterator[Problem]:
    """The newest complete slice is older than its bound."""
    bound = pipeline.alarms.lag
    if bound is None or not statuses:
        return
    done = [slice_.end for slice_ in complete_slices(statuses)]
    last = max(done, default=statuses[0].unit.slice.start)
    if now - last > bound:
        since = _ago(now, last)
        newest = f"the newest complete slice ended {since} ago"
        none = f"no slice that ended in the last {since} is complete"
        message = f"{newest if done else none}, the bound is {_words(bound)}"
        yield Problem(ProblemKind.LAG, "seconds", message, _BOTH)


def waiting(pipeline: Pipeline, records: int | None) -> Iterator[Problem]:
    """`records` are those in Kafka that are not landed, None when Kafka is silent."""
    bound = pipeline.alarms.lag_records
    if bound is not None and records is not None and records > bound:
        message = f"{records:,} records are in Kafka and not landed, the bound is {bound:,}"
        yield Problem(ProblemKind.LAG, "records", message, (ProblemSource.KAFKA, ProblemSource.LAKE))


def still(
    pipeline: Pipeline,
    slices: SliceRange,
    boundaries: Boundaries,
    statuses: Sequence[UnitStatus],
    now: datetime,
) -> Iterator[Problem]:
    """Partitions that stand still while their siblings move: verify's own rule."""
    for anomaly in check_stalled(VerifyFacts(pipeline, slices, now, boundaries, tuple(statuses))):
        place, message = anomaly.place.split(", offsets")[0], f"{anomaly.seen}; {anomaly.advice}"
        yield Problem(ProblemKind.STILL, place, message, (ProblemSource.KAFKA, ProblemSource.LAKE))


def anomalies(open_anomalies: Iterable[OpenAnomaly], tables: bool = False) -> Iterator[Problem]:
    """Yields the causes of the anomalies that the last verify of each hour left open, apart from hours that
    are only late. With `tables` the watch itself checked for missing tables, which are problems of their
    own."""
    skipped_kinds = (
        AnomalyKind.INCOMPLETE,
        AnomalyKind.STALLED,
        *([AnomalyKind.TABLE_MISSING] if tables else []),
    )
    for cause in causes_of(open_anomalies):
        if cause.name not in skipped_kinds:
            message = f"{cause.message}; {cause.remedy}"
            yield Problem(ProblemKind.ANOMALY, cause.title, message, (ProblemSource.LAKE,))


def changed(pipeline: Pipeline, changes: Iterable[UnitChange]) -> Iterator[Problem]:
    """Fields that have changed, an event for each slice and type."""
    types: dict[tuple[Unit, str], list[UnitChange]] = {}
    for unit_change in changes:
        types.setdefault((unit_change.unit, unit_change.change.type), []).append(unit_change)
    for (unit, name), unit_changes in types.items():
        text = "; ".join(unit_change.change.said for unit_change in unit_changes)
        message = f"{text}; `{pipeline.command('status', '--changes')}` shows all"
        yield Problem(
            ProblemKind.SCHEMA, f"slice {unit}, type {visible(name)}", message, (ProblemSource.LAKE,)
        )


def added(pipeline: Pipeline, additions: Iterable[Addition]) -> Iterator[Problem]:
    """Columns that loads have added, an event for each table and slice."""
    places: dict[tuple[str, str], list[Addition]] = {}
    for addition in additions:
        places.setdefault((addition.table, addition.slice), []).append(addition)
    for (table, slice_), slice_additions in places.items():
        text = "; ".join(
            f"{visible(addition.column)} {addition.type} in {addition.filled:,} of {addition.rows:,} rows"
            for addition in slice_additions
        )
        message = f"columns were added: {text}; `{pipeline.command('status', '--changes')}` shows all"
        yield Problem(ProblemKind.SCHEMA, f"table {table}, slice {slice_}", message, (ProblemSource.LAKE,))


def _late(pipeline: Pipeline, statuses: Iterable[UnitStatus], now: datetime) -> Iterator[UnitStatus]:
    allowed = pipeline.settle + pipeline.alarms.overdue
    for status in statuses:
        if not status.state.done and status.unit.slice.end + allowed < now:
            yield status


def _ago(now: datetime, then: datetime) -> str:
    return _words(now - then)


def _words(length: timedelta) -> str:
    """`3 hours 10 minutes`, without seconds where there are minutes."""
    seconds = int(length.total_seconds())
    return pendulum.duration(seconds=seconds if seconds < 60 else seconds // 60 * 60).in_words()


# Transactions that stay open: what their producer and others have written since is in no hour yet. Pure.
def held_up(pipeline: Pipeline, lag: Lag, earlier: Mapping[str, Open], now: datetime) -> Iterator[Problem]:
    """Partitions whose last stable offset has stood still before records for longer than an hour may take.

    Open transactions are usual, and end within seconds. Hours that end meanwhile are complete without them.
    """
    allowed = pipeline.settle + pipeline.alarms.overdue
    open_now = open_transactions(lag, earlier, now)
    for p in (p for p in lag.partitions if p.held):
        since = timedelta(seconds=int(utc(now).timestamp()) - open_now[_name(p)].at)
        if since >= allowed:
            message = (
                f"{p.held:,} offsets wait behind an open transaction that begins at offset {p.log_end}, for "
                f"{pendulum.duration(seconds=since.total_seconds()).in_words()} at least: they come with a "
                "later hour; end the transaction (kafka-transactions.sh find-hanging, abort), or its producer"
            )
            yield Problem(ProblemKind.TRANSACTION, f"partition {_name(p)}", message, (ProblemSource.KAFKA,))


def open_transactions(lag: Lag, earlier: Mapping[str, Open], now: datetime) -> dict[str, Open]:
    """Returns the open transactions, each with the instant at which it was seen first. Those of a cluster
    that does not answer are kept."""
    open_now = dict(earlier) if lag.errors else {}
    for p in lag.partitions:
        before = earlier.get(_name(p))
        open_now.pop(_name(p), None)
        if p.held:
            if before is None or before.offset != p.log_end:
                before = Open(p.log_end, int(utc(now).timestamp()))
            open_now[_name(p)] = before
    return open_now


def _name(p: PartitionLag) -> str:
    return f"{p.cluster}/{p.topic}/{p.partition}"


FEWEST_REJECTS = 10
"""Rejected records or rows of a slice below which their share means nothing."""
_REASONS = 3
_ALL = "all types"


@dataclass(frozen=True)
class Shortfall:
    """A slice that brought fewer rows than usual."""

    slice: Slice
    seen: int
    expected: Expected

    def __str__(self) -> str:
        count, low = self.expected.count, self.expected.low or 0
        share = f"{self.seen / count:.0%} of the {count:,.0f} that are expected"
        return f"slice {self.slice.id} brought {self.seen:,} rows, {share}; at least {low:,.0f} are usual"


def shortfalls(counts: Counts, judged: Iterable[Slice], least: float) -> list[Shortfall]:
    """Returns those of `judged` that are below their band, and by a share of `least` or more below what is
    expected; none where the history is too short for a band."""
    short_slices, slices = [], list(judged)
    habit = habit_of(counts, min(int(slice_.start.timestamp()) for slice_ in slices)) if slices else None
    for slice_ in slices if habit is not None else ():
        at = int(slice_.start.timestamp())
        usual = expected(at, counts, habit)
        if usual is None or usual.low is None or at not in counts:
            continue
        if counts[at] < usual.low and counts[at] <= (1 - least) * usual.count:
            short_slices.append(Shortfall(slice_, counts[at], usual))
    return short_slices


def too_few(pipeline: Pipeline, history: RowHistory, judged: Sequence[Slice]) -> Iterator[Problem]:
    """Yields a problem for each type of which too few events came; one for all types where many are short.

    `judged` are slices of the history, ascending.
    """
    least = pipeline.alarms.fewer
    if least is None or not judged:
        return
    by_type = history.by_type()
    short = {
        name: short_slices
        for name in sorted(by_type)
        if (short_slices := shortfalls(by_type[name], judged, least))
    }
    in_all = shortfalls(history.total(), judged, least)
    if in_all and len(short) != 1:
        names = f"; short are {len(short)} of {len(by_type)} types" if len(by_type) > 1 else ""
        yield _few(pipeline, _ALL, in_all, judged, names)
        return
    for name, short_slices in short.items():
        yield _few(pipeline, f"type {visible(name)}", short_slices, judged)


def _few(
    pipeline: Pipeline, place: str, short_slices: Sequence[Shortfall], judged: Sequence[Slice], more: str = ""
) -> Problem:
    others = f"{len(short_slices) - 1} of the {len(judged) - 1} others since slice {judged[0].id}"
    earlier = f"; so did {others}" if len(short_slices) > 1 else ""
    advice = (
        f"inspect the producers; `{pipeline.command('status', '--lag')}` shows partitions that stand still, "
        "and the page of the pipeline the rows of each type"
    )
    message = f"{short_slices[-1]}{earlier}{more}: {advice}"
    return Problem(ProblemKind.FEW, place, message, (ProblemSource.LAKE,))


@dataclass(frozen=True)
class _Rejects:
    slice: Slice
    rejected: int
    among: int
    why: str = ""

    @property
    def share(self) -> float:
        return self.rejected / self.among if self.among else 0.0


def rejects(
    pipeline: Pipeline,
    landed: Mapping[Unit, Manifest],
    statuses: Iterable[UnitStatus],
    judged: Collection[Slice] = (),
) -> Iterator[Problem]:
    """Yields a problem where more than `alarms.rejected` of a slice's records are rejected, or of its rows
    rejected rows of one table. Judges the newest slices of each place, and those of `judged`."""
    bound = pipeline.alarms.rejected
    if bound is None:
        return
    places: dict[tuple[str, ProblemSource, str], list[_Rejects]] = {}
    reading = ("records", ProblemSource.LAKE, "are in `_rejected/` with their reasons")
    for unit, manifest in landed.items():
        refused, reasons = manifest.refused, manifest.refused_by_reason()
        most = sorted(reasons, key=lambda reason: -reasons[reason])[:_REASONS]
        why = "; ".join(f"{reasons[reason]:,} {reason}" for reason in most)
        places.setdefault(reading, []).append(_Rejects(unit.slice, refused, manifest.landed + refused, why))
    doctor = f"do not fit it; `{pipeline.command('doctor')}` names columns and reasons"
    for status in statuses:
        for table, row in status.tables.items():
            if table not in status.derived:
                counted = _Rejects(status.unit.slice, row.rejected_rows, row.landed)
                places.setdefault((f"table {table}", ProblemSource.CLICKHOUSE, doctor), []).append(counted)
    for (place, source, what), of_place in places.items():
        newest = {*sorted({counted.slice for counted in of_place})[-JUDGED:], *judged}
        high = [counted for counted in of_place if counted.slice in newest and _is_high(counted, bound)]
        if high:
            yield _rejected(place, max(high, key=lambda counted: counted.share), bound, what, source)


def _is_high(counted: _Rejects, bound: float) -> bool:
    return counted.rejected >= FEWEST_REJECTS and counted.share > bound


def _rejected(place: str, worst: _Rejects, bound: float, what: str, source: ProblemSource) -> Problem:
    why = f" ({visible(worst.why)})" if worst.why else ""
    count = f"{worst.rejected:,} of {worst.among:,} of slice {worst.slice.id}, {worst.share:.1%},"
    message = f"{count} {what}{why}; the bound is {bound:.1%}"
    sources = (ProblemSource.LAKE,) if source is ProblemSource.LAKE else (ProblemSource.LAKE, source)
    return Problem(ProblemKind.REJECTED, place, message, sources)


def failing(statuses: Iterable[UnitStatus], judged: Collection[Slice] = ()) -> Iterator[Problem]:
    """Yields a problem for each table of which loaded rows fail a check. Judges its newest slices, and those
    of `judged`."""
    for table, hours in failed_by_table(statuses).items():
        newest = {*sorted(hours)[-JUDGED:], *judged}
        bad = sorted(slice_ for slice_, failed in hours.items() if failed and slice_ in newest)
        if bad:
            yield Problem(
                ProblemKind.CHECK,
                f"table {table}",
                f"{failed_words(hours[bad[-1]])} in slice {bad[-1].id}, and stay in the table; with "
                "`on_fail: reject` they would be rejected rows",
                _BOTH,
            )


def failed_by_table(statuses: Iterable[UnitStatus]) -> dict[str, dict[Slice, Counter[str]]]:
    """Returns by table, then by slice, how many of the loaded rows fail which check."""
    found: dict[str, dict[Slice, Counter[str]]] = {}
    for status in statuses:
        for table, row in status.tables.items():
            if table not in status.derived:
                hours = found.setdefault(table, {})
                hours.setdefault(status.unit.slice, Counter()).update(row.failed)
    return found


FEWEST_ROWS = 50
"""Rows of an hour below which their shares mean nothing."""
HISTORY = 3
_NOISE = 4  # standard deviations
_NAMED = 5


@dataclass(frozen=True)
class Jump:
    """A column's share of rows without a value, in an hour and, at most, in the hours before."""

    slice: Slice
    column: str
    before: float
    now: float

    def __str__(self) -> str:
        shares = f"{percent(self.before)} to {percent(self.now)}"
        return f"column {visible(self.column, 40)} from {shares} in slice {self.slice.id}"


def jumps(hours: Mapping[Slice, MissingValues], judged: Collection[Slice], bound: float) -> Iterator[Jump]:
    """Yields the jumps by more than `bound`, and by more than chance makes, in slices of `judged`."""
    counted = sorted(slice_ for slice_, missing in hours.items() if missing.rows >= FEWEST_ROWS)
    for number, slice_ in enumerate(counted):
        earlier = [hours[one] for one in counted[max(number - HISTORY, 0) : number]]
        if slice_ not in judged or not earlier:
            continue
        for column in sorted(hours[slice_].columns):
            before = max(one.share(column) for one in earlier)
            chance = _NOISE * sqrt(before * (1 - before) / hours[slice_].rows)
            if hours[slice_].share(column) > before + max(bound, chance):
                yield Jump(slice_, column, before, hours[slice_].share(column))


def missing(
    pipeline: Pipeline, statuses: Iterable[UnitStatus], judged: Collection[Slice] = ()
) -> Iterator[Problem]:
    """Yields a problem for each table with a jump. Judges its newest slices, and those of `judged`."""
    bound = pipeline.alarms.missing
    if bound is None:
        return
    for table, hours in missing_by_table(statuses).items():
        newest = {*sorted(hours)[-JUDGED:], *judged}
        found = list(jumps(hours, newest, bound))
        if found:
            yield _problem(pipeline, table, found)


def missing_by_table(statuses: Iterable[UnitStatus]) -> dict[str, dict[Slice, MissingValues]]:
    """Returns by table, then by slice, how many values its rows lack, where that was counted."""
    rows: dict[str, dict[Slice, list[UnitStatus]]] = {}
    for status in statuses:
        for table in status.tables.keys() - status.derived:
            rows.setdefault(table, {}).setdefault(status.unit.slice, []).append(status)
    return {
        table: {
            slice_: counted
            for slice_, units in slices.items()
            if (counted := missing_in(status.tables[table] for status in units)) is not None
        }
        for table, slices in sorted(rows.items())
    }


def _problem(pipeline: Pipeline, table: str, found: Sequence[Jump]) -> Problem:
    worst = sorted(found, key=lambda jump: (jump.before - jump.now, jump.column))
    shown = "; ".join(map(str, worst[:_NAMED]))
    more = f"; and {len(worst) - _NAMED:,} more" if len(worst) > _NAMED else ""
    first = min(jump.slice for jump in found)
    since = f"{first.start:%Y-%m-%dT%H:%MZ}"
    reload = pipeline.command("run", "--from", since, "--to", "now", "--mode", "reload")
    message = (
        f"the share of rows without a value went up: {shown}{more}; "
        f"`{pipeline.command('status', '--changes')}` shows new fields: name old and new under `columns` in "
        f"the pipeline file, such as {{{visible(worst[0].column)}: [OLD, NEW]}}, then `{reload}`; "
        "`missing: reject` rejects such rows"
    )
    sources = (ProblemSource.LAKE, ProblemSource.CLICKHOUSE)
    return Problem(ProblemKind.FIELD, f"table {table}", message, sources)
