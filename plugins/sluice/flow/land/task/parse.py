"""Finds each record's type and event time. Strict: every refused record gets one reason, its first."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product
from operator import attrgetter
from typing import Any, Union, cast, get_args

import msgspec
import numpy as np
import pyarrow as pa

from sluice.config.event import Event
from sluice.errors import WrongUse
from sluice.field_path import Absent, FieldPath, before, header_of, in_structs, names_of, spellings
from sluice.flow.land import reject_reasons
from sluice.flow.land.expansion import MOST_LEVELS, PAIRS, Pairs, not_json, too_deep, too_many_values
from sluice.flow.land.formats.framing import is_framed_json
from sluice.flow.land.reject_reasons import Rejected
from sluice.flow.land.task import columns
from sluice.flow.land.task.columns import last_values
from sluice.flow.land.task.records import HOUR, SCHEMA_NAME, SLICE, TIME, TYPE, numbers_of, split
from sluice.flow.land.task.times import HOUR_MS, TimeBounds, other_units, read_times
from sluice.flow.land.task.type_folders import TypeCodes
from sluice.manifest import TOMBSTONE
from sluice.mask.unit_mask import escapes_of, quoted
from sluice.slices import FIRST_MS, LAST_MS
from sluice.time_grammar import TEXT, Spelled

Reasons = dict[int, str]


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
    """The stage that gives events their TYPE, TIME and HOUR; one per task. `types.names[code]` is the type of
    a code in all its batches."""

    def __init__(
        self,
        event: Event,
        counted: Iterable[str] = (),
        configured: Collection[str] = (),
        bounds: TimeBounds | None = None,
    ) -> None:
        """`counted`: dotted paths of more fields that are read of each event, and may be missing.
        `configured`: the types under `tables`. `bounds` of event times, beside those of every time."""
        self._bounds = bounds
        self.types = TypeCodes(configured)
        self._event = event
        self._fields = fields_of(event)
        self._readers = fast_readers(self._fields)
        fields = [path for path in counted if header_of(names_of(path)) is None]
        self._twice = DuplicateFields([*(".".join(field.path) for field in self._fields), *fields])

    def split(self, events: pa.Table) -> tuple[pa.Table, pa.Table | None]:
        read = self._read(events["_payload"])
        rows, refused = read.rows, read.refused
        times, untimed = self._times(events, read)
        outside = (times < FIRST_MS) | (times > LAST_MS)
        others: Reasons = {}
        if self._bounds is not None:
            slices = numbers_of(events, SLICE)[rows]
            outside |= self._bounds.outside(slices, times)
            others = other_units(times, self._bounds.starts[slices], self._event.time.format)
        reasons = dict.fromkeys(np.flatnonzero(outside).tolist(), reject_reasons.TIME_OUT_OF_RANGE)
        untimed = {**others, **reasons, **untimed}
        lands = None
        if refused or untimed:
            lands = np.isin(rows, list(refused), invert=True)
            lands[list(untimed)] = False
        types, untyped = self.types.encode(self._names(events, read), lands)
        _add(refused, rows, untyped)
        _add(refused, rows, untimed)
        parsed, rejected = split(events, refused)
        if rejected is not None:
            good = np.isin(rows, list(refused), invert=True)
            types, times = types[good], times[good]
        for name, column in ((TYPE, types), (TIME, times), (HOUR, times // HOUR_MS)):
            parsed = parsed.append_column(name, pa.array(column))
        return parsed, rejected

    def _read(self, payloads: pa.ChunkedArray[Any]) -> _Read:
        texts: list[Any] = payloads.to_pylist()
        read = self._read_all(payloads, texts)
        left = [None if row in read.refused else text for row, text in enumerate(texts)]
        for position in self._twice.among(left if read.refused else texts, read.names, read.absent):
            read.refused[position] = reject_reasons.FIELD_TWICE
        return read

    def _read_all(self, values: pa.ChunkedArray[Any], texts: Sequence[bytes | None]) -> _Read:
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
            except Rejected as verdict:
                refused[position] = verdict.reason
        columns = [[row[i] for row in rows] for i in range(len(self._fields))]
        return _Read(np.array(kept, np.int64), columns, refused)

    def _read_one(self, text: bytes | None) -> list[Any]:
        if text is None:
            raise Rejected(TOMBSTONE)
        if too_many_values(text):
            raise Rejected(reject_reasons.TOO_MANY_VALUES)
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

    def _names(self, events: pa.Table, read: _Read) -> pa.Array[Any]:
        source = self._event.type
        if source.field is not None:
            return _texts(read.columns[0])
        if source.header is not None:
            headers = events["_headers"].combine_chunks()
            return last_values(headers, source.header).take(pa.array(read.rows, pa.int64()))
        if source.schema_name:
            return events[SCHEMA_NAME].combine_chunks().take(pa.array(read.rows, pa.int64()))
        return events["_topic"].combine_chunks().cast(pa.string()).take(pa.array(read.rows, pa.int64()))

    def _times(self, events: pa.Table, read: _Read) -> tuple[np.ndarray, Reasons]:
        if self._event.time.record:
            stamps = events["_timestamp"].cast(pa.int64()).to_numpy()
            return stamps[read.rows], {}
        if self._event.time.header is not None:
            headers = last_values(events["_headers"].combine_chunks(), self._event.time.header)
            texts: list[Any] = headers.take(pa.array(read.rows, pa.int64())).to_pylist()
            return header_times(texts, self._event.time.spelled)
        return read_times(read.columns[-1], self._event.time.spelled)


def header_times(texts: Sequence[bytes | None], spelled: Spelled) -> tuple[np.ndarray, Reasons]:
    """Reads times of headers, which are texts, by sluice.time_grammar."""
    values: dict[int, str] = {}
    reasons: Reasons = {}
    for position, text in enumerate(texts):
        try:
            values[position] = _header_value(text)
        except Rejected as verdict:
            reasons[position] = verdict.reason
    times = np.zeros(len(texts), np.int64)
    rows = list(values)
    times[rows], refused = read_times([*values.values()], spelled)
    return times, reasons | {rows[position]: reason for position, reason in refused.items()}


def _header_value(text: bytes | None) -> str:
    if text is None:
        raise Rejected(reject_reasons.NO_TIME)
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise Rejected(reject_reasons.TIME_NOT_UNDERSTOOD) from None


def _texts(names: list[Any]) -> pa.Array[Any]:
    """Returns the types as texts: 3 is the type `3`. Few fields have numbers."""
    try:
        return pa.array(names, pa.string())
    except pa.ArrowTypeError:
        return pa.array(map(str, names), pa.string())


def _is_utf8(values: pa.ChunkedArray[Any]) -> bool:
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _any_too_much(values: pa.ChunkedArray[Any], texts: Sequence[bytes | None]) -> bool:
    """Returns whether any event is nested too deeply or has too many values; mostly none is long enough."""
    long = columns.lengths(values) > MOST_LEVELS
    return bool(long.any()) and any(
        text is not None and (too_deep(text) or too_many_values(text)) for text in texts
    )


def _add(refused: Reasons, rows: np.ndarray, reasons: Mapping[int, str]) -> None:
    """Adds `reasons`, whose positions count within `rows`. A record's first reason stays."""
    for position, reason in reasons.items():
        refused.setdefault(int(rows[position]), reason)


