"""Tells records that were shipped twice: `sluice publish` names a batch and a line in a header.

The first of each line in a partition's slice lands, and later ones go to `_rejected/`. One task reads all of
these records, in the order of their offsets (`rows_per_task` of the pipeline). The same line in another topic
or partition is another record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.config.event import Event
from sluice.flow.land.reject_reasons import SHIPPED_TWICE, TOO_MANY_BATCHES
from sluice.flow.land.task.columns import from_json, last_values

_BLOCK = 512  # lines
# `<batch>:<line>` as `sluice publish` writes it: at most 127 characters, and the number of a line in a file.
_LINE = re.compile(rb"(.{1,127}):(0|[1-9][0-9]{0,17})", re.DOTALL)


MOST_BLOCKS = 500_000
"""Of a partition's slice: lines in any order have a block each, which takes less than a kilobyte."""


@dataclass
class Lines:
    """A set of numbers, in blocks of bits: lines come in runs, and in any order from whoever means harm."""

    _blocks: dict[int, int] = field(default_factory=dict)

    def begins_block(self, line: int) -> bool:
        return line // _BLOCK not in self._blocks

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
        self._place: tuple[str, int, int] | None = None
        self._seen: dict[bytes, Lines] = {}
        self._blocks = 0

    def refused(
        self, topic: str, partition: int, headers: pa.Array[Any], slices: np.ndarray
    ) -> dict[int, str]:
        """Returns why records are refused, by position: their batch and line came before in their partition,
        in the slice that each is of, or it has too many batches. A task reads a partition's slice at once.

        `headers` are as Spark hands them over. A header that `sluice publish` does not write names no line.
        """
        if self._header is None or headers.null_count == len(headers):
            return {}
        names = last_values(from_json(headers), self._header).to_pylist()
        verdicts = (
            name and self._verdict((topic, partition, number), name)
            for name, number in zip(names, slices.tolist(), strict=True)
        )
        return {position: reason for position, reason in enumerate(verdicts) if reason}

    def _verdict(self, place: tuple[str, int, int], name: bytes) -> str | None:
        match = _LINE.fullmatch(name)
        if match is None:
            return None
        if place != self._place:
            self._place, self._seen, self._blocks = place, {}, 0
        line = int(match[2])
        lines = self._seen.get(match[1]) or Lines()
        if lines.begins_block(line):
            if self._blocks >= MOST_BLOCKS:
                return TOO_MANY_BATCHES
            self._blocks += 1
        self._seen[match[1]] = lines
        return None if lines.add(line) else SHIPPED_TWICE
