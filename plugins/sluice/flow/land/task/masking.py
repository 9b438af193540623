"""The stage that masks the columns of rows, and of rejected ones, before they become bytes of the lake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.config.event import Event, RowsSource
from sluice.config.mask import HEADERS, KEY
from sluice.flow.land.expansion import too_deep
from sluice.flow.land.task import columns as record_headers
from sluice.flow.land.task.records import CHANGE, SLICE, TYPE, are_events, numbers_of, runs_of
from sluice.manifest import Masked
from sluice.mask.mask_rules import MaskRules
from sluice.mask.unit_mask import UnitMask

_Mask = Callable[[bytes], bytes]
_GROUPS = {"_key": KEY, "_headers": HEADERS}


class RecordMasks:
    """One per task, also where nothing is masked. `names[code]` is the type of a code; `before` says of each
    slice what was masked in the files that its records come from, and nothing where they come from Kafka."""

    def __init__(
        self,
        rules: MaskRules | None,
        before: Sequence[Masked | None],
        names: Sequence[str],
        marks: Sequence[str] = (),
    ) -> None:
        """`marks`: columns without which a rejected row is a message (records.py), whose fields are not where
        the rules name them."""
        self._before, self._names, self._active = before, names, rules is not None
        self._marks = marks
        each = before or (None,)
        self._units = [UnitMask(rules, masked) for masked in each] if rules is not None else []
        self._same = len(set(map(repr, before))) <= 1
        self._events: list[list[_Mask]] = [[] for _ in self._units]

    def rows(self, rows: pa.Table) -> pa.Table:
        """Returns rows with their payloads masked, by the codes of their types, and their keys and
        headers."""
        if not self._active:
            return rows
        slices, types = numbers_of(rows, SLICE), numbers_of(rows, TYPE)
        texts: list[Any] = rows["_payload"].to_pylist()
        masked: list[bytes] = []
        for start, until in pairwise([0, len(texts)] if self._same else runs_of(slices)):
            masks = self._masks(int(slices[start]))
            codes = types[start:until].tolist()
            masked += [masks[code](text) for code, text in zip(codes, texts[start:until], strict=True)]
        return self._places(_set(rows, "_payload", pa.array(masked, pa.binary())), slices)

    def rejected(self, rows: pa.Table) -> pa.Table:
        """Returns rejected records with what may be kept of their bytes."""
        if not self._active:
            return rows
        slices = numbers_of(rows, SLICE)
        name = "_raw" if "_raw" in rows.column_names else "_payload"
        texts: list[Any] = rows[name].to_pylist()
        masked = [
            unit.rejected(text, too_deep if is_event else _no_event)
            for text, unit, is_event in zip(
                texts, self._of(slices), are_events(rows, self._marks), strict=True
            )
        ]
        return self._places(_set(rows, name, pa.array(masked, pa.binary())), slices)

    def _places(self, rows: pa.Table, slices: np.ndarray) -> pa.Table:
        """Masks keys and headers. Those of rows out of one record are the same, and masked once."""
        starts = np.array(runs_of(numbers_of(rows, "_offset")))
        first, again = (
            pa.array(starts[:-1], pa.int64()),
            np.repeat(np.arange(len(starts) - 1), np.diff(starts)),
        )
        for name, mask in (("_key", self._keys), ("_headers", self._headers)):
            if _GROUPS[name] in self._units[0].keeps or rows[name].null_count == rows.num_rows:
                continue
            values = rows[name].take(first).combine_chunks()
            rows = _set(rows, name, mask(values, slices[starts[:-1]]).take(pa.array(again, pa.int64())))
        return rows

    def _keys(self, keys: pa.Array[Any], slices: np.ndarray) -> pa.Array[Any]:
        texts: list[Any] = keys.to_pylist()
        masked = [unit.key(key) for key, unit in zip(texts, self._of(slices), strict=True)]
        return pa.array(masked, pa.binary())

    def _of(self, slices: np.ndarray) -> list[UnitMask]:
        return [self._unit(number) for number in slices.tolist()]

    def _unit(self, number: int) -> UnitMask:
        return self._units[number if self._before else 0]

    def _masks(self, number: int) -> list[_Mask]:
        masks = self._events[number if self._before else 0]
        masks += [self._unit(number).event_of(name) for name in self._names[len(masks) :]]
        return masks

    def _headers(self, headers: pa.Array[Any], slices: np.ndarray) -> pa.Array[Any]:
        texts = [
            None
            if pairs is None
            else record_headers.to_json(unit.headers([(h["key"], h["value"]) for h in pairs]))
            for pairs, unit in zip(headers.to_pylist(), self._of(slices), strict=True)
        ]
        return record_headers.from_json(pa.array(texts, pa.string()))


def marks_of(event: Event) -> list[str]:
    """Returns the columns without which a rejected row's fields are not where the mask names them. Those of
    an array, or of an object in its place, are: masked by fields, they stay what a retry makes rows of."""
    of_rows = ("_row", isinstance(event.rows, RowsSource)), (CHANGE, event.unwraps)
    return [mark for mark, needed in of_rows if needed]


def _no_event(_: bytes) -> bool:
    """Says of a message that its fields are not looked for: it is masked as a whole."""
    return True


def _set(rows: pa.Table, name: str, values: pa.Array[Any]) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, values)
