"""The lake's columns: the event as it came, and where in Kafka it was.

`_event_time` is when the event happened; rejected records and traffic counts have none.
Where messages are arrays, `_row` numbers the rows of each (null for a message that could not be opened).
Where they are decoded, `_payload` is the event as JSON, and `_raw` keeps the message's own bytes. `_size` is
how many bytes a rejected record has that is too large to be kept; its other contents are null then.
Where messages are changes of rows, `_change` says how the event was made of one; it is null of a rejected
message as Kafka has it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
_Codec = Literal["gzip", "brotli", "lz4", "zstd", "snappy", "none"]
_NAME = pa.dictionary(pa.int32(), pa.string())

TIME = pa.timestamp("ms", "UTC")

_POSITION = [
    pa.field("_cluster", _NAME),
    pa.field("_topic", _NAME),
    pa.field("_partition", pa.int32()),
    pa.field("_offset", pa.int64()),
    pa.field("_timestamp", TIME),
    pa.field("_key", pa.binary()),
    pa.field("_headers", HEADERS),
]
_EVENT = [pa.field("_payload", pa.string()), pa.field("_type", _NAME)]
ROWS = pa.schema([*_EVENT, pa.field("_event_time", TIME), *_POSITION])
COUNTED = pa.schema([*_EVENT, *_POSITION])
SIZE = pa.field("_size", pa.int64())
REJECTED = pa.schema([pa.field("_payload", pa.binary()), pa.field("_reason", _NAME), *_POSITION, SIZE])

ROW = pa.int32()
_MORE: dict[str, pa.DataType] = {"_row": ROW, "_raw": pa.binary(), "_change": _NAME}

# The rest differs from row to row: a dictionary of it would be built only to be thrown away.
_DICTIONARIES = ["_type", "_reason", "_cluster", "_topic", "_partition", "_change"]
# Numbers that ascend or lie close together, stored as differences.
_DIFFERENCES = ["_offset", "_timestamp", "_event_time", "_row"]
# A reader that looks for a type, a time or a record skips files and row groups by these.
_STATISTICS = ["_type", "_event_time", "_timestamp", "_topic", "_partition", "_offset"]
# Of the others nothing is left to compress: in a small file that would take longer than all else.
_COMPRESSED = ["_payload", "_key", "_headers.list.element.key", "_headers.list.element.value", "_raw"]


def lengths(texts: Any) -> np.ndarray:
    """Returns the bytes of each value of a binary or string column; 0 of a null."""
    sizes: np.ndarray = pc.fill_null(pc.binary_length(texts), 0).to_numpy()
    return sizes


def like(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """Returns `schema`, and those of the optional columns that are among `names`."""
    return pa.schema([*schema, *(pa.field(name, kind) for name, kind in _MORE.items() if name in names)])


def empty(rows: pa.Table) -> frozenset[str]:
    """Returns the columns that hold nothing but nulls."""
    return frozenset(name for name in rows.column_names if rows[name].null_count == rows.num_rows)


def writer(
    sink: Path | pa.BufferOutputStream, schema: pa.Schema, plain: Collection[str] = ()
) -> pq.ParquetWriter:
    """Files are self-describing Parquet without Arrow's own schema: any reader sees plain columns. Those of
    `plain` are not compressed."""
    compressible = set(schema.names) - set(plain)
    compressed = [path for path in _COMPRESSED if path.partition(".")[0] in compressible]
    codecs: dict[str, _Codec] = dict.fromkeys(schema.names, "none")
    codecs |= dict.fromkeys(compressed, "zstd")
    dictionaries = [name for name in _DICTIONARIES if name in schema.names]
    return pq.ParquetWriter(
        sink,
        schema,
        compression=codecs,
        compression_level=dict.fromkeys(compressed, 1),
        use_dictionary=dictionaries,  # type: ignore[arg-type]  # the stubs know no list
        write_statistics=[name for name in _STATISTICS if name in schema.names],
        column_encoding={name: "DELTA_BINARY_PACKED" for name in _DIFFERENCES if name in schema.names},
        store_schema=False,
    )


def constant(value: str, rows: int) -> pa.Array[Any]:
    """Repeats `value` in each of `rows` rows, at the cost of a number."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32), pa.int32()), [value])


def names(codes: pa.Array[Any], of: Sequence[str]) -> pa.Array[Any]:
    return pa.DictionaryArray.from_arrays(codes, pa.array(of, pa.string()))


def place_of(rows: pa.Table) -> tuple[str, int]:
    """Returns the topic and the partition of rows that are all of one."""
    return rows["_topic"][0].as_py(), rows["_partition"][0].as_py()


# Record headers: as Spark hands them over, and as the lake keeps them.
# As an array of structs the headers take Spark longer to hand over than all else, even where there are
# none. As JSON they cost nothing then; `to_json` writes bytes in base64, as msgspec reads them.
EXPRESSION = "if(headers is null, null, to_json(headers))"


class _Header(msgspec.Struct, gc=False, omit_defaults=True):
    key: str
    value: bytes | None = None


_LIST = msgspec.json.Decoder(list[_Header])
_ENCODER = msgspec.json.Encoder()


def from_json(texts: pa.Array[Any]) -> pa.Array[Any]:
    """Returns lists of (key, value); null where a record has no headers."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), HEADERS)
    rows = [() if text is None else _LIST.decode(text) for text in texts.to_pylist()]
    offsets = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int32)
    keys = pa.array([header.key for row in rows for header in row], pa.string())
    values = pa.array([header.value for row in rows for header in row], pa.binary())
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pairs, type=HEADERS, mask=texts.is_null())


def to_json(headers: Sequence[tuple[str, bytes | None]]) -> str:
    """Returns one record's, as EXPRESSION hands them over."""
    return _ENCODER.encode([_Header(*header) for header in headers]).decode()


def last_values(headers: Any, name: str) -> pa.Array[Any]:
    """Returns of each record its last header `name`, as Kafka's own `lastHeader` does; null without one."""
    pairs: pa.Array[Any] = pc.list_flatten(headers)
    matches = pc.equal(pc.struct_field(pairs, "key"), pa.scalar(name))
    rows = pc.list_parent_indices(headers).filter(matches).to_numpy()
    last = np.full(len(headers), -1)
    last[rows] = np.arange(len(rows))
    values: pa.Array[Any] = pc.struct_field(pairs, "value").filter(matches)
    return values.take(pa.array(last, pa.int64(), mask=last < 0))
