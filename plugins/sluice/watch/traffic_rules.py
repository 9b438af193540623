"""Problems of what came: too few events of a type, and more rejects than a share. Pure.

Both judge slices one by one (problems.py says which): a problem of one hour is open until some hours have
come after it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sluice.config.pipeline import Pipeline
from sluice.manifest import Manifest
from sluice.safe_text import visible
from sluice.slices import Slice, Unit
from sluice.state.status import UnitStatus
from sluice.watch.expected import Counts, Expected, expected, habit_of
from sluice.watch.problems import JUDGED, Problem, ProblemKind, ProblemSource
from sluice.watch.row_history import RowHistory

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
    """Yields a problem where more than `alarms.rejected` of a slice's records are unparsed, or of its rows
    misfits of one table. Judges the newest slices of each place, and those of `judged`."""
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
                counted = _Rejects(status.unit.slice, row.misfits, row.landed)
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
