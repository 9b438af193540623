"""Gathers rows until they fill a bound, and sorts them by the file that each goes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

ROWS_GATHERED = 250_000
BYTES_GATHERED = 64 << 20
_LARGEST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Codes:
    """Per row the slice's number, the type's number or OVERFLOW, and the event hour since the epoch."""

    slices: np.ndarray
    types: np.ndarray
    hours: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence[Codes]) -> Codes:
        columns = ([getattr(part, name) for part in parts] for name in ("slices", "types", "hours"))
        return cls(*map(np.concatenate, columns))


@dataclass(frozen=True)
class BufferedRows:
    """Rows that go to one file, in the order in which they came."""

    slice: int
    type: int
    hour: int
    rows: pa.Table


class Gathering:
    def __init__(self) -> None:
        self._parts: list[tuple[pa.Table, Codes]] = []
        self._count = self._bytes = 0

    def add(self, rows: pa.Table, codes: Codes) -> None:
        if rows.num_rows:
            self._parts.append((rows, codes))
            self._count += rows.num_rows
            self._bytes += rows.nbytes

    @property
    def full(self) -> bool:
        return self._count >= ROWS_GATHERED or self._bytes >= BYTES_GATHERED

    def drain(self) -> Iterator[BufferedRows]:
        """Yields all rows by slice, type and hour; the gathering is empty afterwards."""
        parts, self._parts = self._parts, []
        self._count = self._bytes = 0
        if not parts:
            return
        rows = pa.concat_tables([table for table, _ in parts])
        codes = Codes.joined([codes for _, codes in parts])
        del parts
        order, runs = sort(codes)
        if order is not None:
            rows = rows.take(pa.array(order))
        start = 0
        for slice_number, type_code, hour, count in runs:
            yield BufferedRows(slice_number, type_code, hour, rows.slice(start, count))
            start += count


def sort(codes: Codes) -> tuple[np.ndarray | None, list[tuple[int, int, int, int]]]:
    """Returns the stable order by (slice, type, hour), None where all are alike, and each with its rows."""
    columns = (codes.slices, codes.types, codes.hours)
    first_slice, first_type, first_hour = (int(column.min()) for column in columns)
    slices, types, hours = (int(column.max()) - int(column.min()) + 1 for column in columns)
    if slices * types * hours > _LARGEST and types > len(codes.types):
        return _sort_by_rank(codes)
    combined = (codes.slices.astype(np.int64) - first_slice) * types + (
        codes.types.astype(np.int64) - first_type
    )
    combined = combined * hours + (codes.hours - first_hour)
    encoded = pa.array(combined).dictionary_encode()
    distinct = encoded.dictionary.to_numpy()
    # numpy sorts 16 bits by radix, many times faster than the combined numbers.
    rank = np.empty(len(distinct), np.uint16 if len(distinct) < 1 << 16 else np.int64)
    rank[np.argsort(distinct)] = np.arange(len(distinct))
    ranks = rank[encoded.indices.to_numpy()]
    order = None if len(distinct) == 1 else np.argsort(ranks, kind="stable")
    counts = np.bincount(ranks, minlength=len(distinct)).tolist()
    places = zip(np.sort(distinct).tolist(), counts, strict=True)
    return order, [
        (c // hours // types + first_slice, c // hours % types + first_type, c % hours + first_hour, n)
        for c, n in places
    ]


def _sort_by_rank(codes: Codes) -> tuple[np.ndarray | None, list[tuple[int, int, int, int]]]:
    """Returns the same for type codes that lie too far apart to be one number with slice and hour."""
    types, ranks = np.unique(codes.types, return_inverse=True)
    order, runs = sort(replace(codes, types=ranks))
    return order, [(slice_number, int(types[rank]), hour, n) for slice_number, rank, hour, n in runs]
