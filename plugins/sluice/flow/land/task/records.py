"""A batch of Kafka's records as the table that a task's stages hand on.

A batch has the columns that `Task.columns` selects: value, key, headers (as JSON), place, offset and
timestamp (ms). One that a task has read by itself may have some of the columns below, too.

The table has the lake's columns (columns.py), and working columns that no file gets. A stage takes a table,
and returns the rows that go on and those that are rejected, which have a REASON beside all others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.config.event import Event
from sluice.flow.land import reject_reasons
from sluice.flow.land.reject_reasons import TOO_MANY_BATCHES
from sluice.flow.land.task import columns
from sluice.flow.land.task.columns import from_json, last_values
from sluice.manifest import SHIPPED_TWICE

# Tells records that were shipped twice: `sluice publish` names a batch and a line in a header.
#
# The first of each line in a partition's slice lands, and later ones go to `_rejected/`. One task reads all
# of these records, in the order of their offsets (`rows_per_task` of the pipeline). The same line in another
# topic or partition is another record.

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


# Of a batch, where it was not Spark that read it.
TOO_LARGE = "too_large"
"""The size of a record that is larger than `max_record`, else null."""
HELD = "held"
"""Out of the lake: why a record was rejected that is there as a hash only, else null."""
ERASED = "erased"
"""Out of the lake: whether the row that the lake has of a decoded message is erased."""
NUMBERS = "numbers"
"""Out of the lake: of an array that was joined again, the number of each element in the message as Kafka has
it; null of what is such a message itself."""
LENGTHS = "lengths"
"""Beside NUMBERS: the bytes of each element in the array that was joined."""
ERASED_ROWS = "erased_rows"
"""Beside NUMBERS: whether the row that the lake has of each element is erased."""
CHANGE = "_change"
"""Out of the lake: how a row became an event, where it is one already, else null. Beside rows: of all."""
ROW = "row"
"""Of batches of elements of arrays, each as a record of its own: their numbers."""

# Working columns of the table.
SLICE = "slice"
"""The number of the slice, among those of the task."""
CARRIED = "carried"
"""Bytes of a record's key and headers, which are repeated in each row that it becomes."""
SCHEMA_NAME = "schema_name"
"""The full name of the type by which a message was written; only where messages are decoded."""
TYPE, TIME, HOUR = "type", "time", "hour"
"""Of an event that is parsed: the code of its type, its time in ms, and the hour of that since the epoch."""
REASON = "reason"
"""Why a row is rejected."""
FILE_TYPE = "file_type"
"""The code of the type whose file a row goes to."""
_GATHERED = (SLICE, TYPE, TIME, HOUR, FILE_TYPE)

Stage = Callable[[pa.Table], tuple[pa.Table, pa.Table | None]]
"""None where no row is rejected."""


def table_of(batch: pa.RecordBatch, cluster: str, topic: str, partition: int, slices: np.ndarray) -> pa.Table:
    """Returns the records of one topic and partition; `slices` has the number of each one's."""
    count = batch.num_rows
    found = {
        "_payload": batch["value"],
        "_cluster": columns.constant(cluster, count),
        "_topic": columns.constant(topic, count),
        "_partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        "_offset": batch["offset"],
        "_timestamp": batch["timestamp"].view(columns.TIME),
        "_key": batch["key"],
        "_headers": columns.from_json(batch["headers"]),
        SLICE: pa.array(slices.astype(np.int32)),
        CARRIED: pa.array(columns.lengths(batch["key"]) + columns.lengths(batch["headers"])),
    }
    found |= {
        name: batch[name]
        for name in (TOO_LARGE, HELD, ERASED, NUMBERS, LENGTHS, ERASED_ROWS, CHANGE)
        if name in batch.schema.names
    }
    if ROW in batch.schema.names:
        found["_row"] = batch[ROW]
    return pa.table(found)


def numbers_of(rows: pa.Table, name: str) -> np.ndarray:
    """Returns a column of numbers without nulls."""
    numbers: np.ndarray = rows[name].to_numpy()
    return numbers


def split(rows: pa.Table, reasons: Mapping[int, str]) -> tuple[pa.Table, pa.Table | None]:
    """Returns the rows without those at the positions of `reasons`, and these with their reasons."""
    if not reasons:
        return rows, None
    left = np.ones(rows.num_rows, bool)
    left[list(reasons)] = False
    return rows.take(pa.array(np.flatnonzero(left), pa.int64())), with_reasons(rows, reasons)


