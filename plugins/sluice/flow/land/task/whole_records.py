"""Records before they are opened: what is too large, and what of the refused ones is erased."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.flow.land.task import columns, headers
from sluice.flow.land.task.erasing import Erasing

TOO_LARGE = "too_large"
"""A column that batches may have: the size of a record that is larger than `max_record`, else null."""


def sizes_of(batch: pa.RecordBatch) -> pa.Array[Any] | None:
    return batch[TOO_LARGE] if TOO_LARGE in batch.schema.names else None


def too_large(batch: pa.RecordBatch) -> list[int]:
    sizes = sizes_of(batch)
    if sizes is None:
        return []
    positions: list[int] = np.flatnonzero(sizes.is_valid().to_numpy(zero_copy_only=False)).tolist()
    return positions


def carried(batch: pa.RecordBatch) -> np.ndarray:
    """Returns how many bytes of each record's are repeated in each row of it."""
    found: np.ndarray = columns.lengths(batch["key"]) + columns.lengths(batch["headers"])
    return found


def unerased(
    erasing: Erasing, topic: str, batch: pa.RecordBatch, slices: np.ndarray, refused: Mapping[int, str]
) -> tuple[dict[int, str], list[int]]:
    """Returns those of the refused records that are not erased, and the positions of the others."""
    found = erasing.of(topic, slices, batch["key"], headers.from_json(batch["headers"]))
    if found is None:
        return dict(refused), []
    erased = [place for place in refused if found.has(place, batch["value"][place].as_py())]
    return {place: reason for place, reason in refused.items() if place not in erased}, erased
