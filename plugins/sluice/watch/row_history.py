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
from sluice.concurrency import each_if_slow
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.manifest import Manifest
from sluice.slices import Slice, SliceRange, Unit, floor
from sluice.state.boundaries.model import Boundaries
from sluice.state.manifests import read_manifests
from sluice.state.month_store import read_summaries
from sluice.state.months import months_of
from sluice.state.units import ClusterSpans, spans
from sluice.state.update_object import update_object
from sluice.watch.expected import HISTORY_DAYS, Counts

MOST_TYPES, TYPE_CHARACTERS = 100, 200
"""Types of a slice that are kept by name, those with most rows; the others count in the sum alone."""
_READ_AT_ONCE = 240
_PREFIX = "_alarms/rows-"


class SliceRows(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Rows that one slice landed, of all clusters, and those of its largest types."""

    rows: int
    types: dict[str, int]

    @property
    def has_all(self) -> bool:
        return sum(self.types.values()) == self.rows


RowMonth = dict[str, SliceRows]
"""By slice id."""
_DECODER = msgspec.json.Decoder(RowMonth)


@dataclass(frozen=True)
class RowHistory:
    """By slice; a slice that is not there has not landed whole, or is not known yet. `new`: what the lake has
    to get of it, by month."""

    slices: Mapping[Slice, SliceRows] = field(default_factory=dict)
    new: Mapping[str, RowMonth] = field(default_factory=dict)

    def total(self) -> Counts:
        return {int(slice_.start.timestamp()): one.rows for slice_, one in self.slices.items()}

    def by_type(self) -> Mapping[str, Counts]:
        """Returns each type's rows. Of a slice that keeps some of its types only, the others are unknown."""
        starts = {int(slice_.start.timestamp()): one for slice_, one in self.slices.items()}
        found: dict[str, dict[int, int]] = {name: {} for one in starts.values() for name in one.types}
        whole = [start for start, one in starts.items() if one.has_all]
        for rows in found.values():
            rows.update(dict.fromkeys(whole, 0))
        for start, one in starts.items():
            for name, count in one.types.items():
                found[name][start] = count
        return found


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
    known = spans(pipeline, boundaries)
    stored = _stored(lake, months_of(whole := SliceRange(start, recent.end, pipeline.slice)))
    every = list(whole)
    unseen = [slice_ for slice_ in every if slice_.id not in stored and slice_.start < recent.start]
    older = read_manifests(lake, _units(lake, whole, unseen, known))
    new = dict(_complete([*unseen, *recent], known, {**older, **landed}))
    slices = {slice_: stored[slice_.id] for slice_ in every if slice_.id in stored} | new
    return RowHistory(slices, _changed(new, stored))


def _stored(lake: Lake, months: Sequence[str]) -> RowMonth:
    def read(month: str) -> RowMonth:
        found = lake.read(key_of(month))
        return {} if found is None else decode(found.data, f"{lake.url}/{key_of(month)}")

    return {name: one for month in each_if_slow(read, months) for name, one in month.items()}


def _units(lake: Lake, whole: SliceRange, unseen: Sequence[Slice], known: ClusterSpans) -> Iterator[Unit]:
    """Yields the units of the newest slices that the summaries say have landed."""
    if not unseen:
        return
    noted, count = read_summaries(lake, whole), 0
    for slice_ in reversed(unseen):
        units, seen = known.awaited(slice_), noted.of(slice_.id)
        if units and all(unit.cluster in seen and seen[unit.cluster].seal for unit in units):
            yield from (*units, *(unit for unit in known.gone_from(slice_) if unit.cluster in seen))
            count += 1
        if count == _READ_AT_ONCE:
            return


def _complete(
    slices: Iterable[Slice], known: ClusterSpans, manifests: Mapping[Unit, Manifest]
) -> Iterator[tuple[Slice, SliceRows]]:
    """Yields the rows of slices of which every cluster has landed."""
    for slice_ in slices:
        units = known.awaited(slice_)
        if units and all(unit in manifests for unit in units):
            gone = [unit for unit in known.gone_from(slice_) if unit in manifests]
            yield slice_, rows_of(manifests[unit] for unit in (*units, *gone))


def _changed(new: Mapping[Slice, SliceRows], stored: RowMonth) -> dict[str, RowMonth]:
    months: dict[str, RowMonth] = {}
    for slice_, one in new.items():
        if stored.get(slice_.id) != one:
            months.setdefault(f"{slice_.start:%Y-%m}", {})[slice_.id] = one
    return months


def keep(lake: Lake, history: RowHistory) -> None:
    """Writes what is new. Raises LakeUnavailable."""
    for month, rows in history.new.items():
        place = f"{lake.url}/{key_of(month)}"

        def change(data: bytes | None, rows: RowMonth = rows, place: str = place) -> bytes:
            return encode({**({} if data is None else decode(data, place)), **rows})

        update_object(lake, key_of(month), change)


def key_of(month: str) -> str:
    return f"{_PREFIX}{month}.json"


def encode(month: RowMonth) -> bytes:
    """Returns a line for each slice."""
    lines = (
        f"{msgspec.json.encode(name).decode()}: {msgspec.json.encode(one).decode()}"
        for name, one in sorted(month.items())
    )
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def decode(data: bytes, place: str) -> RowMonth:
    """Raises SluiceError naming `place`, and what to do."""
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError as error:
        raise SluiceError(f"{place} holds no rows ({error}): delete it, the watch writes it again") from error
