"""Finds each record's type and event time. Strict: every refused record gets one reason, its first."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import msgspec
import numpy as np
import pyarrow as pa

from sluice.config.event import Event
from sluice.field_path import FieldPath, names_of, spellings
from sluice.flow.land import reject_reasons
from sluice.flow.land.reject_reasons import Unparsed
from sluice.flow.land.task import columns
from sluice.flow.land.task.columns import last_values
from sluice.flow.land.task.erasing import BatchErasing
from sluice.flow.land.task.fields import fast_readers, fields_of, slow_read
from sluice.flow.land.task.nesting import MOST_LEVELS, too_deep, too_many_values
from sluice.flow.land.task.times import READERS
from sluice.flow.land.task.type_folders import TypeCodes
from sluice.mask.unit_mask import escapes_of, quoted
from sluice.slices import FIRST_MS, LAST_MS

Reasons = dict[int, str]


@dataclass(frozen=True)
class RecordColumns:
    """A batch of Kafka records, column by column: `timestamps` in ms; `headers` lists of (key, value).

    A record's event time may be from `earliest` to `latest`, in ms and both included. `erasing`: None where
    nothing is erased. `numbers`: of an array out of the lake, the number of each element in its message.
    """

    values: pa.Array[Any]
    topic: str
    headers: pa.Array[Any]
    timestamps: np.ndarray
    earliest: np.ndarray
    latest: np.ndarray
    erasing: BatchErasing | None = None
    numbers: Sequence[Sequence[int] | None] | None = None

    def taken(self, positions: np.ndarray, values: pa.Array[Any] | None = None) -> RecordColumns:
        """Returns the records at `positions`, with other `values` where they are given."""
        rows = pa.array(positions, pa.int64())
        return replace(
            self,
            values=self.values.take(rows) if values is None else values,
            headers=self.headers.take(rows),
            timestamps=self.timestamps[positions],
            earliest=self.earliest[positions],
            latest=self.latest[positions],
            erasing=None,
            numbers=None,
        )


@dataclass(frozen=True)
class ParsedRecords:
    """Type codes and event times (ms) of the records at `rows`, ascending; of the others the reason."""

    rows: np.ndarray
    types: np.ndarray
    times: np.ndarray
    refused: Mapping[int, str]


@dataclass(frozen=True)
class _Read:
    """What the values say: the positions that could be read, a list per field, the others' reasons, and what
    is known of all values: the names that each has, and keys that none has."""

    rows: np.ndarray
    columns: list[list[Any]]
    refused: Reasons
    names: frozenset[str] = frozenset()
    absent: frozenset[FieldPath] = frozenset()


class Parser:
    """One per task; `types.names[code]` is the type of a code in all its batches."""

    def __init__(self, event: Event, counted: Iterable[str] = (), configured: Collection[str] = ()) -> None:
        """`counted`: dotted paths of more fields that are read of each event, and may be missing.
        `configured`: the types under `tables`."""
        self.types = TypeCodes(configured)
        self._event = event
        self._fields = fields_of(event)
        self._readers = fast_readers(self._fields)
        self._twice = DuplicateFields([*(".".join(field.path) for field in self._fields), *counted])

    def parse(self, records: RecordColumns) -> ParsedRecords:
        read = self._read(records.values)
        rows, refused = read.rows, read.refused
        times, untimed = self._times(records, read)
        early = times < np.maximum(records.earliest[rows], FIRST_MS)
        late = times > np.minimum(records.latest[rows], LAST_MS)
        outside = dict.fromkeys(np.flatnonzero(early | late).tolist(), reject_reasons.TIME_OUT_OF_RANGE)
        untimed = {**outside, **untimed}
        lands = None
        if refused or untimed:
            lands = np.isin(rows, list(refused), invert=True)
            lands[list(untimed)] = False
        types, untyped = self.types.encode(self._names(records, read), lands)
        _add(refused, rows, untyped)
        _add(refused, rows, untimed)
        if not refused:
            return ParsedRecords(rows, types, times, refused)
        good = np.isin(rows, list(refused), invert=True)
        return ParsedRecords(rows[good], types[good], times[good], refused)

    def _read(self, values: pa.Array[Any]) -> _Read:
        texts = values.to_pylist()
        read = self._read_all(values, texts)
        left = [None if row in read.refused else text for row, text in enumerate(texts)]
        for position in self._twice.among(left if read.refused else texts, read.names, read.absent):
            read.refused[position] = reject_reasons.FIELD_TWICE
        return read

    def _read_all(self, values: pa.Array[Any], texts: Sequence[bytes | None]) -> _Read:
        if not values.null_count and _is_utf8(values) and not _any_too_much(values, texts):
            for reader in self._readers:
                try:
                    events = [*map(reader.decode, cast("Sequence[bytes]", texts))]
                except msgspec.DecodeError:
                    continue
                columns = [[*map(get, events)] for get in reader.getters]
                return _Read(np.arange(len(texts)), columns, {}, reader.names, reader.absent)
        return self._read_one_by_one(texts)

    def _read_one_by_one(self, texts: Sequence[bytes | None]) -> _Read:
        kept: list[int] = []
        rows: list[list[Any]] = []
        refused: Reasons = {}
        for position, text in enumerate(texts):
            try:
                rows.append(self._read_one(text))
                kept.append(position)
            except Unparsed as verdict:
                refused[position] = verdict.reason
        columns = [[row[i] for row in rows] for i in range(len(self._fields))]
        return _Read(np.array(kept, np.int64), columns, refused)

    def _read_one(self, text: bytes | None) -> list[Any]:
        if text is None:
            raise Unparsed(reject_reasons.NO_VALUE)
        if too_many_values(text):
            raise Unparsed(reject_reasons.TOO_MANY_VALUES)
        try:
            text.decode()  # msgspec does not check the strings that it skips
        except UnicodeDecodeError:
            return slow_read(text, self._fields)
        for reader in () if too_deep(text) else self._readers:
            try:
                event = reader.decode(text)
            except msgspec.DecodeError:
                continue
            return [get(event) for get in reader.getters]
        return slow_read(text, self._fields)

    def _names(self, records: RecordColumns, read: _Read) -> pa.Array[Any]:
        source = self._event.type
        if source.field is not None:
            return pa.array(read.columns[0], pa.string())
        if source.header is not None:
            return last_values(records.headers, source.header).take(pa.array(read.rows, pa.int64()))
        return pa.repeat(records.topic, len(read.rows))

    def _times(self, records: RecordColumns, read: _Read) -> tuple[np.ndarray, Reasons]:
        if self._event.time.record:
            return records.timestamps[read.rows], {}
        return READERS[self._event.time.format](read.columns[-1])


def _is_utf8(values: pa.Array[Any]) -> bool:
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _any_too_much(values: pa.Array[Any], texts: Sequence[bytes | None]) -> bool:
    """Returns whether any event is nested too deeply or has too many values; mostly none is long enough."""
    long = columns.lengths(values) > MOST_LEVELS
    return bool(long.any()) and any(
        text is not None and (too_deep(text) or too_many_values(text)) for text in texts
    )


def _add(refused: Reasons, rows: np.ndarray, reasons: Mapping[int, str]) -> None:
    """Adds `reasons`, whose positions count within `rows`. A record's first reason stays."""
    for position, reason in reasons.items():
        refused.setdefault(int(rows[position]), reason)


