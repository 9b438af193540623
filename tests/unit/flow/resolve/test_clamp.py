"""Each case is a row: what is stored, what Kafka says, what has to be stored."""

from __future__ import annotations

from array import array
from dataclasses import replace

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


GROUP = FoundBy.GROUP


@pytest.mark.parametrize(
    ("committed", "answers", "expected"),
    [
        # The first boundary is the group's, whatever the look-up says of it.
        (7, said([1, 2, 3], [5, 9, 12]), [(7, 7, GROUP), (9, 9, RECORD), (12, 12, RECORD)]),
        (0, said([1, 2], [5, 9]), [(0, 0, GROUP), (9, 9, RECORD)]),
        # A group that is ahead of the clock: the hours that it has read hold nothing.
        (10, said([1, 2, 3], [5, 9, 12]), [(10, 10, GROUP), (10, 10, FoundBy.CLAMPED), (12, 12, RECORD)]),
        # What expired since its commit is lost in the first hour.
        (
            7,
            said([1, 2, 3], [50, 50, 60], start=50),
            [(7, 7, GROUP), (7, 50, FoundBy.LOG_START), (60, 60, RECORD)],
        ),
        # Another partition, of which the group has committed nothing.
        (None, said([1, 2], [5, 9]), [(5, 5, RECORD), (9, 9, RECORD)]),
    ],
)
def test_a_topic_that_is_taken_over_begins_at_the_groups_offset(committed, answers, expected):
    taken_over = {1: 3} if committed is None else {0: committed}
    assert rows(boundaries_to_store(None, replace(answers, taken_over=taken_over))) == expected


@pytest.mark.parametrize(
    ("instants", "offsets", "expected"),
    [
        ([1, 2, 3], [0, 4, 5], [(7, 7, GROUP)] * 3),
        ([3, 5], [4, 9], [(7, 7, GROUP), (9, 9, RECORD)]),
        ([3, 4, 5, 6], [4, 5, 9, 10], [(7, 7, GROUP), (9, 9, RECORD), (10, 10, RECORD)]),
        ([5, 6], [9, 10], [(9, 9, RECORD), (10, 10, RECORD)]),
        ([4], [5], []),
    ],
)
def test_hours_before_the_groups_offset_are_empty(instants, offsets, expected):
    """What was taken over at instant 4 is stored; earlier and later ones are asked for."""
    known = boundaries_to_store(None, replace(said([4], [5]), taken_over={0: 7}))
    answers = replace(said(instants, offsets), taken_over={0: 7})
    assert rows(boundaries_to_store(known, answers)) == expected


def test_merging_keeps_the_instants_in_order():
    known = stored(said([4, 6], [40, 60]), said([5, 7], [50, 70]), said([1], [10]))
    assert known.instants == array("q", [1, 4, 5, 6, 7])
    assert [row[1] for row in rows(known)] == [10, 40, 50, 60, 70]
    assert known.largest_before(0, 6) == 50
    assert known.largest_before(0, 1) == 0


# ---- What is stored where neighbours, losses and answers meet at the same offset.

CLAMPED, LOG_START = FoundBy.CLAMPED, FoundBy.LOG_START


@pytest.mark.parametrize(
    ("known", "answers", "expected"),
    [
        # Its neighbours leave no room: nothing can be lost between them.
        (said([1, 3], [10, 10]), said([2], [50], start=50), [(10, 10, CLAMPED)]),
        # An answer that falls back is raised, and its hour loses nothing.
        (
            said([1], [30]),
            said([2, 3], [50, 30], start=20, start_after=60),
            [(30, 50, LOG_START), (50, 50, CLAMPED)],
        ),
        # What lies above a certain boundary has not expired below it.
        (
            None,
            said([1, 2, 3], [10, 50, 51], start=0, start_after=50),
            [(0, 10, LOG_START), (0, 50, LOG_START), (51, 51, RECORD)],
        ),
        (
            said([1], [9]),
            said([2, 3], [60, 70], start=9, start_after=60),
            [(9, 60, LOG_START), (70, 70, RECORD)],
        ),
        # The first loss is bounded by the certain boundary before it, the answers after it by none.
        (
            said([1], [5]),
            said([2, 3, 4], [5, 40, 40], start=5, start_after=40),
            [(5, 5, RECORD), (5, 40, LOG_START), (5, 40, LOG_START)],
        ),
        # A later neighbour caps the loss, and what comes after it starts from there.
        (said([1, 4], [5, 20]), said([2, 5], [50, 60], start=50), [(5, 20, LOG_START), (60, 60, RECORD)]),
    ],
)
def test_where_offsets_meet(known, answers, expected):
    assert rows(boundaries_to_store(None if known is None else stored(known), answers)) == expected


@pytest.mark.parametrize(
    ("kept_since", "floors"),
    [
        (None, [0, 0, 0]),
        (4, [0, 0, 0]),
        (3, [0, 0, 50]),
        (2, [0, 50, 50]),
        (1, [50, 50, 50]),
    ],
)
def test_nothing_has_expired_from_where_records_are_kept(kept_since: int | None, floors: list[int]):
    """Three hours begin at the log start. What the retention still keeps cannot lie below it."""
    answers = replace(said([1, 2, 3], [50, 50, 50], start=50), kept_since=kept_since)
    assert rows(boundaries_to_store(None, answers)) == [
        (at, 50, RECORD if at else LOG_START) for at in floors
    ]


def test_the_log_start_is_stored_beside_each_boundary():
    for answers in (said([1, 2], [5, 9], start=3), said([1, 2], [3, 9], start=3)):
        column = boundaries_to_store(None, answers).columns[0]
        assert [column[row].log_start for row in (0, 1)] == [3, 3]
        assert column.first_start == 3


def test_a_partitions_first_log_start_stays():
    known = stored(said([1], [5], start=3))
    later = boundaries_to_store(known, said([2], [9], start=8)).columns[0]
    assert (later.first_start, later[0].log_start) == (3, 8)


def test_a_block_names_its_topic_id():
    known = stored(said([1], [5]))
    assert known.key == ("dc1", "bids", "id")
    assert boundaries_to_store(known, said([2], [9])).key == ("dc1", "bids", "id")


def test_each_partition_has_its_own_answers():
    both = {
        2: PartitionAnswers(0, 0, [7, 8], [RECORD] * 2),
        1: PartitionAnswers(4, 4, [5, 6], [FoundBy.END] * 2),
    }
    block = boundaries_to_store(None, Answers("dc1", "bids", "id", [1, 2], both))
    assert list(block.columns) == [1, 2]
    assert rows(block, 1) == [(5, 5, FoundBy.END), (6, 6, FoundBy.END)]
    assert rows(block, 2) == [(7, 7, RECORD), (8, 8, RECORD)]


def test_a_partition_that_is_not_answered_is_named():
    both = {n: PartitionAnswers(0, 0, [0], [RECORD]) for n in (0, 1)}
    with pytest.raises(PartitionMissing) as raised:
        boundaries_to_store(stored(Answers("dc1", "bids", "id", [1], both)), said([2], [5]))
    assert (raised.value.cluster, raised.value.topic, raised.value.partition) == ("dc1", "bids", 1)


def test_offsets_as_large_as_kafka_has_them():
    top = 2**63 - 1
    assert rows(boundaries_to_store(None, said([1, 2], [2**53 + 1, top]))) == [
        (2**53 + 1,) * 2 + (RECORD,),
        (top, top, RECORD),
    ]
