"""The fields by which rows are counted, as the JSON text that stands in the payload."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from sluice.clients.lake.base import Lake
from sluice.config.counts import Counts
from sluice.field_path import Absent, FieldPath, before, header_of, in_structs, names_of, spellings
from sluice.flow.land.task.columns import last_values
from sluice.flow.land.task.records import HOUR, SLICE, TYPE
from sluice.flow.land.task.reports import WrittenFile
from sluice.flow.land.task.times import hour_name
from sluice.flow.land.task.writer import AttemptFiles, FilePlace

_MOST_DIGITS = 20  # of an integer of 64 bits, its sign among them
_LIKELY_LARGE = re.compile(rb"\d{19}|[eE]\+?0*\d{3}")
NULL = b"null"  # a missing field counts as one that is null
_ABSENT = msgspec.Raw(NULL)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])

_Tree = dict[str, Any]


class CountedTexts:
    """`of` gives a column for each path, of the event or a header: the text of each row's value. Who counts
    rows and who takes rows off the counts read them by it alike."""

    def __init__(self, paths: Iterable[str]) -> None:
        named = [*paths]
        self._headers = [header_of(names_of(path)) for path in named]
        fields = zip(named, self._headers, strict=True)
        self._fields = FieldTexts(path for path, header in fields if header is None)

    def of(self, rows: pa.Table | pa.RecordBatch, payloads: Sequence[bytes]) -> list[list[bytes]]:
        """`payloads` are those of the rows."""
        of_events = iter(self._fields.read(payloads))
        return [next(of_events) if name is None else header_texts(rows, name) for name in self._headers]


class FieldTexts:
    """`read` gives a column for each path of the event. Values are not cast: `1` and `1.0` are two; one that
    is no object has no fields."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths: list[FieldPath] = [names_of(path) for path in paths]
        spelled = (True, False) if in_structs(self._paths) else ()
        self._readers = [_Reader(self._paths, plain=plain) for plain in spelled]

    def read(self, payloads: Sequence[bytes]) -> list[list[bytes]]:
        if not self._paths:
            return []
        for reader in self._readers:
            try:
                events = [*map(reader.decode, payloads)]
            except msgspec.DecodeError:
                continue
            return [[*map(get, events)] for get in reader.getters]
        # Somewhere a value is no object where a path runs through it, or a name is not for msgspec.
        rows = [self._slowly(payload) for payload in payloads]
        return [list(column) for column in zip(*rows, strict=True)]

    def _slowly(self, payload: bytes) -> list[bytes]:
        found = ((_find(payload, keys) for keys in spellings(path)) for path in self._paths)
        return [next((text for text in texts if text != NULL), NULL) for texts in found]


def header_texts(rows: pa.Table | pa.RecordBatch, name: str) -> list[bytes]:
    """Returns each row's header as a JSON string; what is not UTF-8 in it becomes U+FFFD."""
    column = rows["_headers"]
    headers = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values: list[Any] = last_values(headers, name).to_pylist()
    return [NULL if v is None else msgspec.json.encode(v.decode(errors="replace")) for v in values]


def canonical(text: bytes) -> bytes:
    """Returns the same for the same string, however it is escaped. A value with a number that ClickHouse
    cannot parse is the string of its text: the row of counts would be no JSON there, and its hour could not
    be done."""
    if text.startswith(b'"'):
        return msgspec.json.encode(msgspec.json.decode(text)) if b"\\" in text else text
    if _LIKELY_LARGE.search(text) and not _readable(text):
        return msgspec.json.encode(text.decode())
    return text


def _readable(text: bytes) -> bool:
    try:
        _NUMBERS.decode(text.decode())
    except OverflowError:
        return False
    return True


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS or not -(1 << 63) <= int(text) < 1 << 64:
        raise OverflowError
    return int(text)


def _double(text: str) -> float:
    if not math.isfinite(float(text)):
        raise OverflowError
    return float(text)


_NUMBERS = json.JSONDecoder(parse_int=_integer, parse_float=_double)


def _find(payload: bytes, path: FieldPath) -> bytes:
    raw: bytes | msgspec.Raw = payload
    for name in path:
        try:
            members = _OBJECT.decode(raw)
        except msgspec.ValidationError:
            return NULL
        raw = members.get(name, _ABSENT)
    return bytes(raw)


class _Reader:
    """Reads events of which none has a key with a dot that may count (`plain`), or any."""

    def __init__(self, paths: Sequence[FieldPath], plain: bool) -> None:
        tree: _Tree = {}
        for keys in (keys for path in paths for keys in ([path] if plain else spellings(path))):
            _node(tree, keys[:-1]).setdefault(keys[-1], {})
        for other in (other for path in paths for other in before(path, path) if plain):
            _node(tree, other[:-1])[other[-1]] = Absent
        self.decode: Callable[[bytes], Any] = msgspec.json.Decoder(_struct(tree)).decode
        self.getters = [
            _first([_getter(tree, keys) for keys in ([path] if plain else spellings(path))]) for path in paths
        ]


def _node(tree: _Tree, keys: FieldPath) -> _Tree:
    for name in keys:
        tree = tree.setdefault(name, {})
    return tree


