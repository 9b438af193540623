"""Rows of the last weeks by slice and type, which the watch compares new slices with.

`_alarms/rows-2026-11.json` is a copy of what manifests say, written by the watch alone. Slices that it has
not seen, such as those of a backfill, it reads from their manifests, some in each run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.manifest import Manifest
from sluice.slices import Slice, SliceRange, Unit, floor
from sluice.state.boundaries.model import Boundaries
from sluice.state.manifests import read_manifests
from sluice.state.months import read_summaries
from sluice.state.notes import MonthlyNotes
from sluice.state.units import ClusterSpans, spans
from sluice.stored_json import Whole
from sluice.watch.expected import HISTORY_DAYS, Counts

MOST_TYPES, TYPE_CHARACTERS = 100, 200
"""Types of a slice that are kept by name, those with most rows; the others count in the sum alone."""
_READ_AT_ONCE = 240


class SliceRows(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Rows that one slice landed, of all clusters, and those of its largest types."""

    rows: Whole
    types: dict[str, Whole]

    @property
    def has_all(self) -> bool:
        return sum(self.types.values()) == self.rows


RowMonth = dict[str, SliceRows]
"""By slice id."""
ROWS = MonthlyNotes[SliceRows](
    "_alarms/rows-", RowMonth, "holds no rows", "delete it, the watch writes it again"
)


@dataclass(frozen=True)
class RowHistory:
    """By slice; a slice that is not there has not landed from every cluster, or is not known yet. `new`: the
    slices that are still to be written to the lake."""

    slices: Mapping[Slice, SliceRows] = field(default_factory=dict)
    new: RowMonth = field(default_factory=dict)

    def total(self) -> Counts:
        return {int(slice_.start.timestamp()): slice_rows.rows for slice_, slice_rows in self.slices.items()}

    def by_type(self) -> Mapping[str, Counts]:
        """Returns each type's rows. Of a slice that keeps some of its types only, the others are unknown."""
        starts = {int(slice_.start.timestamp()): slice_rows for slice_, slice_rows in self.slices.items()}
        counts_by_type: dict[str, dict[int, int]] = {
            name: {} for slice_rows in starts.values() for name in slice_rows.types
        }
        exact_starts = [start for start, slice_rows in starts.items() if slice_rows.has_all]
        for rows in counts_by_type.values():
            rows.update(dict.fromkeys(exact_starts, 0))
        for start, slice_rows in starts.items():
            for name, count in slice_rows.types.items():
                counts_by_type[name][start] = count
        return counts_by_type


def rows_of(manifests: Iterable[Manifest]) -> SliceRows:
    """Returns the rows of one slice, from the manifests of its clusters."""
    types: dict[str, int] = {}
    for manifest in manifests:
        for name, rows in manifest.rows_by_type().items():
            types[name] = types.get(name, 0) + rows
    largest = sorted(types, key=lambda name: (-types[name], name))[:MOST_TYPES]
    named = {name: types[name] for name in largest if len(name) <= TYPE_CHARACTERS and types[name]}
    return SliceRows(sum(types.values()), named)


def read_history(
    pipeline: Pipeline,
    lake: Lake,
    recent: SliceRange,
    boundaries: Boundaries,
    landed: Mapping[Unit, Manifest],
) -> RowHistory:
    """Returns the history up to the end of `recent`, whose manifests are `landed`. Raises LakeUnavailable."""
    start = floor(recent.end - timedelta(days=HISTORY_DAYS), pipeline.slice)
    cluster_spans = spans(pipeline, boundaries)
    weeks = SliceRange(start, recent.end, pipeline.slice)
    stored = ROWS.read(lake, weeks)
    every = list(weeks)
    unseen = [slice_ for slice_ in every if slice_.id not in stored and slice_.start < recent.start]
    older = read_manifests(lake, _units(lake, weeks, unseen, cluster_spans))
    new_rows = dict(_complete([*unseen, *recent], cluster_spans, {**older, **landed}))
    slices = {slice_: stored[slice_.id] for slice_ in every if slice_.id in stored} | new_rows
    new = {slice_.id: rows for slice_, rows in new_rows.items() if stored.get(slice_.id) != rows}
    return RowHistory(slices, new)


def _units(
    lake: Lake, weeks: SliceRange, unseen: Sequence[Slice], cluster_spans: ClusterSpans
) -> Iterator[Unit]:
    """Yields the units of the newest slices that the summaries say have landed."""
    if not unseen:
        return
    noted, count = read_summaries(lake, weeks), 0
    for slice_ in reversed(unseen):
        units, summaries = cluster_spans.awaited(slice_), noted.of(slice_.id)
        if units and all(unit.cluster in summaries and summaries[unit.cluster].seal for unit in units):
            yield from (
                *units,
                *(unit for unit in cluster_spans.no_longer_awaited(slice_) if unit.cluster in summaries),
            )
            count += 1
        if count == _READ_AT_ONCE:
            return


def _complete(
    slices: Iterable[Slice], cluster_spans: ClusterSpans, manifests: Mapping[Unit, Manifest]
) -> Iterator[tuple[Slice, SliceRows]]:
    """Yields the rows of slices of which every cluster has landed."""
    for slice_ in slices:
        units = cluster_spans.awaited(slice_)
        if units and all(unit in manifests for unit in units):
            gone = [unit for unit in cluster_spans.no_longer_awaited(slice_) if unit in manifests]
            yield slice_, rows_of(manifests[unit] for unit in (*units, *gone))


def keep(lake: Lake, history: RowHistory) -> None:
    """Writes what is new. Raises LakeUnavailable."""
    ROWS.add(lake, history.new, lambda old, new: {**old, **new})
