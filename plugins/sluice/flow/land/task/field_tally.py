"""Counts the top-level fields of the rows that one task lands, by slice and type.

Memory is bounded whatever the events hold. Beyond MOST_BYTES the slice with most fields keeps half of them,
then a quarter …: those that a checksum of type and name decides, so that tasks which keep less than others
still have the counts of the same fields (`thinned`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa

from sluice.flow.land.task import columns
from sluice.flow.land.task.records import SLICE, TYPE, numbers_of, runs_of
from sluice.flow.land.task.reports import SeenFields
from sluice.manifest import KINDS, NAME_CHARACTERS, FieldSeen, TypeFields
from sluice.slices import Slice

MOST_BYTES = 64 << 20
_ENTRY_BYTES = 300  # of a type or a field: its numbers, and its place in the dictionary
_PLACES = len(KINDS)
_FEW, _AT_ONCE, _AT_ONCE_BYTES = 64, 1_000, 8 << 20
"""Events of so many batches are counted at once: few of a large unit's batch are."""
_MOST_THINNED = 32
ALL_OTHERS = "*"
"""In a set of types: those that have no table of their own."""

Edges = Mapping[tuple[str, int], np.ndarray]


@dataclass
class _Type:
    rows: int = 0
    others: int = 0
    fields: dict[str, list[int]] = field(default_factory=dict)
    """Rows by kind, then the sum of places."""


@dataclass
class _Slice:
    types: dict[int, _Type] = field(default_factory=dict)
    thinned: int = 0
    bytes: int = 0


