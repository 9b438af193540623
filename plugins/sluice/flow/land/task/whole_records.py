"""Records before they are opened: what is too large, and what of the refused ones is erased."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.flow.land import reject_reasons
from sluice.flow.land.task import columns
from sluice.flow.land.task import columns as headers
from sluice.flow.land.task.erasing import Erasing

TOO_LARGE = "too_large"
"""A column that batches may have: the size of a record that is larger than `max_record`, else null."""
HELD = "held"
"""A column of batches out of the lake: why a record was rejected that is there as a hash only, else null."""

ROW = "row"
"""A column of batches of elements of arrays, each as a record of its own: their numbers."""


def numbered(batch: pa.RecordBatch, taken: pa.Table) -> pa.Table:
    """Returns the lake's columns with `_row` where the batch has such numbers."""
    return taken.append_column("_row", batch[ROW]) if ROW in batch.schema.names else taken


def sizes_of(batch: pa.RecordBatch) -> pa.Array[Any] | None:
    return batch[TOO_LARGE] if TOO_LARGE in batch.schema.names else None


def refused_unread(batch: pa.RecordBatch) -> dict[int, str]:
    """Returns which records are rejected without being opened, and why: they are too large, or the lake has
    nothing but the hash of their bytes."""
    reasons = dict.fromkeys(_positions_with(batch, TOO_LARGE), reject_reasons.TOO_LARGE)
    held = _positions_with(batch, HELD)
    if held:
        held_reasons: list[Any] = batch[HELD].to_pylist()
        reasons |= {position: held_reasons[position] for position in held}
    return reasons


def _positions_with(batch: pa.RecordBatch, name: str) -> list[int]:
    column: pa.Array[Any] | None = batch[name] if name in batch.schema.names else None
    if column is None or column.null_count == len(column):
        return []
    positions: list[int] = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).tolist()
    return positions


def carried(batch: pa.RecordBatch) -> np.ndarray:
    """Returns how many bytes of each record's are repeated in each row of it."""
    sizes: np.ndarray = columns.lengths(batch["key"]) + columns.lengths(batch["headers"])
    return sizes


def unerased(
    erasing: Erasing, topic: str, batch: pa.RecordBatch, slices: np.ndarray, refused: Mapping[int, str]
) -> tuple[dict[int, str], list[int]]:
    """Returns those of the refused records that are not erased, and the positions of the others."""
    batch_erasing = erasing.of(topic, slices, batch, headers.from_json(batch["headers"]))
    if batch_erasing is None:
        return dict(refused), []
    erased = [
        position
        for position in refused
        if batch_erasing.has_rejected(position, batch["value"][position].as_py())
    ]
    return {position: reason for position, reason in refused.items() if position not in erased}, erased
