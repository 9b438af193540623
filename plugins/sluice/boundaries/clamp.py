"""Turns a look-up's answers into boundaries that cannot contradict those already stored.

Pure. For every partition, offsets never fall as instants rise, whatever order the instants are resolved
in and however many resolvers run: each writer has seen all earlier entries of the log and clamps to them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluice.boundaries.boundary import CODE, Found
from sluice.boundaries.columns import Column, TopicBoundaries
from sluice.errors import PartitionMissing


@dataclass(frozen=True)
class PartitionAnswers:
    """What Kafka said about one partition, row by row of the instants asked for.

    `log_start` was seen before the look-ups, `log_start_after` once they were done: an answer between the
    two may be a log start that has moved on since.
    """

    log_start: int
    log_start_after: int
    offsets: Sequence[int]
    found: Sequence[Found]


@dataclass(frozen=True)
class Answers:
    """What Kafka said about one topic; `instants` are seconds since the epoch, ascending."""

    cluster: str
    topic: str
    uuid: str
    instants: Sequence[int]
    partitions: Mapping[int, PartitionAnswers]


def settle(known: TopicBoundaries | None, answers: Answers) -> TopicBoundaries:
    """The boundaries to store for the answers' instants, given what is stored of the same topic id.

    Instants that are stored already are left out. Raises PartitionMissing when the log knows a partition
    that the answers lack: storing without it would count it as new, and move it backwards.
    """
    if known is None:
        known = TopicBoundaries(answers.cluster, answers.topic, answers.uuid, array("q"), {})
    for partition in known.columns:
        if partition not in answers.partitions:
            raise PartitionMissing(answers.cluster, answers.topic, partition)
    rows = [row for row, instant in enumerate(answers.instants) if known.row(instant) is None]
    instants = array("q", [answers.instants[row] for row in rows])
    columns = {
        partition: _place(known, partition, instants, rows, said)
        for partition, said in sorted(answers.partitions.items())
    }
    return TopicBoundaries(answers.cluster, answers.topic, answers.uuid, instants, columns)


def _place(
    known: TopicBoundaries,
    partition: int,
    instants: Sequence[int],
    rows: Sequence[int],
    said: PartitionAnswers,
) -> Column:
    column = known.columns.get(partition) or Column.unknown(said.log_start, len(known.instants))
    placed = Column(column.first_start, array("q"), array("q"), array("q"), array("b"))
    largest = certain = 0
    for instant, row in zip(instants, rows, strict=True):
        above = bisect_left(known.instants, instant)
        below = column.offset(above - 1) if above else 0
        ceiling = column.offset(above) if above < len(known.instants) else None
        answer, found = said.offsets[row], said.found[row]
        prior = max(below, certain)
        largest = max(answer, below, largest)
        offset = largest if ceiling is None else min(largest, ceiling)
        expired = prior < answer <= said.log_start_after and prior < offset
        if expired:
            found = Found.LOG_START
        else:
            certain = max(certain, offset)
            found = found if offset == answer else Found.CLAMPED
        placed.offsets.append(offset)
        placed.floors.append(prior if expired else offset)
        placed.log_starts.append(said.log_start)
        placed.found.append(CODE[found])
    return placed
