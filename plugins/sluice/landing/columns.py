"""The lake's columns: the event as it came, and where in Kafka it was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HEADERS = pa.list_(pa.field("element", pa.struct({"key": pa.string(), "value": pa.binary()})))
_NAME = pa.dictionary(pa.int32(), pa.string())

_POSITION = [
    pa.field("_cluster", _NAME),
    pa.field("_topic", _NAME),
    pa.field("_partition", pa.int32()),
    pa.field("_offset", pa.int64()),
    pa.field("_timestamp", pa.timestamp("ms", "UTC")),
    pa.field("_key", pa.binary()),
    pa.field("_headers", HEADERS),
]
ROWS = pa.schema([pa.field("_payload", pa.string()), pa.field("_type", _NAME), *_POSITION])
REJECTED = pa.schema([pa.field("_payload", pa.binary()), pa.field("_reason", _NAME), *_POSITION])

# The rest differs from row to row: a dictionary of it would be built only to be thrown away.
_DICTIONARIES = ["_type", "_reason", "_cluster", "_topic", "_partition"]


def writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Files are self-describing Parquet without Arrow's own schema: any reader sees plain columns."""
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in _DICTIONARIES if name in schema.names],
        write_statistics=["_partition", "_offset", "_timestamp"],
        store_schema=False,
    )


def constant(value: str, rows: int) -> pa.DictionaryArray:
    """`value` in each of `rows` rows, at the cost of a number."""
    return pa.DictionaryArray.from_arrays(pa.nulls(rows, pa.int32()).fill_null(0), [value])


def names(codes: pa.Array, of: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(codes, pa.array(of, pa.string()))


def taken(batch: pa.RecordBatch, cluster: str, topic: str, partition: int, headers: pa.ListArray) -> pa.Table:
    """The lake's columns of a batch of one topic and partition as Spark hands it over, without `_type`."""
    count = batch.num_rows
    columns = {
        "_payload": batch["value"],
        "_cluster": constant(cluster, count),
        "_topic": constant(topic, count),
        "_partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        "_offset": batch["offset"],
        "_timestamp": batch["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False),
        "_key": batch["key"],
        "_headers": headers,
    }
    return pa.table(columns)


def rows(kept: pa.Table, types: pa.DictionaryArray) -> pa.Table:
    """Rows to be written, out of `taken` ones that are known to be UTF-8."""
    payload = pa.chunked_array([chunk.view(pa.string()) for chunk in kept["_payload"].chunks])
    found = kept.set_column(0, "_payload", payload)
    return found.set_column(1, "_type", types)
