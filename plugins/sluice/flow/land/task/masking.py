"""Masks the columns of records where they become bytes of the lake: rows, rejected ones, keys and headers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.config.mask import HEADERS, KEY
from sluice.flow.land.task import columns as record_headers
from sluice.flow.land.task.nesting import too_deep
from sluice.flow.land.task.read_counts import runs_of
from sluice.manifest import Masked
from sluice.mask.mask_rules import MaskRules
from sluice.mask.unit_mask import UnitMask

_Mask = Callable[[bytes], bytes]


class RecordMasks:
    """One per task, also where nothing is masked. `names[code]` is the type of a code; `before` says of each
    slice what was masked in the files that its records come from, and nothing where they come from Kafka."""

    def __init__(
        self, rules: MaskRules | None, before: Sequence[Masked | None], names: Sequence[str]
    ) -> None:
        self._before, self._names, self._active = before, names, rules is not None
        each = before or (None,)
        self._units = [UnitMask(rules, masked) for masked in each] if rules is not None else []
        self._same = len(set(map(repr, before))) <= 1
        self._events: list[list[_Mask]] = [[] for _ in self._units]

    def taken(self, rows: pa.Table, slices: np.ndarray) -> pa.Table:
        """Returns the records with their keys and headers masked."""
        if not self._active:
            return rows
        if KEY not in self._units[0].keeps and rows["_key"].null_count < rows.num_rows:
            keys: list[Any] = rows["_key"].to_pylist()
            masked = [unit.key(key) for key, unit in zip(keys, self._of(slices), strict=True)]
            rows = _set(rows, "_key", pa.array(masked, pa.binary()))
        headers = rows["_headers"]
        if HEADERS not in self._units[0].keeps and headers.null_count < rows.num_rows:
            rows = _set(rows, "_headers", self._headers(headers, slices))
        return rows

    def rows(self, rows: pa.Table, slices: np.ndarray, types: np.ndarray) -> pa.Table:
        """Returns rows with their payloads masked, by the codes of their types."""
        if not self._active:
            return rows
        texts: list[Any] = rows["_payload"].to_pylist()
        masked: list[bytes] = []
        for start, until in pairwise([0, len(texts)] if self._same else runs_of(slices)):
            masks = self._masks(int(slices[start]) if len(slices) else 0)
            codes = types[start:until].tolist()
            masked += [masks[code](text) for code, text in zip(codes, texts[start:until], strict=True)]
        return _set(rows, "_payload", pa.array(masked, pa.binary()))

    def rejected(self, rows: pa.Table, slices: np.ndarray) -> pa.Table:
        """Returns rejected records with what may be kept of their bytes."""
        if not self._active:
            return rows
        texts: list[Any] = rows["_payload"].to_pylist()
        masked = [unit.rejected(text, too_deep) for text, unit in zip(texts, self._of(slices), strict=True)]
        return _set(rows, "_payload", pa.array(masked, pa.binary()))

    def _of(self, slices: np.ndarray) -> list[UnitMask]:
        return [self._unit(number) for number in slices.tolist()]

    def _unit(self, number: int) -> UnitMask:
        return self._units[number if self._before else 0]

    def _masks(self, number: int) -> list[_Mask]:
        masks = self._events[number if self._before else 0]
        masks += [self._unit(number).event_of(name) for name in self._names[len(masks) :]]
        return masks

    def _headers(self, headers: pa.ChunkedArray[Any], slices: np.ndarray) -> pa.Array[Any]:
        texts = [
            None
            if pairs is None
            else record_headers.to_json(unit.headers([(h["key"], h["value"]) for h in pairs]))
            for pairs, unit in zip(headers.to_pylist(), self._of(slices), strict=True)
        ]
        return record_headers.from_json(pa.array(texts, pa.string()))


def _set(rows: pa.Table, name: str, values: pa.Array[Any]) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, values)
