"""Reads rows of the lake's files as plain Python values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_ROWS_AT_ONCE = 8_192
_PLACE: dict[str, pa.DataType] = {
    "_cluster": pa.string(),
    "_topic": pa.string(),
    "_partition": pa.int32(),
    "_offset": pa.int64(),
}
_NEEDED = ("_payload", "_timestamp", *_PLACE)
HEADERS, TIME = "_headers", "_event_time"
_NAMES = ("_type", "_reason")
_MORE = (*_NAMES, "_row", TIME)
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True)
class FileColumns:
    """Some rows of a file, column by column. A file of events has no `reasons`, one of rejected records no
    `types` and no `times`; `numbers` is None where messages are no arrays. `stamps` and `times` are in ms
    since the epoch."""

    payloads: Sequence[bytes | None]
    clusters: Sequence[str]
    topics: Sequence[str]
    partitions: Sequence[int]
    offsets: Sequence[int]
    stamps: Sequence[int | None]
    types: Sequence[str] | None
    reasons: Sequence[str] | None
    numbers: Sequence[int | None] | None
    headers: Sequence[list[dict[str, Any]] | None] | None
    times: Sequence[int | None] | None

    def __len__(self) -> int:
        return len(self.offsets)


def read(file: pq.ParquetFile, headers: bool = False) -> Iterator[FileColumns]:
    """Yields all rows of a file, some at once. Raises pyarrow's ArrowException and OSError for a damaged
    one."""
    names = set(file.schema_arrow.names)
    columns = [*_NEEDED, *(name for name in _MORE if name in names), *([HEADERS] if headers else [])]
    for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
        yield rows_of(batch)


def rows_of(batch: pa.RecordBatch | pa.Table) -> FileColumns:
    """Raises pyarrow's ArrowException for rows that are none of the lake's."""
    names = set(batch.schema.names)

    def maybe(name: str, kind: pa.DataType, whole: bool = False) -> list[Any] | None:
        return _values(batch, name, kind, whole) if name in names else None

    clusters, topics, partitions, offsets = (
        _values(batch, name, kind, whole=True) for name, kind in _PLACE.items()
    )
    stamps = _values(batch, "_timestamp", pa.int64())
    types, reasons = (maybe(name, pa.string(), whole=True) for name in _NAMES)
    numbers, headers = maybe("_row", pa.int32()), maybe(HEADERS, _HEADERS)
    return FileColumns(
        payloads_of(batch),
        clusters,
        topics,
        partitions,
        offsets,
        stamps,
        types,
        reasons,
        numbers,
        headers,
        None if types is None else _values(batch, TIME, pa.int64()),
    )


def payloads_of(batch: pa.RecordBatch | pa.Table) -> list[bytes | None]:
    """Raises pyarrow's ArrowException where the rows have none."""
    return _values(batch, "_payload", pa.binary())


def _values(batch: pa.RecordBatch | pa.Table, name: str, kind: pa.DataType, whole: bool = False) -> list[Any]:
    """`whole`: the column has no nulls."""
    if name not in batch.schema.names:
        raise pa.ArrowInvalid(f"it has no column {name}")
    column: Any = batch.column(name).cast(kind)
    column.validate(full=True)
    if whole and column.null_count:
        raise pa.ArrowInvalid(f"{column.null_count:,} rows have no {name}")
    values: list[Any] = column.to_pylist()
    return values
