"""Record headers: as Spark hands them over, and as the lake keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.flow.land.task.columns import HEADERS

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


def last_values(headers: pa.Array[Any], name: str) -> pa.Array[Any]:
    """Returns of each record its last header `name`, as Kafka's own `lastHeader` does; null without one."""
    pairs: pa.Array[Any] = pc.list_flatten(headers)
    matches = pc.equal(pc.struct_field(pairs, "key"), pa.scalar(name))
    rows = pc.list_parent_indices(headers).filter(matches).to_numpy()
    last = np.full(len(headers), -1)
    last[rows] = np.arange(len(rows))
    values: pa.Array[Any] = pc.struct_field(pairs, "value").filter(matches)
    return values.take(pa.array(last, pa.int64(), mask=last < 0))
