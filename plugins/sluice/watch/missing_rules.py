"""Problems of columns that get values in fewer rows than before: a field was renamed, or left out. Pure.

Reported at the jump alone: an hour is compared with the hours right before it, so that the hours behind a
jump are as it was.

shares of amount  0 % 0 % 1 % 80 % 80 %  → the fourth hour
                  50 % 52 % 49 % 55 %    → none
                  0 % 100 % 0 % 100 %    → the second hour
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from sluice.config.pipeline import Pipeline
from sluice.safe_text import visible
from sluice.slices import Slice
from sluice.state.missing_values import MissingValues, missing_in, percent
from sluice.state.status import UnitStatus
from sluice.watch.problems import JUDGED, Problem, ProblemKind, ProblemSource

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
    for table, hours in _hours(statuses).items():
        newest = {*sorted(hours)[-JUDGED:], *judged}
        found = list(jumps(hours, newest, bound))
        if found:
            yield _problem(pipeline, table, found)


def _hours(statuses: Iterable[UnitStatus]) -> dict[str, dict[Slice, MissingValues]]:
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
        f"`{pipeline.command('status', '--changes')}` shows new fields: name one under `columns` in the "
        f"pipeline file, then `{reload}`; `missing: reject` rejects such rows"
    )
    sources = (ProblemSource.LAKE, ProblemSource.CLICKHOUSE)
    return Problem(ProblemKind.FIELD, f"table {table}", message, sources)