def _struct(tree: _Tree) -> type[msgspec.Struct]:
    members = [_member(f"m{number}", below) for number, below in enumerate(tree.values())]
    names = {f"m{number}": name for number, name in enumerate(tree)}
    return msgspec.defstruct("Event", members, rename=names, gc=False)


def _member(attribute: str, below: Any) -> tuple[str, Any, Any]:
    if below is Absent:
        return attribute, Absent, None
    return (attribute, _struct(below) | None, None) if below else (attribute, msgspec.Raw, _ABSENT)


def _first(getters: Sequence[Callable[[Any], bytes]]) -> Callable[[Any], bytes]:
    """Returns what takes the first spelling with a value."""
    *earlier, last = getters
    if not earlier:
        return last

    def get(event: Any) -> bytes:
        for getter in earlier:
            if (text := getter(event)) != NULL:
                return text
        return last(event)

    return get


def _getter(tree: _Tree, path: FieldPath) -> Callable[[Any], bytes]:
    names = []
    for part in path:
        names.append(f"m{list(tree).index(part)}")
        tree = tree[part]
    if len(names) == 1:
        leaf = attrgetter(names[0])
        return lambda event: bytes(leaf(event))
    *inner, last = names

    def reach(event: Any) -> bytes:
        for name in inner:
            event = getattr(event, name)
            if event is None:
                return NULL
        return bytes(getattr(event, last))

    return reach


# Counts the rows that one task lands: partial sums, which are files of the attempt like all others.
#
# So they are dropped with their slice when a record of it was cut, and a task that is tried again, or twice
# at once, counts once: only the files count that the report of one success names.
MOST_BYTES = 64 << 20
_KEY_BYTES = 250  # of a key beside its texts: a tuple, its numbers, its place in the dictionary

_COLUMNS: list[pa.Field[Any]] = [pa.field("key", pa.binary()), pa.field("count", pa.int64())]
PARTIAL = pa.schema(_COLUMNS)
"""`key` is a row of counts as JSON without its end: `{"hour":…,"type":…,"country":…`; files are sorted."""


@dataclass
class _Sums:
    """By (slice's number, hour, type's code, text of each field …)."""

    spec: Counts
    texts: CountedTexts
    sums: Counter[tuple[Any, ...]] = field(default_factory=Counter)


class Tally:
    """One per task; `names[code]` is the type of a code. Memory is bounded whatever the number of keys: at
    MOST_BYTES of them the sums are written, and counting begins again."""

    def __init__(self, specs: Sequence[Counts], names: Sequence[str], slice_ids: Sequence[str]) -> None:
        self._tables = [_Sums(spec, CountedTexts(spec.by.values())) for spec in specs]
        self._names, self._slice_ids = names, slice_ids
        self._bytes = 0

    @property
    def full(self) -> bool:
        return self._bytes >= MOST_BYTES

    def add(self, rows: pa.Table) -> None:
        """Counts rows that land."""
        if not self._tables:
            return
        texts: list[Any] = rows["_payload"].to_pylist()
        keys = [rows[name].to_pylist() for name in (SLICE, HOUR, TYPE)]
        for table in self._tables:
            columns = table.texts.of(rows, texts)
            before = len(table.sums)
            table.sums.update(zip(*keys, *columns, strict=True))
            new = len(table.sums) - before
            if new:
                longest = sum(max(map(len, column)) for column in columns)
                self._bytes += new * (_KEY_BYTES + longest)

    def write(self, lake: Lake, cluster: str, attempt: str, name: str) -> tuple[WrittenFile, ...]:
        """Returns what was counted, a file for each slice and table; `name` is unique in the attempt.

        Raises what the lake raises.
        """
        self._bytes = 0
        if not any(table.sums for table in self._tables):
            return ()
        with AttemptFiles(lake, cluster, attempt, name) as files:
            for table in self._tables:
                self._write(table, files)
            return files.finish()

    def _write(self, table: _Sums, files: AttemptFiles) -> None:
        sums, table.sums = table.sums, Counter()
        by_slice: dict[int, list[tuple[bytes, int]]] = {}
        types: dict[int, Counter[str]] = {}
        for (number, hour, code, *texts), count in sums.items():
            kind = self._names[code]
            if table.spec.counts(kind):
                key = counted_key(hour_name(hour), kind, dict(zip(table.spec.by, texts, strict=True)))
                by_slice.setdefault(number, []).append((key, count))
                types.setdefault(number, Counter())[kind] += count
        for number, rows in by_slice.items():
            keys, counts = zip(*sorted(rows), strict=True)
            place = FilePlace(self._slice_ids[number], table.spec.table, "")
            files.write(place, pa.table([keys, counts], schema=PARTIAL), types[number])


def counted_key(hour: str, kind: str, texts: dict[str, bytes]) -> bytes:
    """Returns the key of a row of counts; `hour` such as `2026-11-20T10`."""
    parts = [b'{"hour":"%s:00:00Z","type":%s' % (hour.encode(), msgspec.json.encode(kind))]
    parts += (b'"%s":%s' % (column.encode(), canonical(text)) for column, text in texts.items())
    return b",".join(parts)
