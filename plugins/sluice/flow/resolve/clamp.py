"""Turns a look-up's answers into boundaries that cannot contradict those already stored.

Pure. For every partition, offsets never fall as instants rise, whatever order the instants are resolved
in and however many resolvers run: each writer has seen all earlier entries of the log and clamps to them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sluice.errors import PartitionMissing
from sluice.state.boundaries.boundary import CODE, UNKNOWN, FoundBy, PartitionColumn, TopicBoundaries

_NO_CEILING = np.iinfo(np.int64).max


@dataclass(frozen=True)
class PartitionAnswers:
    """What Kafka said about one partition, row by row of the instants asked for.

    `log_start` was seen before the look-ups, `log_start_after` once they were done: an answer between the
    two may be a log start that has moved on since.
    """

    log_start: int
    log_start_after: int
    offsets: Sequence[int]
    found_by: Sequence[FoundBy]


@dataclass(frozen=True)
class Answers:
    """What Kafka said about one topic; `instants` are seconds since the epoch, ascending.

    Retention by age has deleted no record stamped at `kept_since` or later: where the look-up of such an
    instant gives the log start, that is the first record from it on. None: not known. `taken_over`: by
    partition what a consumer group has committed. The topic's first boundary is there, and so is each of an
    earlier instant.
    """

    cluster: str
    topic: str
    uuid: str
    instants: Sequence[int]
    partitions: Mapping[int, PartitionAnswers]
    kept_since: int | None = None
    taken_over: Mapping[int, int] = field(default_factory=dict)

    @property
    def certain(self) -> int:
        """From this instant on the log start hides nothing."""
        return _NO_CEILING if self.kept_since is None else self.kept_since


def boundaries_to_store(stored: TopicBoundaries | None, answers: Answers) -> TopicBoundaries:
    """Returns the boundaries to store for the answers' instants, given what is stored of the same topic id.

    Instants that are stored already are left out. Raises PartitionMissing when the log knows a partition
    that the answers lack: storing without it would count it as new, and move it backwards.
    """
    if stored is None:
        stored = TopicBoundaries(answers.cluster, answers.topic, answers.uuid, array("q"), {})
    for partition in stored.columns:
        if partition not in answers.partitions:
            raise PartitionMissing(answers.cluster, answers.topic, partition)
    rows = [row for row, instant in enumerate(answers.instants) if stored.row(instant) is None]
    instants = array("q", [answers.instants[row] for row in rows])
    above = np.searchsorted(np.asarray(stored.instants, np.int64), np.asarray(instants, np.int64))
    columns = {}
    for partition, partition_answers in sorted(answers.partitions.items()):
        hidden = np.asarray(instants, np.int64) < answers.certain
        floor = answers.taken_over.get(partition, 0)
        if partition in answers.taken_over and rows and not stored.instants:
            partition_answers = replace(partition_answers, offsets=[floor, *partition_answers.offsets[1:]])
        column = _at_once(stored, partition, above, rows, partition_answers, hidden, floor)
        column = column or _place(
            stored, partition, instants, rows, partition_answers, answers.certain, floor
        )
        if partition in answers.taken_over:
            first = int(np.count_nonzero(above == 0)) if stored.instants else 1
            column.codes[:first] = array("b", [CODE[FoundBy.GROUP]]) * min(first, len(rows))
        columns[partition] = column
    return TopicBoundaries(answers.cluster, answers.topic, answers.uuid, instants, columns)


def _at_once(
    stored: TopicBoundaries,
    partition: int,
    above: np.ndarray,
    rows: Sequence[int],
    answers: PartitionAnswers,
    hidden: np.ndarray,
    floor: int,
) -> PartitionColumn | None:
    """Returns what `_place` gives, for all instants at once; None where records may have expired.

    `above`: of each instant the first known row at or after it. `hidden`: whether the log start may hide its
    records.
    """
    first = stored.columns[partition].first_start if partition in stored.columns else answers.log_start
    stored_offsets = np.full(len(stored.instants), first, np.int64)
    if partition in stored.columns:
        offsets = np.asarray(stored.columns[partition].offsets, np.int64)
        stored_offsets = np.where(offsets == UNKNOWN, first, offsets)
    below, ceiling = np.append(floor, stored_offsets)[above], np.append(stored_offsets, _NO_CEILING)[above]
    answered = np.asarray(answers.offsets, np.int64)[list(rows)]
    if ((below < answered) & (answered <= answers.log_start_after) & hidden).any():
        return None
    placed = np.minimum(np.maximum.accumulate(np.maximum(answered, below)), ceiling)
    codes = np.fromiter((CODE[answers.found_by[row]] for row in rows), np.int8, len(rows))
    codes[placed != answered] = CODE[FoundBy.CLAMPED]
    starts = array("q", [answers.log_start]) * len(rows)
    return PartitionColumn(
        first, array("q", placed.tobytes()), array("q", placed.tobytes()), starts, array("b", codes.tobytes())
    )


def _place(
    stored: TopicBoundaries,
    partition: int,
    instants: Sequence[int],
    rows: Sequence[int],
    answers: PartitionAnswers,
    certain_from: int,
    floor: int,
) -> PartitionColumn:
    column = stored.columns.get(partition) or PartitionColumn.unknown(answers.log_start, len(stored.instants))
    placed = PartitionColumn(column.first_start, array("q"), array("q"), array("q"), array("b"))
    largest = certain = 0
    for instant, row in zip(instants, rows, strict=True):
        above = bisect_left(stored.instants, instant)
        below = column.offset(above - 1) if above else floor
        ceiling = column.offset(above) if above < len(stored.instants) else None
        answer, how = answers.offsets[row], answers.found_by[row]
        prior = max(below, certain)
        largest = max(answer, below, largest)
        offset = largest if ceiling is None else min(largest, ceiling)
        hidden = instant < certain_from and answer <= answers.log_start_after
        expired = hidden and prior < min(answer, offset)
        if expired:
            how = FoundBy.LOG_START
        else:
            certain = max(certain, offset)
            how = how if offset == answer else FoundBy.CLAMPED
        placed.offsets.append(offset)
        placed.floors.append(prior if expired else offset)
        placed.log_starts.append(answers.log_start)
        placed.codes.append(CODE[how])
    return placed
