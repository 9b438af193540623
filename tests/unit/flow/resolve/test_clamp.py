"""Each case is a row: what is stored, what Kafka says, what has to be stored."""

from __future__ import annotations

from array import array

import pytest

from sluice.errors import PartitionMissing
from sluice.flow.resolve.clamp import Answers, PartitionAnswers, boundaries_to_store
from sluice.state.boundaries.boundary import FoundBy, TopicBoundaries

RECORD, END = FoundBy.RECORD, FoundBy.END


def said(
    instants: list[int],
    offsets: list[int],
    start: int = 0,
    start_after: int | None = None,
    found: FoundBy = RECORD,
) -> Answers:
    partition = PartitionAnswers(
        start, start if start_after is None else start_after, offsets, [found] * len(offsets)
    )
    return Answers("dc1", "bids", "id", instants, {0: partition})


def stored(*answers: Answers) -> TopicBoundaries:
    known = boundaries_to_store(None, answers[0])
    for later in answers[1:]:
        known = known.merged(boundaries_to_store(known, later))
    return known


def rows(block: TopicBoundaries, partition: int = 0) -> list[tuple[int, int, FoundBy]]:
    column = block.columns[partition]
    return [(p.floor, p.offset, p.found_by) for p in (column[row] for row in range(len(block.instants)))]


def test_the_first_boundaries_are_the_answers():
    assert rows(stored(said([1, 2], [5, 9]))) == [(5, 5, RECORD), (9, 9, RECORD)]


@pytest.mark.parametrize(
    ("instant", "answer", "offset", "found"),
    [
        (2, 15, 15, RECORD),
        (2, 4, 10, FoundBy.CLAMPED),
        (2, 99, 20, FoundBy.CLAMPED),
        (0, 99, 10, FoundBy.CLAMPED),
        (0, 3, 3, RECORD),
        (4, 3, 20, FoundBy.CLAMPED),
        (4, 99, 99, RECORD),
    ],
)
def test_a_new_boundary_stays_between_its_neighbours(instant, answer, offset, found):
    known = stored(said([1, 3], [10, 20]))
    assert rows(boundaries_to_store(known, said([instant], [answer]))) == [(offset, offset, found)]


def test_instants_that_are_stored_are_left_out():
    known = stored(said([1, 3], [10, 20]))
    block = boundaries_to_store(known, said([1, 2, 3], [0, 15, 99]))
    assert list(block.instants) == [2]
    assert rows(block) == [(15, 15, RECORD)]


def test_answers_that_fall_are_raised():
    assert [row[1] for row in rows(stored(said([1, 2, 3], [5, 9, 7], found=END)))] == [5, 9, 9]


def test_an_unknown_partition_counts_as_its_log_start_before_and_after():
    known = stored(said([1, 5], [10, 20]))
    both = {
        0: PartitionAnswers(0, 0, [12], [RECORD]),
        1: PartitionAnswers(3, 3, [7], [RECORD]),
    }
    merged = known.merged(boundaries_to_store(known, Answers("dc1", "bids", "id", [3], both)))
    assert rows(merged, 1) == [(3, 3, FoundBy.NEW), (3, 3, FoundBy.CLAMPED), (3, 3, FoundBy.NEW)]


def test_a_missing_partition_is_refused_and_can_be_tried_again():
    known = stored(Answers("dc1", "bids", "id", [1], {n: PartitionAnswers(0, 0, [0], [END]) for n in (0, 1)}))
    with pytest.raises(PartitionMissing) as raised:
        boundaries_to_store(known, said([2], [5]))
    assert raised.value.partition == 1
    assert raised.value.retryable


@pytest.mark.parametrize(
    ("known", "answers", "expected"),
    [
        # Nothing expired: a log start of 0 is no loss.
        ([], said([1, 2], [0, 4], start=0), [(0, 0, RECORD), (4, 4, RECORD)]),
        # Hours 1 and 2 expired together: each start lies anywhere below the log start.
        (
            [],
            said([1, 2, 3], [50, 50, 60], start=50),
            [(0, 50, FoundBy.LOG_START), (0, 50, FoundBy.LOG_START), (60, 60, RECORD)],
        ),
        # Everything is deleted: log start and end are the same.
        ([], said([1], [50], start=50, found=END), [(0, 50, FoundBy.LOG_START)]),
        # The last stored boundary bounds what can be lost.
        ([said([1], [30])], said([2], [50], start=50), [(30, 50, FoundBy.LOG_START)]),
        # It is the log start, but nothing is missing between the neighbours.
        ([said([1], [50])], said([2], [50], start=50), [(50, 50, RECORD)]),
        # The later neighbour bounds it from above.
        ([said([3], [40])], said([2], [50], start=50), [(0, 40, FoundBy.LOG_START)]),
        # The log start moved on while Kafka was asked.
        ([], said([1], [50], start=40, start_after=60), [(0, 50, FoundBy.LOG_START)]),
        # Above the log start the record found is the boundary.
        ([], said([1], [61], start=40, start_after=60), [(61, 61, RECORD)]),
    ],
)
def test_what_expired_before_it_was_resolved(known, answers, expected):
    assert rows(boundaries_to_store(stored(*known) if known else None, answers)) == expected


def test_merging_keeps_the_instants_in_order():
    known = stored(said([4, 6], [40, 60]), said([5, 7], [50, 70]), said([1], [10]))
    assert known.instants == array("q", [1, 4, 5, 6, 7])
    assert [row[1] for row in rows(known)] == [10, 40, 50, 60, 70]
    assert known.largest_before(0, 6) == 50
    assert known.largest_before(0, 1) == 0