def with_reasons(rows: pa.Table, reasons: Mapping[int, str]) -> pa.Table | None:
    """Returns those of the rows that have a reason."""
    if not reasons:
        return None
    positions = sorted(reasons)
    verdicts = pa.array([reasons[position] for position in positions], pa.string())
    return rows.take(pa.array(positions, pa.int64())).append_column(REASON, verdicts)


def parted(rows: pa.Table, gone: np.ndarray) -> tuple[pa.Table, pa.Table]:
    """Returns the rows that stay and those that are `gone`."""
    kept, taken = (pa.array(np.flatnonzero(chosen), pa.int64()) for chosen in (~gone, gone))
    return rows.take(kept), rows.take(taken)


def runs_of(numbers: np.ndarray) -> list[int]:
    """Returns where runs of equal numbers begin, and the end of the last one."""
    return [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]


class WholeRecords:
    """The stage that opens no record: rejects those that are too large, that the lake has as a hash only, and
    that were shipped twice."""

    def __init__(self, shipped: Deduplicator) -> None:
        self._shipped = shipped

    def split(self, records: pa.Table, headers: pa.Array[Any]) -> tuple[pa.Table, pa.Table | None]:
        """`headers` are those of the records as the batch has them."""
        topic, partition = columns.place_of(records)
        reasons = self._shipped.refused(topic, partition, headers, numbers_of(records, SLICE))
        reasons |= dict.fromkeys(_valid(records, TOO_LARGE), reject_reasons.TOO_LARGE)
        if held := _valid(records, HELD):
            held_reasons: list[Any] = records[HELD].to_pylist()
            reasons |= {position: held_reasons[position] for position in held}
        return split(records, reasons)


def _valid(rows: pa.Table, name: str) -> list[int]:
    """Returns the positions where a column that may be there has a value."""
    if name not in rows.column_names or rows[name].null_count == rows.num_rows:
        return []
    positions: list[int] = np.flatnonzero(rows[name].is_valid().to_numpy()).tolist()
    return positions


def to_gather(rows: pa.Table) -> pa.Table:
    """Returns rows that are parsed without what only stages before need."""
    names = {*columns.like(columns.ROWS, rows.column_names).names, *_GATHERED}
    return rows.select([name for name in rows.column_names if name in names])


def to_write(rows: pa.Table, types: pa.Array[Any]) -> pa.Table:
    """Returns parsed rows, which are known to be UTF-8, with the lake's columns alone."""
    payloads = pa.chunked_array([chunk.view(pa.string()) for chunk in rows["_payload"].chunks])
    times = pa.chunked_array([chunk.view(columns.TIME) for chunk in rows[TIME].chunks])
    own = {"_payload": payloads, "_type": types, "_event_time": times}
    return _of_schema(columns.like(columns.ROWS, rows.column_names), rows, own)


def rejected_to_write(rows: pa.Table, event: Event) -> pa.Table:
    """Returns rejected rows, and the number of their slice, beside the lake's columns. What had to be decoded
    is kept as it came."""
    count, names = rows.num_rows, set(rows.column_names)
    sizes = rows[TOO_LARGE] if TOO_LARGE in names else pa.nulls(count, columns.SIZE.type)
    own: dict[str, Any] = {
        "_payload": rows["_raw" if "_raw" in names else "_payload"],
        "_reason": rows[REASON],
        "_size": sizes,
    }
    if event.arrays and "_row" not in names:
        own["_row"] = pa.nulls(count, columns.ROW)
    if event.unwraps:
        own[CHANGE] = rows[CHANGE].cast(pa.string()) if CHANGE in names else pa.nulls(count, pa.string())
    schema = columns.like(columns.REJECTED, {*own, *names} - {"_raw"})
    return _of_schema(schema, rows, own).append_column(SLICE, rows[SLICE])


MARKS = ("_row", CHANGE)
"""Columns that tell an event from a message: it has a value in each that its rows have."""


def are_events(rows: pa.Table | pa.RecordBatch, marks: Iterable[str]) -> Iterable[bool]:
    """Returns of each row whether it is an event. Of other bytes nobody knows what their fields mean: they
    are a message of which no event was made."""
    known = np.ones(rows.num_rows, bool)
    for mark in marks:
        if mark not in rows.schema.names:
            return repeat(False, rows.num_rows)
        known &= np.asarray(rows[mark].is_valid())
    values: list[bool] = known.tolist()
    return values


def _of_schema(schema: pa.Schema, rows: pa.Table, own: Mapping[str, Any]) -> pa.Table:
    return pa.table({name: own[name] if name in own else rows[name] for name in schema.names})