# Events in which a name that the pipeline reads stands twice in one object.
#
# What such an event says is undefined (RFC 8259, section 4): msgspec takes the last of them, ClickHouse
# the first, so the row of one type would hold the field of another.
class _Members(list[Any]):
    """An object's (name, value) pairs, all of them."""


_PAIRS = json.JSONDecoder(object_pairs_hook=_Members, parse_int=str, parse_float=str)


class DuplicateFields:
    """`paths` are dotted; in each of their spellings no name may be there twice."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths: list[FieldPath] = sorted({keys for path in paths for keys in spellings(names_of(path))})
        self._names = self._names_beside(frozenset())
        self._escaped = escapes_of(self._names)
        self._beside = lru_cache(self._names_beside)

    def among(
        self,
        events: Sequence[bytes | None],
        needed: Collection[str] = (),
        absent: frozenset[FieldPath] = frozenset(),
    ) -> list[int]:
        """Returns the positions of such events. Each of them has the names `needed`, and none the keys
        `absent`.

        Mostly one test of all of them at once is enough: such a name is there as often as there are events,
        and a name with a dot nowhere.
        """
        if not self._paths:
            return []
        joined = b"\n".join(filter(None, events))
        names, suspects = self._beside(absent), set[int]()
        if b"\\" in joined and self._escaped.search(joined):
            needed, names = (), self._names
            suspects |= {
                position for position, event in enumerate(events) if event and self._escaped.search(event)
            }
        dotted = [quoted(name.rpartition(".")[2])[1:] for name in names if "." in name]
        if dotted and not re.search(rb"\.(?:%b)" % b"|".join(map(re.escape, sorted(set(dotted)))), joined):
            names = {name: text for name, text in names.items() if "." not in name}
        for name, text in names.items():
            if not (name in needed and joined.count(text) == len(events)):
                suspects |= {
                    position for position, event in enumerate(events) if event and event.count(text) > 1
                }
        return [position for position in sorted(suspects) if self._is(events[position] or b"")]

    def _names_beside(self, absent: frozenset[FieldPath]) -> dict[str, bytes]:
        """Returns the names on paths that run through none of the keys, each as most writers spell it."""
        paths = [path for path in self._paths if not any(path[: len(keys)] == keys for keys in absent)]
        return {name: quoted(name) for name in sorted({name for path in paths for name in path})}

    def _is(self, event: bytes) -> bool:
        if not self._escaped.search(event) and self._same_again(event):
            return False
        members = _PAIRS.decode(event.decode())
        return any(_twice(members, path) for path in self._paths)

    def _same_again(self, event: bytes) -> bool:
        """Returns whether the names are as often in what a reader makes of the event: of two in one object it
        keeps one."""
        try:
            again = msgspec.json.encode(msgspec.json.decode(event))
        except (msgspec.MsgspecError, OverflowError, UnicodeError):
            return False
        return all(event.count(text) == again.count(text) for text in self._names.values())


def _twice(node: Any, path: FieldPath) -> bool:
    for name in path:
        if not isinstance(node, _Members):
            return False
        values = [value for member, value in node if member == name]
        if len(values) != 1:
            return bool(values)
        [node] = values
    return False