class FieldTally:
    """One per task; `names[code]` is the type of a code. `exact`: types of which all rows are inspected."""

    def __init__(
        self, edges: Edges, names: Sequence[str], configured: Collection[str], exact: Collection[str]
    ) -> None:
        self._edges, self._steps = edges, steps_of(edges)
        self._sample: tuple[object, np.ndarray] = (None, np.empty(0, np.int64))
        self._names, self._configured, self._exact = names, frozenset(configured), frozenset(exact)
        self._exact_codes = np.empty(0, bool)
        self._slices: dict[int, _Slice] = {}
        self._bytes = 0
        self._waiting: list[tuple[int, int, bytes]] = []
        self._waiting_bytes = 0

    def add(self, rows: pa.Table) -> None:
        """Counts rows that land, of one topic and partition and in the order of their offsets."""
        slices, types = numbers_of(rows, SLICE), numbers_of(rows, TYPE)
        inspected = self._inspected(columns.place_of(rows), numbers_of(rows, "_offset"), slices, types)
        if not len(inspected):
            return
        texts = _texts(rows["_payload"], inspected)
        self._waiting += zip(slices[inspected].tolist(), types[inspected].tolist(), texts, strict=True)
        self._waiting_bytes += sum(map(len, texts))
        if len(self._waiting) >= _AT_ONCE or self._waiting_bytes >= _AT_ONCE_BYTES:
            self._count()

    def _count(self) -> None:
        met = Counter((number, code, shape_of(text)) for number, code, text in self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        for (number, code, shape), count in met.items():
            self._add(number, code, shape, count)
        while self._bytes > MOST_BYTES and self._thin():
            pass

    def report(self, cluster: str, slices: Sequence[Slice]) -> tuple[SeenFields, ...]:
        self._count()
        return tuple(
            SeenFields(
                cluster, slices[number].id, slice_tally.thinned, tuple(self._types(number, slice_tally))
            )
            for number, slice_tally in self._slices.items()
        )

    def _inspected(
        self, topic_partition: tuple[str, int], offsets: np.ndarray, slices: np.ndarray, types: np.ndarray
    ) -> np.ndarray:
        one_slice = slices[0] == slices[-1]
        edges = [0, len(slices)] if one_slice else runs_of(slices)
        parts = [self._sampled(topic_partition, offsets, int(slices[a]), a, b) for a, b in pairwise(edges)]
        rows: np.ndarray = parts[0] if one_slice else np.concatenate(parts)
        if not self._exact or len(rows) == len(offsets):
            return rows
        return np.union1d(rows, np.flatnonzero(self._is_exact()[types]))

    def _sampled(
        self, topic_partition: tuple[str, int], offsets: np.ndarray, number: int, start: int, until: int
    ) -> np.ndarray:
        """Returns which rows are inspected of those from `start` to `until`, all of slice `number`."""
        if self._steps[number] == 1:
            return np.arange(start, until)
        key, slice_offsets = (topic_partition, number), offsets[start:until]
        if self._sample[0] != key:
            first, last = self._edges[topic_partition][number : number + 2].tolist()
            self._sample = (key, chosen(first, last - 1, self._steps[number]))
        return start + rows_at(slice_offsets, self._sample[1])

    def _is_exact(self) -> np.ndarray:
        judged = len(self._exact_codes)
        if judged < len(self._names):
            new = [self._exactly(name) for name in self._names[judged:]]
            self._exact_codes = np.concatenate((self._exact_codes, np.array(new, bool)))
        return self._exact_codes

    def _exactly(self, name: str) -> bool:
        return name in self._exact or (ALL_OTHERS in self._exact and name not in self._configured)

    def _add(self, number: int, code: int, shape: EventShape, rows: int) -> None:
        slice_tally, name = self._slices.setdefault(number, _Slice()), self._names[code]
        seen = slice_tally.types.get(code)
        if seen is None:
            if not (name in self._configured or keeps(slice_tally.thinned, name)):
                return
            seen = slice_tally.types[code] = _Type()
            self._weigh(slice_tally, name)
        seen.rows += rows
        for position, (text, kind) in enumerate(zip(*shape, strict=True)):
            counts = seen.fields.get(text)
            if counts is None:
                if len(text) > NAME_CHARACTERS or not keeps(slice_tally.thinned, name, text):
                    seen.others += rows
                    continue
                counts = seen.fields[text] = [0] * (_PLACES + 1)
                self._weigh(slice_tally, text)
            counts[KIND_OF[kind]] += rows
            counts[_PLACES] += position * rows

    def _weigh(self, slice_tally: _Slice, text: str, sign: int = 1) -> None:
        weight = sign * (_ENTRY_BYTES + len(text))
        slice_tally.bytes += weight
        self._bytes += weight

    def _thin(self) -> bool:
        """Drops half of the fields of the slice with most. Returns False when nothing more can be dropped."""
        slice_tally = max(self._slices.values(), key=lambda tally: tally.bytes)
        slice_tally.thinned += 1
        for code, seen in list(slice_tally.types.items()):
            name = self._names[code]
            if not (name in self._configured or keeps(slice_tally.thinned, name)):
                for text in (name, *seen.fields):
                    self._weigh(slice_tally, text, -1)
                del slice_tally.types[code]
                continue
            for text in [text for text in seen.fields if not keeps(slice_tally.thinned, name, text)]:
                seen.others += sum(seen.fields.pop(text)[:_PLACES])
                self._weigh(slice_tally, text, -1)
        return slice_tally.thinned < _MOST_THINNED

    def _types(self, number: int, slice_tally: _Slice) -> Iterator[TypeFields]:
        for code, seen in slice_tally.types.items():
            name = self._names[code]
            fields = {text: _seen(counts) for text, counts in seen.fields.items()}
            exact = self._steps[number] == 1 or self._exactly(name)
            yield TypeFields(name, seen.rows, exact, fields, seen.others)


def _texts(payloads: pa.ChunkedArray[Any], rows: np.ndarray) -> list[Any]:
    """Returns the payloads of rows. A few are read one by one: Arrow's call takes as long as many."""
    if len(rows) <= _FEW:
        return [payloads[row].as_py() for row in rows.tolist()]
    return payloads.take(pa.array(rows)).to_pylist()


def steps_of(edges: Edges) -> list[int]:
    """Returns by the slice's number: one of how many offsets is inspected."""
    offsets = np.sum([np.diff(starts) for starts in edges.values()], axis=0)
    return [step_of(int(count)) for count in offsets]


def keeps(thinned: int, type_name: str, name: str | None = None) -> bool:
    """Returns whether a type, or a field of it, is among the `2 ** -thinned` of all that are kept."""
    key = type_name if name is None else f"{type_name}\0{name}"
    return not thinned or crc32(key.encode()) >> (32 - thinned) == 0


def _seen(counts: Sequence[int]) -> FieldSeen:
    kinds = {kind: rows for kind, rows in zip(KINDS, counts, strict=False) if rows}
    return FieldSeen(sum(kinds.values()), kinds, counts[_PLACES])


# Which records are inspected for their fields: the same ones whatever task reads them, and however often.
WHOLE_UNIT = 10_000
"""A unit of so many offsets is inspected whole."""
_SHARE, _MOST = 500, 100_000


def step_of(offsets: int) -> int:
    """Returns one of how many offsets of a unit is inspected: 10,000 of them and one of 500 more, at most
    100,000."""
    return -(-offsets // min(WHOLE_UNIT + offsets // _SHARE, _MOST)) or 1


def chosen(first: int, last: int, step: int) -> np.ndarray:
    """Returns the offsets in `[first, last]` that are inspected: one of each `step`, at a place that its
    number decides. A fixed distance would meet only some types of a producer that writes them in turn."""
    if step == 1:
        return np.arange(first, last + 1, dtype=np.int64)
    blocks = np.arange(first // step, last // step + 1, dtype=np.int64)
    offsets: np.ndarray = blocks * step + (_mixed(blocks) % np.uint64(step)).astype(np.int64)
    return offsets[(offsets >= first) & (offsets <= last)]


def rows_at(offsets: np.ndarray, inspected: np.ndarray) -> np.ndarray:
    """Returns the positions in `offsets` of those that are `inspected`. Both ascend; `offsets` may repeat
    one."""
    begin, end = int(offsets[0]), int(offsets[-1]) + 1
    inspected = inspected[slice(*np.searchsorted(inspected, (begin, end)).tolist())]
    if end - begin == len(offsets) and (np.diff(offsets) == 1).all():
        return inspected - begin
    first, until = np.searchsorted(offsets, inspected, "left"), np.searchsorted(offsets, inspected, "right")
    return ranges(first, until - first)


def ranges(first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Joins ranges of `counts` numbers each, of which every one begins at its `first`.

    >>> ranges(np.array([5, 0, 8]), np.array([2, 0, 3])).tolist()
    [5, 6, 8, 9, 10]
    """
    before = np.cumsum(counts) - counts
    numbers: np.ndarray = np.repeat(first - before, counts) + np.arange(counts.sum())
    return numbers


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Applies SplitMix64's finalizer.

    Source: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014.
    """
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


# An event's shape: the names of its top-level fields, in their order, and the kind of each value.
EventShape = tuple[tuple[str, ...], tuple[type, ...]]
"""Kinds are the types of decoded values: KIND_OF numbers them."""

KIND_OF: dict[type, int] = {
    kind: KINDS.index(name)
    for kind, name in (
        (type(None), "null"),
        (bool, "boolean"),
        (int, "integer"),
        (float, "number"),
        (str, "string"),
        (list, "array"),
        (dict, "object"),
    )
}

_decode = msgspec.json.Decoder().decode
# Numbers beyond a double's range, integers of thousands of digits.
_ANY = json.JSONDecoder(parse_int=lambda _: 0, parse_float=lambda _: 0.0)


def shape_of(payload: bytes) -> EventShape:
    """Returns the shape of a JSON object that has landed."""
    try:
        event: dict[str, Any] = _decode(payload)
    except (msgspec.MsgspecError, ValueError):
        event = _ANY.decode(payload.decode())
    return tuple(event), tuple(map(type, event.values()))
