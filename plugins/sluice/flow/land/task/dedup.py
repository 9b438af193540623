"""Tells records that were shipped twice: `sluice publish` names a batch and a line in a header.

Within one read of one slice the first of each line lands, and later ones go to `_rejected/`. A line goes to
the same partition of its topic each time, and a publish that was killed goes on with its last seconds: so
second copies are in the same read, or at the edge of two. The same line in another topic or partition is
another record, whether one task reads both or two tasks do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.config.event import Event
from sluice.flow.land.reject_reasons import SHIPPED_TWICE
from sluice.flow.land.task.columns import from_json, last_values

_BLOCK = 512  # lines
# `<batch>:<line>` as `sluice publish` writes it: at most 127 characters, and the number of a line in a file.
_LINE = re.compile(rb"(.{1,127}):(0|[1-9][0-9]{0,17})", re.DOTALL)


@dataclass
class Lines:
    """A set of numbers, in blocks of bits: lines come in runs, and in any order from whoever means harm."""

    _blocks: dict[int, int] = field(default_factory=dict)

    def add(self, line: int) -> bool:
        """Returns False when it is there already."""
        number, bit = divmod(line, _BLOCK)
        block = self._blocks.get(number, 0)
        self._blocks[number] = block | 1 << bit
        return not block >> bit & 1


class Deduplicator:
    """One per task. Without `batch` in the pipeline's `event` it refuses nothing."""

    def __init__(self, event: Event) -> None:
        self._header = None if event.batch is None else event.batch.header
        self._seen: dict[tuple[str, int, int, bytes], Lines] = {}

    def refused(
        self, topic: str, partition: int, headers: pa.Array[Any], slices: np.ndarray
    ) -> dict[int, str]:
        """Returns the positions of records whose batch and line came before in their partition, in the slice
        that each is of.

        `headers` are as Spark hands them over. A header that `sluice publish` does not write names no line.
        """
        if self._header is None or headers.null_count == len(headers):
            return {}
        names = last_values(from_json(headers), self._header).to_pylist()
        return {
            position: SHIPPED_TWICE
            for position, (name, number) in enumerate(zip(names, slices.tolist(), strict=True))
            if name is not None and not self._first((topic, partition, number), name)
        }

    def _first(self, where: tuple[str, int, int], name: bytes) -> bool:
        match = _LINE.fullmatch(name)
        if match is None:
            return True
        return self._seen.setdefault((*where, match[1]), Lines()).add(int(match[2]))
