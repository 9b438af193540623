"""What is stored where neighbours, losses and answers meet at the same offset."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.errors import PartitionMissing
from sluice.flow.resolve.clamp import Answers, PartitionAnswers, boundaries_to_store
from sluice.state.boundaries.boundary import FoundBy
from tests.unit.flow.resolve.test_clamp import RECORD, rows, said, stored

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
