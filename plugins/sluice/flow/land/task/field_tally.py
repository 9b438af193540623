"""Counts the top-level fields of the rows that one task lands, by slice and type.

Memory is bounded whatever the events hold. Beyond MOST_BYTES the slice with most fields keeps half of them,
then a quarter …: those that a checksum of type and name decides, so that tasks which keep less than others
still have the counts of the same fields (`thinned`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from sluice.flow.land.task.field_sample import chosen, rows_at, step_of
from sluice.flow.land.task.read_counts import runs_of
from sluice.flow.land.task.reports import SeenFields
from sluice.flow.land.task.shapes import KIND_OF, Shape, shape_of
from sluice.slices import Slice
from sluice.type_fields import KINDS, NAME_CHARACTERS, FieldSeen, TypeFields

MOST_BYTES = 64 << 20
_ENTRY_BYTES = 300  # of a type or a field: its numbers, and its place in the dictionary
_PLACES = len(KINDS)
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
        self._steps = steps_of(edges)
        self._names, self._configured, self._exact = names, frozenset(configured), frozenset(exact)
        self._exact_codes = np.empty(0, bool)
        self._slices: dict[int, _Slice] = {}
        self._bytes = 0

    def add(
        self, payloads: pa.ChunkedArray[Any], offsets: np.ndarray, slices: np.ndarray, types: np.ndarray
    ) -> None:
        """Rows that land, of one partition and in the order of their offsets, and the numbers of slice and
        type of each."""
        rows = self._inspected(offsets, slices, types)
        if not len(rows):
            return
        texts: list[Any] = payloads.take(pa.array(rows)).to_pylist()
        met = Counter(zip(slices[rows].tolist(), types[rows].tolist(), map(shape_of, texts), strict=True))
        for (number, code, shape), count in met.items():
            self._add(number, code, shape, count)
        while self._bytes > MOST_BYTES and self._thin():
            pass

    def report(self, cluster: str, slices: Sequence[Slice]) -> tuple[SeenFields, ...]:
        return tuple(
            SeenFields(cluster, slices[number].id, own.thinned, tuple(self._types(number, own)))
            for number, own in self._slices.items()
        )

    def _inspected(self, offsets: np.ndarray, slices: np.ndarray, types: np.ndarray) -> np.ndarray:
        parts = [self._sampled(offsets, start, until, slices) for start, until in pairwise(runs_of(slices))]
        rows: np.ndarray = np.concatenate(parts) if len(parts) > 1 else parts[0]
        if not self._exact or len(rows) == len(offsets):
            return rows
        return np.union1d(rows, np.flatnonzero(self._is_exact()[types]))

    def _sampled(self, offsets: np.ndarray, start: int, until: int, slices: np.ndarray) -> np.ndarray:
        if start == until:
            return np.empty(0, np.int64)
        step = self._steps[int(slices[start])]
        if step == 1:
            return np.arange(start, until)
        own = offsets[start:until]
        return start + rows_at(own, chosen(int(own[0]), int(own[-1]), step))

    def _is_exact(self) -> np.ndarray:
        known = len(self._exact_codes)
        if known < len(self._names):
            new = [self._exactly(name) for name in self._names[known:]]
            self._exact_codes = np.concatenate((self._exact_codes, np.array(new, bool)))
        return self._exact_codes

    def _exactly(self, name: str) -> bool:
        return name in self._exact or (ALL_OTHERS in self._exact and name not in self._configured)

    def _add(self, number: int, code: int, shape: Shape, rows: int) -> None:
        own, name = self._slices.setdefault(number, _Slice()), self._names[code]
        seen = own.types.get(code)
        if seen is None:
            if not (name in self._configured or keeps(own.thinned, name)):
                return
            seen = own.types[code] = _Type()
            self._weigh(own, name)
        seen.rows += rows
        for place, (text, kind) in enumerate(zip(*shape, strict=True)):
            counts = seen.fields.get(text)
            if counts is None:
                if len(text) > NAME_CHARACTERS or not keeps(own.thinned, name, text):
                    seen.others += rows
                    continue
                counts = seen.fields[text] = [0] * (_PLACES + 1)
                self._weigh(own, text)
            counts[KIND_OF[kind]] += rows
            counts[_PLACES] += place * rows

    def _weigh(self, own: _Slice, text: str, sign: int = 1) -> None:
        weight = sign * (_ENTRY_BYTES + len(text))
        own.bytes += weight
        self._bytes += weight

    def _thin(self) -> bool:
        """False when nothing more can be dropped."""
        own = max(self._slices.values(), key=lambda one: one.bytes)
        own.thinned += 1
        for code, seen in list(own.types.items()):
            name = self._names[code]
            if not (name in self._configured or keeps(own.thinned, name)):
                for text in (name, *seen.fields):
                    self._weigh(own, text, -1)
                del own.types[code]
                continue
            for text in [text for text in seen.fields if not keeps(own.thinned, name, text)]:
                seen.others += sum(seen.fields.pop(text)[:_PLACES])
                self._weigh(own, text, -1)
        return own.thinned < _MOST_THINNED

    def _types(self, number: int, own: _Slice) -> Iterator[TypeFields]:
        for code, seen in own.types.items():
            name = self._names[code]
            fields = {text: _seen(counts) for text, counts in seen.fields.items()}
            exact = self._steps[number] == 1 or self._exactly(name)
            yield TypeFields(name, seen.rows, exact, fields, seen.others)


def steps_of(edges: Edges) -> list[int]:
    """By the slice's number: one of how many offsets is inspected."""
    offsets = np.sum([np.diff(own) for own in edges.values()], axis=0)
    return [step_of(int(count)) for count in offsets]


def keeps(thinned: int, type_name: str, name: str | None = None) -> bool:
    """Whether a type, or a field of it, is among the `2 ** -thinned` of all that are kept."""
    key = type_name if name is None else f"{type_name}\0{name}"
    return not thinned or crc32(key.encode()) >> (32 - thinned) == 0


def _seen(counts: Sequence[int]) -> FieldSeen:
    kinds = {kind: rows for kind, rows in zip(KINDS, counts, strict=False) if rows}
    return FieldSeen(sum(kinds.values()), kinds, counts[_PLACES])