# The fields that landing needs of an event, read by msgspec while it checks the syntax of the rest.
_RAW = msgspec.json.Decoder(msgspec.Raw)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MOST_READERS = 16


@dataclass(frozen=True)
class EventField:
    """A dotted path, the type its value must have, and the verdicts where it is absent or another's."""

    path: FieldPath
    type: Any
    absent: str
    other: str


def fields_of(event: Event) -> tuple[EventField, ...]:
    """Returns the type's field, then the time's, as far as they are fields of the event."""
    fields = []
    if event.type.field is not None:
        path = names_of(event.type.field)
        fields.append(EventField(path, str | int, reject_reasons.NO_TYPE, reject_reasons.TYPE_NOT_TEXT))
    if event.time.field is not None and event.time.header is None:
        kind: Any = str if event.time.format == TEXT else str | int | float
        path = names_of(event.time.field)
        fields.append(EventField(path, kind, reject_reasons.NO_TIME, reject_reasons.TIME_NOT_UNDERSTOOD))
    return tuple(fields)


class FastReader:
    """Reads events that spell each field's path with the `keys` given for it. `decode` raises
    msgspec.DecodeError for all but good ones of these; `getters` then read.

    `names`: each of these has them. `absent`: none has these keys, for their values would count.
    """

    def __init__(self, fields: Sequence[EventField], keys: Sequence[FieldPath]) -> None:
        tree: dict[str, Any] = {}
        absent: frozenset[FieldPath] = frozenset()
        for field, chosen in zip(fields, keys, strict=True):
            _plant(tree, chosen, field.type)
            absent |= before(field.path, chosen)
        for other in absent:
            _plant(tree, other, Absent)
        self.decode: Callable[[bytes], Any] = msgspec.json.Decoder(_struct(tree)).decode
        self.getters = tuple(attrgetter(_attribute(tree, chosen)) for chosen in keys)
        self.names = frozenset(name for chosen in keys for name in chosen)
        self.absent = absent


