"""Entries and checkpoints as JSON: differences and runs, so that a year of hours is one modest object."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import accumulate, groupby, pairwise
from operator import sub

import msgspec
import pendulum

from sluice.boundaries.boundary import CODE, CODES, Found
from sluice.boundaries.columns import Column, TopicBoundaries
from sluice.boundaries.model import Boundaries, Entry, Era
from sluice.errors import SluiceError

VERSION = 1
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
    """`instants`: runs of (first, count), one slice length apart."""

    cluster: str
    topic: str
    uuid: str
    instants: list[tuple[str, int]]
    partitions: list[_Partition]


class _Accepted(msgspec.Struct):
    cluster: str
    topic: str
    uuid: str
    since: str | None = None


class _Document(msgspec.Struct):
    """An entry, or a checkpoint of the first `entries` entries."""

    version: int
    length: int
    writer: str
    written_at: str
    topics: list[_Topic]
    accepted: list[_Accepted] = []
    entries: int = 0


def encode_entry(entry: Entry, writer: str, now: pendulum.DateTime) -> bytes:
    return _encode(entry.length, writer, now, entry.blocks, _list(entry.accepted.items()), 0)


def encode_checkpoint(
    boundaries: Boundaries, length: timedelta, writer: str, now: pendulum.DateTime
) -> bytes:
    eras = ((name, era) for name, eras in boundaries.eras.items() for era in eras)
    return _encode(length, writer, now, boundaries.blocks.values(), _list(eras), boundaries.entries)


def decode_entry(data: bytes, place: str) -> Entry:
    """Raises SluiceError naming `place` for what is no entry, or a newer Sluice's."""
    document = _decode(data, place)
    accepted = {(a.cluster, a.topic): _era(a) for a in document.accepted}
    return Entry(timedelta(seconds=document.length), _blocks(document), accepted)


def decode_checkpoint(data: bytes, place: str) -> Boundaries:
    document = _decode(data, place)
    eras: dict[tuple[str, str], tuple[Era, ...]] = {}
    for item in document.accepted:
        name = (item.cluster, item.topic)
        eras[name] = (*eras.get(name, ()), _era(item))
    blocks = {block.key: block for block in _blocks(document)}
    return Boundaries(document.entries, timedelta(seconds=document.length), blocks, eras)


def _encode(
    length: timedelta,
    writer: str,
    now: pendulum.DateTime,
    blocks: Iterable[TopicBoundaries],
    accepted: list[_Accepted],
    entries: int,
) -> bytes:
    seconds = int(length.total_seconds())
    topics = [_topic(block, seconds) for block in blocks]
    return msgspec.json.encode(
        _Document(VERSION, seconds, writer, now.to_iso8601_string(), topics, accepted, entries)
    )


def _decode(data: bytes, place: str) -> _Document:
    try:
        document = msgspec.json.decode(data, type=_Document)
    except msgspec.DecodeError as error:
        raise SluiceError(
            f"{place} is not an entry of the boundary log ({error}): restore it from a copy"
        ) from error
    if document.version > VERSION:
        raise SluiceError(
            f"{place} has format {document.version}, newer than this Sluice's {VERSION}: upgrade"
        )
    return document


def _blocks(document: _Document) -> tuple[TopicBoundaries, ...]:
    return tuple(
        TopicBoundaries(
            topic.cluster,
            topic.topic,
            topic.uuid,
            array("q", _instants(topic.instants, document.length)),
            {stored.partition: _column(stored) for stored in topic.partitions},
        )
        for topic in document.topics
    )


def _topic(block: TopicBoundaries, length: int) -> _Topic:
    partitions = [
        _Partition(
            number,
            column.first_start,
            _differences(column.offsets),
            _runs(
                floor if 0 <= floor < offset else -1
                for floor, offset in zip(column.floors, column.offsets, strict=True)
            ),
            _runs(column.log_starts),
            [(CODES[code].value, count) for code, count in _runs(column.found)],
        )
        for number, column in block.columns.items()
    ]
    return _Topic(block.cluster, block.topic, block.uuid, _instant_runs(block.instants, length), partitions)


def _column(stored: _Partition) -> Column:
    offsets = array("q", accumulate(stored.offsets))
    floors = array("q", _values(stored.floors))
    for row, offset in enumerate(offsets):
        if floors[row] < 0:
            floors[row] = stored.first_start if offset < 0 else offset
    found = array("b", _values((CODE[Found(name)], count) for name, count in stored.found))
    return Column(stored.first_start, offsets, floors, array("q", _values(stored.log_starts)), found)


def _runs(values: Iterable[int]) -> Runs:
    return [(value, sum(1 for _ in run)) for value, run in groupby(values)]


def _values(runs: Iterable[tuple[int, int]]) -> Iterable[int]:
    return (value for value, count in runs for _ in range(count))


def _differences(values: Sequence[int]) -> list[int]:
    return [*values[:1], *(sub(later, earlier) for earlier, later in pairwise(values))]


def _instant_runs(instants: Sequence[int], length: int) -> list[tuple[str, int]]:
    numbered = groupby(enumerate(instants), key=lambda item: item[1] - item[0] * length)
    runs = ([instant for _, instant in run] for _, run in numbered)
    return [(pendulum.from_timestamp(run[0]).to_iso8601_string(), len(run)) for run in runs]


def _instants(runs: Iterable[tuple[str, int]], length: int) -> Iterable[int]:
    for first, count in runs:
        start = int(pendulum.parse(first).timestamp())
        yield from range(start, start + count * length, length)


def _list(eras: Iterable[tuple[tuple[str, str], Era]]) -> list[_Accepted]:
    def text(since: int | None) -> str | None:
        return None if since is None else pendulum.from_timestamp(since).to_iso8601_string()

    return [_Accepted(cluster, topic, era.uuid, text(era.since)) for (cluster, topic), era in eras]


def _era(item: _Accepted) -> Era:
    return Era(item.uuid, None if item.since is None else int(pendulum.parse(item.since).timestamp()))
