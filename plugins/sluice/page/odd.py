"""What is unusual of a complete hour: rejected or defaulted values, failed checks, few or many rows. Pure.

The bounds are the watch's (`alarms:`), so that hours and notices agree. A summarised hour has no tables: of
it only shares of all records and rows are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from sluice.config.pipeline import Pipeline
from sluice.safe_text import visible
from sluice.slices import Slice
from sluice.state.held import failed_words
from sluice.state.months import UnitSummary
from sluice.state.row_balance import percent
from sluice.state.status import UnitStatus
from sluice.watch.expected import Expected
from sluice.watch.rules import (
    FEWEST_REJECTS,
    FEWEST_ROWS,
    failed_by_table,
    jumps,
    missing_by_table,
)

RECORDS = "records"


class OddKind(StrEnum):
    """The values are those of the watch's problems."""

    REJECTED = "rejects above share"
    DEFAULTED = "field missing"
    CHECK = "rows fail a check"
    FEW = "too few events"
    MANY = "many rows"


@dataclass(frozen=True)
class Odd:
    """What is unusual in one slice; `kind` and `place` are the same in every hour that has it. `what` has the
    share, `message` the numbers."""

    kind: OddKind
    slice: str
    place: str
    what: str
    message: str


UsualRows = Mapping[int, Expected]
"""By the start of a slice, in seconds since the epoch."""


def odd_in(
    pipeline: Pipeline,
    statuses: Sequence[UnitStatus],
    summaries: Sequence[UnitSummary],
    usual: UsualRows,
) -> dict[str, list[Odd]]:
    """Returns what is unusual by slice id, of those that are done. `summaries` are of the same units."""
    by_slice: dict[Slice, list[tuple[UnitStatus, UnitSummary]]] = {}
    for status, summary in zip(statuses, summaries, strict=True):
        by_slice.setdefault(status.unit.slice, []).append((status, summary))
    done = {slice_: units for slice_, units in by_slice.items() if all(s.state.done for s, _ in units)}
    found: dict[str, list[Odd]] = {slice_.id: [] for slice_ in done}
    for slice_, units in done.items():
        found[slice_.id] += _rejected(pipeline, slice_, units)
        rows = sum(summary.rows for _, summary in units)
        found[slice_.id] += _unusual(pipeline, slice_, rows, usual.get(int(slice_.start.timestamp())))
    loaded = [s for s in statuses if s.unit.slice in done]
    for odd in (*_defaulted(pipeline, loaded), *_failing(loaded)):
        found[odd.slice].append(odd)
    return {name: odds for name, odds in found.items() if odds}


def with_reasons(
    odds: Iterable[Odd],
    rejected_rows: Iterable[tuple[str, str, str, int]],
    rejected_records: Mapping[str, int],
) -> list[Odd]:
    """Returns what is unusual of one slice with the reason that rejected most. `rejected_rows` are by table,
    column and reason, `rejected_records` by reason."""
    most: dict[str, tuple[int, str]] = {}
    for reason, count in rejected_records.items():
        most[RECORDS] = max(most.get(RECORDS, (0, "")), (count, visible(reason, 80)))
    for table, column, reason, count in rejected_rows:
        place, why = f"table {table}", f"{visible(column, 40)} {visible(reason, 80)}"
        most[place] = max(most.get(place, (0, "")), (count, why))
    return [
        replace(odd, message=f"{odd.message}; {most[odd.place][0]:,} of them: {most[odd.place][1]}")
        if odd.kind is OddKind.REJECTED and odd.place in most
        else odd
        for odd in odds
    ]


def is_odd(pipeline: Pipeline, unit: UnitSummary) -> bool:
    """Returns whether a summary alone says so: of records, or of the rows of all tables together."""
    rows, records = unit.rejected_rows, unit.rejected_records
    if rows < FEWEST_REJECTS and records < FEWEST_REJECTS:  # as nearly always, and a year has thousands
        return False
    bound = pipeline.alarms.rejected
    if bound is None:
        return False
    return _high(rows, unit.rows + rows, bound) or _high(records, max(unit.read, records), bound)


def is_empty(pipeline: Pipeline, units: Iterable[UnitSummary]) -> bool:
    """Returns whether no table of events has a row; of a pipeline without such a table, no record came."""
    events = any(not target.counted and target.rollup is None for target in pipeline.targets)
    return all(unit.read == 0 or (events and unit.rows == 0) for unit in units)


def _high(rejected: int, among: int, bound: float) -> bool:
    return rejected >= FEWEST_REJECTS and rejected > bound * among


def _rejected(
    pipeline: Pipeline, slice_: Slice, units: Sequence[tuple[UnitStatus, UnitSummary]]
) -> Iterator[Odd]:
    bound = pipeline.alarms.rejected
    if bound is None:
        return
    records = sum(summary.rejected_records for _, summary in units)
    read = max(sum(summary.read for _, summary in units), records)
    places = {RECORDS: (records, read)}
    for target in pipeline.targets:
        rows = [status.tables[target.table] for status, _ in units if target.table in status.tables]
        if not target.counted and target.rollup is None:
            counts = (sum(row.rejected_rows for row in rows), sum(row.landed for row in rows))
            places[f"table {target.table}"] = counts
    for place, (rejected, among) in places.items():
        if _high(rejected, among, bound):
            of = "records" if place == RECORDS else f"rows of {place.removeprefix('table ')}"
            what = f"{percent(rejected / among)} of {of} rejected"
            yield Odd(OddKind.REJECTED, slice_.id, place, what, f"{rejected:,} of {among:,} in {slice_.id}")


def _unusual(pipeline: Pipeline, slice_: Slice, rows: int, usual: Expected | None) -> Iterator[Odd]:
    if usual is None or usual.count < FEWEST_ROWS:
        return
    said = f"{rows:,} rows in {slice_.id}, {usual.count:,.0f} are expected"
    least = pipeline.alarms.fewer
    few = usual.low is not None and rows < usual.low and least is not None
    if rows == 0 or (few and rows <= (1 - (least or 0)) * usual.count):
        what = f"{percent(1 - rows / usual.count)} fewer rows than expected" if rows else "no row"
        yield Odd(OddKind.FEW, slice_.id, "rows", what, said)
    elif usual.high is not None and rows > usual.high:
        yield Odd(OddKind.MANY, slice_.id, "rows", f"{rows / usual.count:.1f} × the expected rows", said)


def _defaulted(pipeline: Pipeline, statuses: Sequence[UnitStatus]) -> Iterator[Odd]:
    """Yields the hours in which a column gets many more defaults or NULLs than in the three before."""
    bound = pipeline.alarms.missing
    if bound is None:
        return
    for table, hours in missing_by_table(statuses).items():
        for jump in jumps(hours, hours.keys(), bound):
            column = visible(jump.column, 40)
            what = f"{percent(jump.now)} of rows of {table} lack {column}"
            said = f"{percent(jump.now)} in {jump.slice.id}, at most {percent(jump.before)} before"
            yield Odd(OddKind.DEFAULTED, jump.slice.id, f"table {table}", what, said)


def _failing(statuses: Sequence[UnitStatus]) -> Iterator[Odd]:
    for table, hours in failed_by_table(statuses).items():
        for slice_, failed in hours.items():
            if failed:
                said = f"{failed_words(failed)} in {slice_.id}"
                yield Odd(OddKind.CHECK, slice_.id, f"table {table}", f"rows of {table} fail a check", said)
