"""The boundary log in the lake: `_boundaries/<n>.json`, each created only if absent, never changed.

Entries are dense: a writer has read all before n, so the first absent one is the end. The checkpoint is
only a shorter way to the same state; an old one costs reads, never truth.
"""

from __future__ import annotations

import uuid
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby

import msgspec
import numpy as np
import pendulum

from sluice import crash_points
from sluice.clients.lake import layout
from sluice.clients.lake.base import Objects
from sluice.crash_points import Resolve
from sluice.errors import SluiceError
from sluice.slices import parse_iso8601
from sluice.state.boundaries.boundary import CODE, CODES, FoundBy, PartitionColumn, TopicBoundaries
from sluice.state.boundaries.model import Boundaries, Era, Listed, LogEntry
from sluice.stored_json import UNREADABLE
from sluice.topic_patterns import TopicPatterns

CHECKPOINT = f"{layout.BOUNDARIES}checkpoint.json"
CHECKPOINT_EVERY = 32


@dataclass(frozen=True)
class BoundaryLog:
    """`writer` makes the bytes of each writer its own, as `Objects.create` asks."""

    lake: Objects
    writer: str = field(default_factory=lambda: uuid.uuid4().hex)

    def read(self, earlier: Boundaries | None = None) -> Boundaries:
        """Returns the state after all entries; `earlier` is a state to go on from."""
        state = self._checkpoint() if earlier is None else earlier
        while (stored := self.lake.read(layout.boundary_entry(state.entries))) is not None:
            place = f"{self.lake.url}/{layout.boundary_entry(state.entries)}"
            state = state.with_entry(decode_entry(stored.data, place))
        return state

    def append(self, state: Boundaries, entry: LogEntry, now: pendulum.DateTime) -> Boundaries | None:
        """Returns the state with `entry` stored; None when another writer came first: read, and try again."""
        data = encode_entry(entry, self.writer, now)
        if not self.lake.create(layout.boundary_entry(state.entries), data):
            return None
        crash_points.reached(Resolve.STORED)
        new = state.with_entry(entry)
        if new.entries % CHECKPOINT_EVERY == 0:
            self.lake.put(CHECKPOINT, encode_checkpoint(new, new.length or entry.length, self.writer, now))
            crash_points.reached(Resolve.CHECKPOINTED)
        return new

    def _checkpoint(self) -> Boundaries:
        stored = self.lake.read(CHECKPOINT)
        if stored is None:
            return Boundaries()
        return decode_checkpoint(stored.data, f"{self.lake.url}/{CHECKPOINT}")


# Entries and checkpoints as JSON: differences and runs, so that a year of hours is one modest object.
VERSION = 1
_MOST_INSTANTS = 50_000_000  # of all topics: a year of hours of five thousand
_LAST_SECOND = 253_402_300_799  # of the year 9999
Runs = list[tuple[int, int]]


class _Partition(msgspec.Struct):
    """`offsets`: the first, then differences; the others: runs of (value, count). A floor is given as its
    run's value where it lies below the offset, else -1."""

    partition: int
    first_start: int
    offsets: list[int]
    floors: Runs
    log_starts: Runs
    found: list[tuple[str, int]]


class _Topic(msgspec.Struct):
    """`instants`: runs of (first, count), one slice length apart.

    Each of the partitions is a `_Partition`, coded by itself: the numbers of thousands of them for a year,
    as Python's, would take gigabytes.
    """

    cluster: str
    topic: str
    uuid: str
    instants: list[tuple[str, int]]
    partitions: list[msgspec.Raw]


_PARTITION = msgspec.json.Decoder(_Partition)


class _Accepted(msgspec.Struct):
    cluster: str
    topic: str
    uuid: str
    since: str | None


class _Listed(msgspec.Struct):
    """`slices`: runs of (first start, count), one slice length apart."""

    cluster: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    slices: list[tuple[str, int]]


class _Document(msgspec.Struct, omit_defaults=True):
    """An entry, or a checkpoint of the first `entries` entries; `listed` is there where patterns are."""

    version: int
    length: int
    writer: str
    written_at: str
    topics: list[_Topic]
    accepted: list[_Accepted]
    entries: int
    asked: dict[str, str]
    listed: list[_Listed] = []


class _Format(msgspec.Struct):
    version: int


_DECODER = msgspec.json.Decoder(_Document)
_FORMAT = msgspec.json.Decoder(_Format)


