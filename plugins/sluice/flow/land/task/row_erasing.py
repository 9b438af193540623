"""Which rows of the lake's files are erased: an erasure searches by it, and its remake leaves them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from sluice.config.event import TypeSource
from sluice.flow.land.task.columns import HEADERS
from sluice.flow.land.task.erasing import ErasedValues, TypeOf, type_of

COLUMNS = ("_payload", "_key", "_headers", "_topic")


@dataclass(frozen=True)
class RowErasing:
    """The rows of one slice. `source`: by the pipeline file of now, wherever the type was when it landed."""

    values: ErasedValues
    source: TypeSource

    def found(self, rows: pa.RecordBatch) -> Sequence[bool]:
        """Returns which of the rows, which have COLUMNS, are erased."""
        headers = rows["_headers"].cast(HEADERS)
        keys, texts = (rows[name].cast(pa.binary()).to_pylist() for name in ("_key", "_payload"))
        topics: list[Any] = rows["_topic"].to_pylist()
        types = [self._type(topic, headers, position) for position, topic in enumerate(topics)]
        return [*map(self.values.has, keys, texts, types)]

    def _type(self, topic: str, headers: pa.Array[Any], position: int) -> TypeOf:
        return partial(type_of, self.source, topic=topic, headers=headers, position=position)
