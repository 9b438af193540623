"""The backlog: hours before the hourly run's own range that are not complete, and what a run does of it.

The pipeline's hours begin at the file's `start`, else at the first stored boundary. The monthly summaries say
which of them are complete, so that years of hours cost a few objects. A summary is no evidence: units that it
does not call complete are surveyed before anything is done about them. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sluice.config.pipeline import Pipeline
from sluice.plan.batches import OLDER_SLICES, SliceWeight, cut, spells
from sluice.plan.plan import has_work, rows_of
from sluice.slices import MOST_SLICES, Slice, SliceRange, Unit, floor
from sluice.state.boundaries.boundary import TopicBoundaries
from sluice.state.boundaries.model import Boundaries
from sluice.state.months import Summaries, UnitSummary
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from sluice.state.units import ClusterSpans, spans

MOST_PARTS = 8
"""Spark applications that a run starts for the backlog."""

_DONE = frozenset(str(state) for state in UnitState if state.done)
_UNLANDED = (UnitState.MISSING, UnitState.EXPIRED)
_LANDED = frozenset({str(UnitState.LANDED), str(UnitState.STALE)})


@dataclass(frozen=True)
class Backlog:
    """Units that are over and not complete, oldest first, with the state in which they were last seen.

    `whole`: there are no others that were left out because of their number.
    """

    states: Mapping[Unit, UnitState] = field(default_factory=dict)
    whole: bool = True

    def __bool__(self) -> bool:
        return bool(self.states)

    @property
    def slices(self) -> list[Slice]:
        return sorted({unit.slice for unit in self.states})

    @property
    def range(self) -> SliceRange:
        """From the first of the slices to the last one; there is at least one."""
        first, last = self.slices[0], self.slices[-1]
        return SliceRange(first.start, last.end, first.length)

    def __str__(self) -> str:
        """`72 slices from 2026-11-17T10Z to 2026-11-20T09Z are not complete (70 missing, 2 expired)`."""
        slices = self.slices
        counts = ", ".join(f"{count:,} {state}" for state, count in Counter(self.states.values()).items())
        if len(slices) == 1:
            return f"1 slice, {slices[0].id}, is not complete ({counts})"
        number = f"{'' if self.whole else 'at least '}{len(slices):,} slices"
        return f"{number} from {slices[0].id} to {slices[-1].id} are not complete ({counts})"

    def unlanded(self, most: int) -> list[Unit]:
        """Returns the units of the first `most` slices that have no manifest and may still land."""
        units = [unit for unit, state in self.states.items() if state is UnitState.MISSING]
        slices = sorted({unit.slice for unit in units})[:most]
        return [unit for unit in units if unit.slice <= slices[-1]] if slices else []

    def outside(self, slices: SliceRange) -> Backlog:
        """Returns the backlog without the units of `slices`."""
        states = {u: s for u, s in self.states.items() if not slices.start <= u.slice.start < slices.end}
        return replace(self, states=states)

    def seen(self, statuses: Iterable[UnitStatus]) -> Backlog:
        """Returns the backlog after a survey of some of its units. What has expired stays so until it
        lands."""
        states = dict(self.states)
        for status in statuses:
            expired = states.get(status.unit) is UnitState.EXPIRED and status.manifest is None
            if status.state.done:
                states.pop(status.unit, None)
            elif status.unit in states and not expired:
                states[status.unit] = status.state
        return replace(self, states=states)


def hours_until(pipeline: Pipeline, boundaries: Boundaries, until: datetime) -> SliceRange | None:
    """Returns all hours of the pipeline before `until`; None when there are none yet."""
    span = boundaries.span()
    first = pipeline.since or (span[0] if span else None)
    if first is None or first >= until:
        return None
    return SliceRange(floor(first, pipeline.slice), floor(until, pipeline.slice), pipeline.slice)


def backlog_of(pipeline: Pipeline, boundaries: Boundaries, hours: SliceRange, noted: Summaries) -> Backlog:
    """Returns the units of `hours` that are not complete by the summaries. Of a cluster that the pipeline
    file no longer has, only units that have landed count.

    Where they have more slices than a command takes, it is the oldest half, which Kafka deletes first, and
    the newest half.
    """
    cluster_spans = spans(pipeline, boundaries)
    oldest = _open(hours, cluster_spans, noted, MOST_SLICES // 2)
    if len(oldest) < MOST_SLICES // 2:
        return Backlog({unit: state for states in oldest.values() for unit, state in states.items()})
    later_hours = SliceRange(next(reversed(oldest)).end, hours.end, hours.length)
    newest = _open(_backwards(later_hours), cluster_spans, noted, MOST_SLICES // 2)
    states_of_slices = [*oldest.values(), *reversed(newest.values())]
    states = {unit: state for slice_states in states_of_slices for unit, state in slice_states.items()}
    whole = len(newest) < MOST_SLICES // 2 or next(reversed(newest)).start == later_hours.start
    return Backlog(states, whole)


def _open(
    slices: Iterable[Slice], cluster_spans: ClusterSpans, noted: Summaries, most: int
) -> dict[Slice, dict[Unit, UnitState]]:
    """Returns the units that are not complete, with their states, of the first `most` slices that have
    any."""
    states_by_slice: dict[Slice, dict[Unit, UnitState]] = {}
    for slice_ in slices:
        if states := _open_units(slice_, cluster_spans, noted.of(slice_.id)):
            states_by_slice[slice_] = states
            if len(states_by_slice) == most:
                break
    return states_by_slice


def _open_units(
    slice_: Slice, cluster_spans: ClusterSpans, units: Mapping[str, UnitSummary]
) -> dict[Unit, UnitState]:
    states: dict[Unit, UnitState] = {}
    for unit in cluster_spans.awaited(slice_):
        state = units[unit.cluster].state if unit.cluster in units else UnitState.MISSING
        if state not in _DONE:
            states[unit] = UnitState.MISSING if state == UnitState.NOT_OVER else state
    for unit in cluster_spans.no_longer_awaited(slice_):
        if unit.cluster in units and units[unit.cluster].state in _LANDED:
            states[unit] = units[unit.cluster].state
    return states


def _backwards(slices: SliceRange) -> Iterator[Slice]:
    """Yields the last one first."""
    for number in range(1, len(slices) + 1):
        yield Slice(datetime.__sub__(slices.end, number * slices.length), slices.length)


def unlanded(backlog: Backlog, boundaries: Boundaries) -> dict[tuple[str, str, int], list[tuple[int, int]]]:
    """Returns the offsets of the backlog's hours that have not landed by (cluster, topic, partition), as far
    as boundaries are stored: from the last one before such hours to the first one after them."""
    offset_spans: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for (cluster, topic, uuid), block in boundaries.blocks.items():
        if boundaries.uuid(cluster, topic) != uuid or not len(block.instants):
            continue
        open_slices = {
            u.slice for u, state in backlog.states.items() if u.cluster == cluster and state in _UNLANDED
        }
        for spell in spells(sorted(open_slices)):
            first, last = _rows(block, spell)
            for partition, column in block.columns.items():
                edges = (column.offset(first), column.offset(last))
                offset_spans.setdefault((cluster, topic, partition), []).append(edges)
    return offset_spans


def _rows(block: TopicBoundaries, spell: SliceRange) -> tuple[int, int]:
    last = bisect_left(block.instants, int(spell.end.timestamp()))
    return block.nearest(int(spell.start.timestamp())), min(last, len(block.instants) - 1)


def windows(units: Iterable[Unit], most: int = OLDER_SLICES) -> list[SliceRange]:
    """Returns the units' slices as ranges in order, each of at most `most` slices from its first to its
    last."""
    return cut([SliceWeight(slice_, 0) for slice_ in sorted({unit.slice for unit in units})], max_slices=most)


def chosen(open_windows: Sequence[SliceRange], turn: int) -> tuple[SliceRange | None, int]:
    """Returns the window that run number `turn` takes, None where there is none, and the number for
    `batches_of`.

    It is the oldest, because Kafka deletes that first. Every second run takes another one in turn, so that
    hours which fail each time hold up nothing for good.
    """
    if not open_windows:
        return None, 0
    if turn % 2 == 0:
        return open_windows[0], turn // 2
    number, index = divmod(turn // 2, len(open_windows))
    return open_windows[index], number


def workable(statuses: Iterable[UnitStatus], on_expired: str) -> list[UnitStatus]:
    """Returns the units that a `fill` can land or load. Expired ones count only where `on_expired` lands the
    rest of them."""
    return [status for status in statuses if has_work(status, "fill") and not _lost(status.state, on_expired)]


def batches_of(statuses: Sequence[UnitStatus], on_expired: str, number: int) -> list[SliceRange]:
    """Returns the oldest batch of the work in `statuses`, in parts.

    No part spans a slice that has expired, which would fail it. One slice, another with each `number`, is a
    part of its own: a slice that fails each time fails alone sooner or later, and the others land.
    """
    todo = workable(statuses, on_expired)
    batches = cut([SliceWeight(status.unit.slice, rows_of(status)) for status in todo])
    if not batches:
        return []
    slices = sorted({s.unit.slice for s in todo if s.unit.slice.start < batches[0].end})
    lost = {status.unit.slice for status in statuses if _lost(status.state, on_expired)}
    parts = _parts(slices, lost, slices[number % len(slices)])
    first = number % len(parts)
    taken = sorted((parts[first:] + parts[:first])[:MOST_PARTS])
    return [SliceRange(part[0].start, part[-1].end, part[0].length) for part in taken]


def _parts(slices: Sequence[Slice], lost: Collection[Slice], alone: Slice) -> list[list[Slice]]:
    parts: list[list[Slice]] = []
    for slice_ in slices:
        last = parts[-1][-1] if parts else None
        apart = last is None or alone in (last, slice_) or any(last <= one <= slice_ for one in lost)
        if apart:
            parts.append([slice_])
        else:
            parts[-1].append(slice_)
    return parts


def _lost(state: UnitState, on_expired: str) -> bool:
    return state is UnitState.EXPIRED and on_expired == "fail"


def stuck(backlog: Backlog, on_expired: str, mute: Collection[str] = ()) -> frozenset[Unit]:
    """Returns units that a run can do nothing for: expired ones that `on_expired` does not land, and unlanded
    ones of the clusters in `mute`. What has landed is loaded without its cluster."""
    loads = (UnitState.LANDED, UnitState.STALE)
    return frozenset(
        unit
        for unit, state in backlog.states.items()
        if _lost(state, on_expired) or (unit.cluster in mute and state not in loads)
    )