def encode_entry(entry: LogEntry, writer: str, now: pendulum.DateTime) -> bytes:
    accepted = _list(entry.accepted.items())
    return _encode(entry.length, writer, now, entry.blocks, accepted, 0, entry.asked, entry.listed)


def encode_checkpoint(
    boundaries: Boundaries, length: timedelta, writer: str, now: pendulum.DateTime
) -> bytes:
    eras = ((name, era) for name, eras in boundaries.eras.items() for era in eras)
    accepted, blocks = _list(eras), boundaries.blocks.values()
    return _encode(
        length, writer, now, blocks, accepted, boundaries.entries, boundaries.asked, boundaries.listed
    )


def decode_entry(data: bytes, place: str) -> LogEntry:
    """Raises SluiceError naming `place` for what is no entry, or a newer Sluice's."""
    with _explained(place):
        document = _document(data, place)
        accepted = {(a.cluster, a.topic): _era(a) for a in document.accepted}
        length, blocks = timedelta(seconds=document.length), _blocks(document)
        return LogEntry(length, blocks, accepted, _asked(document), _listed(document))


def decode_checkpoint(data: bytes, place: str) -> Boundaries:
    """Raises as `decode_entry`."""
    with _explained(place):
        document = _document(data, place)
        eras: dict[tuple[str, str], tuple[Era, ...]] = {}
        for item in document.accepted:
            name = (item.cluster, item.topic)
            eras[name] = (*eras.get(name, ()), _era(item))
        blocks = {block.key: block for block in _blocks(document)}
        length = timedelta(seconds=document.length)
        return Boundaries(document.entries, length, blocks, eras, _asked(document), _listed(document))


def _encode(
    length: timedelta,
    writer: str,
    now: pendulum.DateTime,
    blocks: Iterable[TopicBoundaries],
    accepted: list[_Accepted],
    entries: int,
    asked: Mapping[str, int],
    listed: Listed,
) -> bytes:
    seconds = int(length.total_seconds())
    topics = [_topic(block, seconds) for block in blocks]
    since = {cluster: pendulum.from_timestamp(at).to_iso8601_string() for cluster, at in asked.items()}
    written = now.to_iso8601_string()
    slices = [
        _Listed(cluster, patterns.include, patterns.exclude, _instant_runs(sorted(starts), seconds))
        for cluster, by_patterns in listed.items()
        for patterns, starts in by_patterns.items()
    ]
    document = _Document(VERSION, seconds, writer, written, topics, accepted, entries, since, slices)
    return msgspec.json.encode(document)


def _listed(document: _Document) -> Listed:
    """Raises ValueError for more than a log may hold."""
    if sum(_length(item.slices) for item in document.listed) > _MOST_INSTANTS:
        raise ValueError(f"it lists more than {_MOST_INSTANTS:,} slices")
    listed: dict[str, dict[TopicPatterns, frozenset[int]]] = defaultdict(dict)
    for item in document.listed:
        patterns = TopicPatterns(item.include, item.exclude)
        listed[item.cluster][patterns] = frozenset(_instants(item.slices, document.length))
    return dict(listed)


def _asked(document: _Document) -> dict[str, int]:
    return {cluster: _seconds(at) for cluster, at in document.asked.items()}


def _seconds(text: str) -> int:
    """Seconds since the epoch. Raises ValueError for what is no instant."""
    return int(parse_iso8601(text).timestamp())


def _document(data: bytes, place: str) -> _Document:
    # First: a newer format may be of another shape, and is nothing to be restored.
    version = _FORMAT.decode(data).version
    if version > VERSION:
        raise SluiceError(f"{place} has format {version}, newer than this Sluice's {VERSION}: upgrade")
    return _DECODER.decode(data)


@contextmanager
def _explained(place: str) -> Iterator[None]:
    try:
        yield
    except (*UNREADABLE, ValueError, OverflowError) as error:
        raise SluiceError(
            f"{place} is not an entry of the boundary log ({error}): restore it from a copy"
        ) from error


def _blocks(document: _Document) -> tuple[TopicBoundaries, ...]:
    if sum(_length(topic.instants) for topic in document.topics) > _MOST_INSTANTS:
        raise ValueError(f"it has more than {_MOST_INSTANTS:,} instants")
    return tuple(_block(topic, document.length) for topic in document.topics)


