"""Which records and rows are erased: those that have a value of the erasure list.

One rule for all bytes that the lake may get: an event, an element of an array, a message that is rejected.
An event is read by the function that `sluice find --field` reads it with (field_path.py). Bytes that are no
JSON object are searched for the value at any place, and of a record without a value the key is one. The list
has only hashes, so what may be a value is hashed and compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
import numpy as np
import pyarrow as pa

from sluice.config.event import Event
from sluice.field_path import (
    FieldPath,
    UnreadablePayload,
    all_fields,
    header_of,
    last_keys,
    names_of,
    read_event,
    text_of,
)
from sluice.field_path import field as field_of
from sluice.flow.land.task.columns import last_values
from sluice.flow.land.task.records import (
    CHANGE,
    ERASED,
    MARKS,
    SCHEMA_NAME,
    SLICE,
    are_events,
    numbers_of,
    parted,
)
from sluice.mask.unit_mask import escapes_of, quoted
from sluice.slices import Slice
from sluice.state.erasures import (
    KEY,
    PROBES,
    AskedValue,
    Erasure,
    ErasureList,
    probe_weights,
)

SHORTEST = 8
"""Bytes of a value that is searched for anywhere in what is no JSON object; a shorter one only where it
follows the field's name."""
LONGEST = 1_024
"""Bytes of a value that can be asked for."""
_RAW = msgspec.json.Decoder(msgspec.Raw)
_TOKEN = re.compile(rb"[^\s\"',:;=&?{}\[\]()<>|\\\x00-\x1f\x7f]{%d,%d}" % (SHORTEST, LONGEST))
_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'

TypeOf = Callable[[dict[str, Any]], str | None]
"""From an event to its type; None where it has none that can be read."""


class ErasedValues:
    """The values that are erased from one slice."""

    def __init__(self, erasures: ErasureList, entries: Sequence[Erasure]) -> None:
        self._digest = erasures.digest
        self._fields: dict[FieldPath, dict[str, set[str]]] = {}
        for entry in entries:
            for value in entry.values:
                self._fields.setdefault(value.path, {}).setdefault(value.digest, set()).add(entry.type)
        self._keys = self._fields.pop(KEY, {})
        named = {path: header for path in self._fields if (header := header_of(path)) is not None}
        self._headers = {header: self._fields.pop(path) for path, header in named.items()}
        self._all = frozenset(
            digest for types_by_digest in self._fields.values() for digest in types_by_digest
        )
        values = [v for entry in entries for v in entry.values if v.path in self._fields]
        self._anywhere = Anywhere(erasures, values)
        names = sorted({name for path in self._fields for name in last_keys(path)})
        self._named = re.compile(_after(names), re.DOTALL) if names else None
        self._escaped = escapes_of(".".join(path) for path in self._fields)

    @property
    def by_header(self) -> bool:
        return bool(self._headers)

    def has(
        self,
        key: bytes | None,
        text: bytes | None,
        type_of: TypeOf,
        headers: Sequence[Any] | None = None,
        opened: bool = True,
    ) -> bool:
        """Returns whether an event, or whatever bytes, or the key or a header of its record has one of the
        values. To be called where the stack is deep enough: sluice.runtime.deeper.

        `opened`: an object has its fields where the paths say; else it is a message of which no event was
        made, and is searched as other bytes are."""
        if self._has_key(key, text, type_of) or self._has_header(headers, text, type_of):
            return True
        if text is None:  # such a record is rejected, so that its type does not count
            return bool(self._all) and key is not None and self._digest(key) in self._all
        return self._has_value(text, type_of) if opened else bool(self._named) and self._loosely(text)

    def _has_key(self, key: bytes | None, text: bytes | None, type_of: TypeOf) -> bool:
        types = self._keys.get(self._digest(key)) if key is not None and self._keys else None
        return types is not None and ("" in types or _type_in(text, type_of) in (None, *types))

    def _has_header(self, headers: Sequence[Any] | None, text: bytes | None, type_of: TypeOf) -> bool:
        for header in headers or () if self._headers else ():
            digests, value = self._headers.get(header["key"], {}), header["value"]
            types = digests.get(self._digest(value)) if value is not None and digests else None
            if types and ("" in types or _type_in(text, type_of) in (None, *types)):
                return True
        return False

    def _has_value(self, text: bytes, type_of: TypeOf) -> bool:
        if self._named is None:
            return False
        if self._likely(text):
            return self._exactly(text, type_of)
        return not _is_object(text) and self._loosely(text)

    def _likely(self, text: bytes) -> bool:
        """Returns False only where no event can have a value: most are done with that."""
        if b"\\" in text and self._escaped.search(text):
            return True
        return any(value[:1] == b"[" or self._digest(value) in self._all for value in self._values(text))

    def _values(self, text: bytes) -> Iterator[bytes]:
        """Yields what follows the last name of a path, as a person types it."""
        for written in self._named.findall(text) if self._named else ():
            if len(written) > 6 * LONGEST:  # six bytes write one character
                continue
            if written[:1] != b'"':
                yield written
            elif b"\\" not in written:
                yield written[1:-1]
            elif (value := _unescaped(written)) is not None:
                yield value

    def _exactly(self, text: bytes, type_of: TypeOf) -> bool:
        try:
            event = read_event(text)
        except UnreadablePayload:
            return self._loosely(text)
        for path, types_by_digest in self._fields.items():
            for value in filter(None, map(text_of, all_fields(event, path))):
                types = types_by_digest.get(self._digest(_bytes(value)))
                if types and ("" in types or type_of(event) in (None, *types)):
                    return True
        return False

    def _loosely(self, text: bytes) -> bool:
        pieces = (piece for piece in text.split(b'"') if SHORTEST <= len(piece) <= LONGEST)
        candidates = (*self._values(text), *pieces, *_TOKEN.findall(text))
        return any(self._digest(value) in self._all for value in candidates) or self._anywhere.has(text)