def fast_readers(fields: Sequence[EventField]) -> list[FastReader]:
    """Returns readers of the spellings of the fields' paths, first of the one without dots in keys; none
    where a name is not for msgspec. Raises WrongUse where no event has all of the fields."""
    if not in_structs(field.path for field in fields):
        return []
    readers = []
    for keys in islice(product(*(spellings(field.path)[::-1] for field in fields)), _MOST_READERS):
        try:
            readers.append(FastReader(fields, keys))
        except _NoEvent:
            continue
    if not readers:
        paths = " and ".join(".".join(field.path) for field in fields)
        raise WrongUse(f"event: no event has both the type and the time where {paths} say")
    return readers


def slow_read(value: bytes, fields: Sequence[EventField]) -> list[Any]:
    """Returns the fields' values, or the reason that comes first. Raises Rejected."""
    try:
        value.decode()
        if too_deep(value):
            raise Rejected(reject_reasons.NESTED_TOO_DEEP)
        members = _members(_RAW.decode(value))
    except UnicodeDecodeError:
        raise Rejected(no_json(value, reject_reasons.NOT_UTF8)) from None
    except msgspec.DecodeError:
        raise Rejected(no_json(value, not_json(value))) from None
    if members is None:
        raise Rejected(reject_reasons.NOT_AN_OBJECT)
    return [_find(members, field) for field in fields]


def no_json(value: bytes, reason: str) -> str:
    """Returns the reason, unless what is no JSON is one behind a schema id."""
    return reject_reasons.FRAMED if is_framed_json(value) else reason


def _find(members: dict[str, msgspec.Raw], field: EventField) -> Any:
    found = (_at(members, keys) for keys in spellings(field.path))
    raw = next((raw for raw in found if raw is not None and bytes(raw) != b"null"), None)
    if raw is None:
        raise Rejected(field.absent)
    try:
        return msgspec.json.decode(raw, type=field.type)
    except msgspec.DecodeError:
        raise Rejected(field.other) from None


def _at(members: dict[str, msgspec.Raw] | None, keys: FieldPath) -> msgspec.Raw | None:
    for name in keys[:-1]:
        members = _members(members[name]) if members is not None and name in members else None
    return None if members is None else members.get(keys[-1])


def _members(raw: msgspec.Raw) -> dict[str, msgspec.Raw] | None:
    """Returns None when it is no object."""
    try:
        return _OBJECT.decode(raw)
    except msgspec.ValidationError:
        return None


class _NoEvent(Exception):
    """No event has all of the fields where these spellings have them."""


def _plant(tree: dict[str, Any], keys: FieldPath, kind: Any) -> None:
    *parents, leaf = keys
    node: Any = tree
    for name in parents:
        node = node.setdefault(name, {})
        if not isinstance(node, dict):
            raise _NoEvent
    there = node.setdefault(leaf, kind)
    if there != kind:
        node[leaf] = _shared(there, kind)


def _shared(one: Any, other: Any) -> Any:
    """Returns the type of the values that are of both: one field may be the type and the time."""
    both = set(get_args(one) or (one,)) & set(get_args(other) or (other,))
    if isinstance(one, dict) or Absent in (one, other) or not both:
        raise _NoEvent
    return Union[tuple(both)]  # noqa: UP007 - of as many as there are


def _struct(tree: dict[str, Any]) -> type[msgspec.Struct]:
    members = [_member(f"m{number}", below) for number, below in enumerate(tree.values())]
    names = {f"m{number}": name for number, name in enumerate(tree)}
    return msgspec.defstruct("Event", members, rename=names, gc=False, kw_only=True)


def _member(attribute: str, below: Any) -> Any:
    if below is Absent:
        return attribute, Absent, None
    return attribute, _struct(below) if isinstance(below, dict) else below


def _attribute(tree: dict[str, Any], path: Sequence[str]) -> str:
    names = []
    for part in path:
        names.append(f"m{list(tree).index(part)}")
        tree = tree[part]
    return ".".join(names)


# Events in which a name that the pipeline reads stands twice in one object.
#
# What such an event says is undefined (RFC 8259, section 4): msgspec takes the last of them, ClickHouse
# the first, so the row of one type would hold the field of another.


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
        members = PAIRS.decode(event.decode())
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
        if not isinstance(node, Pairs):
            return False
        values = [value for member, value in node if member == name]
        if len(values) != 1:
            return bool(values)
        [node] = values
    return False
