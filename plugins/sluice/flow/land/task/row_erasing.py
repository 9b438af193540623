"""Which rows of the lake's files are erased: by what is stored in them, whatever the pipeline file says now.

A row is of the type as which it landed. A rejected record has none, so that an entry of any type is about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.flow.land.task.erasing import ErasedValues, no_type
from sluice.state.erasures.erasure_list import Erasure, ErasureList

COLUMNS = ("_payload", "_key")


class RowErasing:
    """The rows of one slice, from which `entries` are erased."""

    def __init__(self, erasures: ErasureList, entries: Sequence[Erasure]) -> None:
        self._erasures, self._entries = erasures, entries
        self._types = frozenset(entry.type for entry in entries)
        self._values: dict[str | None, ErasedValues | None] = {}

    def found(self, rows: pa.RecordBatch) -> np.ndarray:
        """Returns which of the rows, which have COLUMNS and may have `_type`, are erased. To be called where
        the stack is deep enough: sluice.runtime.deeper."""
        keys, texts = (rows[name].cast(pa.binary()).to_pylist() for name in COLUMNS[::-1])
        kinds: list[Any] = (
            rows["_type"].to_pylist() if "_type" in rows.schema.names else [None] * rows.num_rows
        )
        erased = [
            (values := self._of(kind)) is not None and values.has(key, text, no_type)
            for kind, key, text in zip(kinds, keys, texts, strict=True)
        ]
        return np.array(erased, bool)

    def _of(self, kind: str | None) -> ErasedValues | None:
        """Returns what is erased of rows of a type, or of what has none."""
        if kind is not None and kind not in self._types:
            kind = ""
        if kind not in self._values:
            entries = [entry for entry in self._entries if kind is None or entry.type in ("", kind)]
            self._values[kind] = ErasedValues(self._erasures, entries) if entries else None
        return self._values[kind]