def _block(topic: _Topic, length: int) -> TopicBoundaries:
    instants = array("q", _instants(topic.instants, length))
    partitions = map(_PARTITION.decode, topic.partitions)
    columns = {stored.partition: _column(stored, len(instants)) for stored in partitions}
    return TopicBoundaries(topic.cluster, topic.topic, topic.uuid, instants, columns)


def _topic(block: TopicBoundaries, length: int) -> _Topic:
    partitions = [_partition(number, column) for number, column in block.columns.items()]
    return _Topic(block.cluster, block.topic, block.uuid, _instant_runs(block.instants, length), partitions)


def _partition(number: int, column: PartitionColumn) -> msgspec.Raw:
    partition = _Partition(
        number,
        column.first_start,
        _differences(column.offsets),
        _runs(_floors(column)),
        _runs(column.log_starts),
        [(CODES[code].value, count) for code, count in _runs(column.codes)],
    )
    return msgspec.Raw(msgspec.json.encode(partition))


def _column(stored: _Partition, rows: int) -> PartitionColumn:
    """Raises ValueError or OverflowError for what is no boundary for each of the topic's instants."""
    found = [(CODE[FoundBy(name)], count) for name, count in stored.found]
    lengths = {len(stored.offsets), *map(_length, (stored.floors, found, stored.log_starts))}
    if lengths != {rows}:
        raise ValueError(f"partition {stored.partition} does not have a value for each of {rows} instants")
    offsets = np.cumsum(np.array(stored.offsets, np.int64))
    floors, codes = _values(stored.floors, np.int64), _values(found, np.int8)
    starts = _values(stored.log_starts, np.int64)
    floors = np.where(floors >= 0, floors, np.where(offsets < 0, np.int64(stored.first_start), offsets))
    return PartitionColumn(
        stored.first_start,
        array("q", offsets.tobytes()),
        array("q", floors.tobytes()),
        array("q", starts.tobytes()),
        array("b", codes.tobytes()),
    )


def _floors(column: PartitionColumn) -> np.ndarray:
    floors, offsets = np.asarray(column.floors, np.int64), np.asarray(column.offsets, np.int64)
    return np.where((floors >= 0) & (floors < offsets), floors, -1)


def _runs(values: Sequence[int] | np.ndarray) -> Runs:
    numbers = np.asarray(values)
    starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])) if len(numbers) else numbers
    counts = np.diff(np.append(starts, len(numbers)))
    return list(zip(numbers[starts].tolist(), counts.tolist(), strict=True)) if len(numbers) else []


def _length(runs: Iterable[tuple[object, int]]) -> int:
    """Returns how many values the runs stand for. Raises ValueError for a run of less than one."""
    counts = [count for _, count in runs]
    if counts and min(counts) < 1:
        raise ValueError(f"a run has {min(counts)} values")
    return sum(counts)


def _values(runs: Runs, kind: type[np.integer]) -> np.ndarray:
    values, counts = zip(*runs, strict=True) if runs else ((), ())
    return np.repeat(np.array(values, kind), np.array(counts, np.int64))


def _differences(values: Sequence[int]) -> list[int]:
    differences: list[int] = np.diff(np.asarray(values, np.int64), prepend=0).tolist()
    return differences


def _instant_runs(instants: Sequence[int], length: int) -> list[tuple[str, int]]:
    numbered = groupby(enumerate(instants), key=lambda item: item[1] - item[0] * length)
    runs = ([instant for _, instant in run] for _, run in numbered)
    return [(pendulum.from_timestamp(run[0]).to_iso8601_string(), len(run)) for run in runs]


def _instants(runs: Sequence[tuple[str, int]], length: int) -> Iterable[int]:
    for first, count in runs:
        start = _seconds(first)
        if start + count * length > _LAST_SECOND:
            raise ValueError(f"{count:,} instants from {first} on end after the year 9999")
        yield from range(start, start + count * length, length)


def _list(eras: Iterable[tuple[tuple[str, str], Era]]) -> list[_Accepted]:
    def text(since: int | None) -> str | None:
        return None if since is None else pendulum.from_timestamp(since).to_iso8601_string()

    return [_Accepted(cluster, topic, era.uuid, text(era.since)) for (cluster, topic), era in eras]


def _era(item: _Accepted) -> Era:
    return Era(item.uuid, None if item.since is None else _seconds(item.since))