def no_type(_: object) -> None:
    """The type of what has none."""


class Erasing:
    """The stage that takes out what is erased; one per task."""

    def __init__(self, erasures: ErasureList, slices: Sequence[Slice], event: Event) -> None:
        values_by_entries: dict[tuple[Erasure, ...], ErasedValues | None] = {(): None}
        self._values_by_slice: list[ErasedValues | None] = []
        for slice_ in slices:
            entries = tuple(entry for entry in erasures.entries if entry.covers(slice_))
            if entries not in values_by_entries:
                values_by_entries[entries] = ErasedValues(erasures, entries)
            self._values_by_slice.append(values_by_entries[entries])
        self._source = event.type
        of_rows = ("_row", event.arrays), (CHANGE, event.unwraps)
        self._marks = [mark for mark, needed in of_rows if needed]
        self._active = any(values is not None for values in self._values_by_slice)
        self._by_header = any(values is not None and values.by_header for values in self._values_by_slice)

    def split(self, rows: pa.Table) -> tuple[pa.Table, pa.Table | None]:
        """Returns the events that stay, and the others; None where none is erased."""
        return self._split(rows, typed=True)

    def split_rejected(self, rows: pa.Table) -> tuple[pa.Table, pa.Table | None]:
        """Does the same of bytes that become no row: they have no type, and any entry counts."""
        return self._split(rows, typed=False)

    def _split(self, rows: pa.Table, typed: bool) -> tuple[pa.Table, pa.Table | None]:
        if not self._active:
            return rows, None
        gone = np.fromiter(self._erased(rows, typed), bool, rows.num_rows)
        return parted(rows, gone) if gone.any() else (rows, None)

    def _erased(self, rows: pa.Table, typed: bool) -> Iterator[bool]:
        in_lake = rows[ERASED].to_pylist() if ERASED in rows.column_names else repeat(False)
        keys, texts, slices = rows["_key"].to_pylist(), rows["_payload"].to_pylist(), numbers_of(rows, SLICE)
        headers = rows["_headers"].to_pylist() if self._by_header else repeat(None)
        opened = are_events(rows, self._marks)
        each = enumerate(zip(slices.tolist(), keys, texts, headers, in_lake, opened, strict=False))
        for position, (number, key, text, pairs, erased_in_lake, is_event) in each:
            values = self._values_by_slice[number]
            type_of = partial(self._type_of, rows, position) if typed else no_type
            yield values is not None and (erased_in_lake or values.has(key, text, type_of, pairs, is_event))

    def _type_of(self, rows: pa.Table, position: int, event: dict[str, Any]) -> str | None:
        """Returns the type that the pipeline file gives an event, which came out of the row at `position`."""
        if self._source.field is not None:
            try:
                return text_of(field_of(event, names_of(self._source.field)))
            except UnreadablePayload:
                return None
        if self._source.header is not None:
            headers = rows["_headers"].slice(position, 1).combine_chunks()
            header = last_values(headers, self._source.header)[0].as_py()
            return None if header is None else header.decode(errors="replace")
        return str(rows[SCHEMA_NAME if self._source.schema_name else "_topic"][position].as_py())


def _after(names: Sequence[str]) -> bytes:
    """Returns a regular expression: what follows one of the names and a colon."""
    texts = b"|".join(re.escape(quoted(name)) for name in names)
    return rb"(?:" + texts + rb")\s*+:\s*+(" + _TEXT + rb'|[^\s,}\]"]++)'


def _type_in(text: bytes | None, type_of: TypeOf) -> str | None:
    """Returns the type of what a record holds; None where it is no event, or has none that can be read."""
    try:
        return type_of({} if text is None else read_event(text))
    except UnreadablePayload:
        return None


