"""Reads rows of the lake's files as plain Python values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_ROWS_AT_ONCE = 8_192
_PLACE = ("_cluster", "_topic", "_partition", "_offset")
_NEEDED = ("_payload", *_PLACE)
HEADERS, TIME = "_headers", "_event_time"
_MORE = ("_type", "_reason", "_row", "_timestamp", TIME)


@dataclass(frozen=True)
class FileColumns:
    """Some rows of a file, column by column. A file of events has no `reasons`, one of rejected records no
    `types` and no `times`; `numbers` is None where messages are no arrays, `times` in files of older
    versions. `stamps` and `times` are in ms since the epoch."""

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
    times: Sequence[int | None] | None = None

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
    names = set(batch.schema.names)

    def column(name: str) -> list[Any] | None:
        return batch.column(name).to_pylist() if name in names else None

    payloads = batch.column("_payload").cast(pa.binary()).to_pylist()
    stamps = batch.column("_timestamp").cast(pa.int64()).to_pylist()
    clusters, topics, partitions, offsets = (column(name) or [] for name in _PLACE)
    more = [column(name) for name in ("_type", "_reason", "_row", HEADERS)]
    more.append(batch.column(TIME).cast(pa.int64()).to_pylist() if TIME in names else None)
    return FileColumns(payloads, clusters, topics, partitions, offsets, stamps, *more)
