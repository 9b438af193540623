"""Rows of the last weeks by slice and type, which the watch compares new slices with.

`_alarms/rows-2026-11.json` is a copy of what manifests say, written by the watch alone. Slices that it has
not seen, such as those of a backfill, it reads from their manifests, some in each run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from sluice.clients.lake.base import Lake, update_object
from sluice.concurrency import each_if_slow
from sluice.config.pipeline import Pipeline
from sluice.manifest import Manifest
from sluice.slices import Slice, SliceRange, Unit, floor
from sluice.state.boundaries.model import Boundaries
from sluice.state.manifests import read_manifests
from sluice.state.months import months_of, read_summaries
from sluice.state.units import ClusterSpans, spans
from sluice.stored_json import Whole, decode_stored
from sluice.watch.expected import HISTORY_DAYS, Counts

MOST_TYPES, TYPE_CHARACTERS = 100, 200
"""Types of a slice that are kept by name, those with most rows; the others count in the sum alone."""
_READ_AT_ONCE = 240
_PREFIX = "_alarms/rows-"


class SliceRows(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Rows that one slice landed, of all clusters, and those of its largest types."""

    rows: Whole
    types: dict[str, Whole]

    @property
    def has_all(self) -> bool:
        return sum(self.types.values()) == self.rows


RowMonth = dict[str, SliceRows]
"""By slice id."""
_DECODER = msgspec.json.Decoder(RowMonth)


@dataclass(frozen=True)
class RowHistory:
    """By slice; a slice that is not there has not landed from every cluster, or is not known yet. `new`: the
    slices that are still to be written to the lake, by month."""

    slices: Mapping[Slice, SliceRows] = field(default_factory=dict)
    new: Mapping[str, RowMonth] = field(default_factory=dict)

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
    stored = _stored(lake, months_of(weeks))
    every = list(weeks)
    unseen = [slice_ for slice_ in every if slice_.id not in stored and slice_.start < recent.start]
    older = read_manifests(lake, _units(lake, weeks, unseen, cluster_spans))
    new_rows = dict(_complete([*unseen, *recent], cluster_spans, {**older, **landed}))
    slices = {slice_: stored[slice_.id] for slice_ in every if slice_.id in stored} | new_rows
    return RowHistory(slices, _changed(new_rows, stored))


def _stored(lake: Lake, months: Sequence[str]) -> RowMonth:
    def read(month: str) -> RowMonth:
        stored = lake.read(key_of(month))
        return {} if stored is None else decode(stored.data, f"{lake.url}/{key_of(month)}")

    return {name: slice_rows for month in each_if_slow(read, months) for name, slice_rows in month.items()}


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


def _changed(new_rows: Mapping[Slice, SliceRows], stored: RowMonth) -> dict[str, RowMonth]:
    months: dict[str, RowMonth] = {}
    for slice_, slice_rows in new_rows.items():
        if stored.get(slice_.id) != slice_rows:
            months.setdefault(f"{slice_.start:%Y-%m}", {})[slice_.id] = slice_rows
    return months


def keep(lake: Lake, history: RowHistory) -> None:
    """Writes what is new. Raises LakeUnavailable."""
    for month, rows in history.new.items():
        address = f"{lake.url}/{key_of(month)}"

        def change(data: bytes | None, rows: RowMonth = rows, address: str = address) -> bytes:
            return encode({**({} if data is None else decode(data, address)), **rows})

        update_object(lake, key_of(month), change)


def key_of(month: str) -> str:
    return f"{_PREFIX}{month}.json"


def encode(month: RowMonth) -> bytes:
    """Returns a line for each slice."""
    lines = (
        f"{msgspec.json.encode(name).decode()}: {msgspec.json.encode(slice_rows).decode()}"
        for name, slice_rows in sorted(month.items())
    )
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def decode(data: bytes, place: str) -> RowMonth:
    """Raises SluiceError naming `place`, and what to do."""
    return decode_stored(
        _DECODER, data, lambda error: f"{place} holds no rows ({error}): delete it, the watch writes it again"
    )