def _unescaped(text: bytes) -> bytes | None:
    try:
        return _bytes(json.loads(text))
    except ValueError:
        return None


def _bytes(value: str) -> bytes:
    """Encodes a text. Half a surrogate pair is replaced: it is no character, and nobody can ask for it."""
    return value.encode(errors="replace")


def _is_object(text: bytes) -> bool:
    try:
        text.decode()
        return bytes(_RAW.decode(text)).lstrip()[:1] == b"{"
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False


# Which rows of the lake's files are erased: by what is stored in them, whatever the pipeline file says now.
#
# A row is of the type as which it landed. A rejected record has none, so that an entry of any type is about
# it.
COLUMNS = ("_payload", "_key", "_headers")


class RowErasing:
    """The rows of one slice, from which `entries` are erased."""

    def __init__(self, erasures: ErasureList, entries: Sequence[Erasure]) -> None:
        self._erasures, self._entries = erasures, entries
        self._types = frozenset(entry.type for entry in entries)
        self._by_header = any(
            header_of(value.path) is not None for entry in entries for value in entry.values
        )
        self._values: dict[str | None, ErasedValues | None] = {}

    def found(self, rows: pa.RecordBatch) -> np.ndarray:
        """Returns which rows are erased; they have COLUMNS, and may have `_type` and MARKS. To be called
        where the stack is deep enough: sluice.runtime.deeper."""
        texts, keys = (rows[name].cast(pa.binary()).to_pylist() for name in COLUMNS[:2])
        headers = rows["_headers"].to_pylist() if self._by_header else repeat(None)
        kinds: list[Any] = (
            rows["_type"].to_pylist() if "_type" in rows.schema.names else [None] * rows.num_rows
        )
        opened = are_events(rows, [mark for mark in MARKS if mark in rows.schema.names])
        erased = [
            (values := self._of(kind)) is not None and values.has(key, text, no_type, pairs, is_event)
            for kind, key, text, pairs, is_event in zip(kinds, keys, texts, headers, opened, strict=False)
        ]
        return np.array(erased, bool)

    def _of(self, kind: str | None) -> ErasedValues | None:
        """Returns what is erased of rows of a type, or of what has none."""
        if kind is not None and kind not in self._types:
            kind = ""
        if kind not in self._values:
            entries = [entry for entry in self._entries if kind is None or entry.type in ("", kind)]
            self._values[kind] = ErasedValues(self._erasures, entries) if entries else None
        return self._values[kind]


# Finds an erased value at any place in bytes that are no event: as they are, unescaped, percent-decoded.
#
# In a text it is no part of a longer word: `user-1` is not in `user-12`. In other bytes what stands before it
# may be a length.
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_SHORT = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}


class Anywhere:
    """The values of some entries that are long enough, by their lengths."""

    def __init__(self, erasures: ErasureList, values: Sequence[AskedValue]) -> None:
        self._digest = erasures.digest
        self._by_length: dict[int, dict[int, set[str]]] = {}
        for value in values:
            if value.bytes >= SHORTEST:
                probes = self._by_length.setdefault(value.bytes, {})
                probes.setdefault(value.probe, set()).add(value.digest)
        self._weights = np.array(probe_weights(erasures.salt) if self._by_length else (), np.uint64)

    def has(self, text: bytes) -> bool:
        return bool(self._by_length) and any(self._in(form) for form in forms_of(text))

    def _in(self, text: bytes) -> bool:
        is_text = _is_text(text)
        sums = np.zeros(len(text) + 1, np.uint64)
        np.cumsum(self._weights[np.frombuffer(text, np.uint8)], out=sums[1:])
        for length, digests_by_probe in self._by_length.items():
            if length > len(text):
                continue
            probes = (sums[length:] - sums[:-length]) % np.uint64(PROBES)
            for start in np.flatnonzero(np.isin(probes, [*digests_by_probe])).tolist():
                if is_text and _within_word(text, start, start + length):
                    continue
                if self._digest(text[start : start + length]) in digests_by_probe[int(probes[start])]:
                    return True
        return False


def _is_text(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(text) is None


def _within_word(text: bytes, start: int, until: int) -> bool:
    """Returns whether a letter or a digit goes on before or after what is a letter or a digit itself."""
    before = start > 0 and text[start - 1 : start].isalnum() and text[start : start + 1].isalnum()
    return before or (text[until : until + 1].isalnum() and text[until - 1 : until].isalnum())


def forms_of(text: bytes) -> Iterator[bytes]:
    """Yields the bytes, and what they are without JSON's escapes and without those of addresses."""
    yield text
    if b"\\" in text:
        yield _ESCAPE.sub(_character, text)
    if b"%" in text:
        yield unquote_to_bytes(text)


def _character(found: re.Match[bytes]) -> bytes:
    if found[1] is None:
        return _SHORT.get(found[2], found[2])
    return chr(int(found[1], 16)).encode(errors="replace")
