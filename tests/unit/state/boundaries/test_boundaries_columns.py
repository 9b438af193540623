"""Rows of boundaries: found by instant, and two blocks merged into one."""

from __future__ import annotations

from array import array

import pytest

from sluice.state.boundaries.boundary import (
    CODE,
    UNKNOWN,
    FoundBy,
    PartitionBoundary,
    PartitionColumn,
    TopicBoundaries,
)

RECORD, END, NEW = FoundBy.RECORD, FoundBy.END, FoundBy.NEW


def column(first: int, *rows: tuple[int, int, int, FoundBy]) -> PartitionColumn:
    """Rows of (offset, floor, log start, found)."""
    offsets, floors, starts, found = zip(*rows, strict=True) if rows else ((), (), (), ())
    codes = array("b", [CODE[one] for one in found])
    return PartitionColumn(first, array("q", offsets), array("q", floors), array("q", starts), codes)


def block(instants: list[int], **columns: PartitionColumn) -> TopicBoundaries:
    by_number = {int(name[1:]): one for name, one in columns.items()}
    return TopicBoundaries("dc1", "bids", "id", array("q", instants), by_number)


MINE = block(
    [10, 30], p0=column(4, (5, 4, 1, RECORD), (9, 8, 2, END)), p1=column(6, (6, 6, 6, END), (7, 7, 6, END))
)


def test_a_row_is_a_boundary():
    found = column(4, (5, 3, 1, RECORD), (UNKNOWN, 4, 2, NEW))
    assert found[0] == PartitionBoundary(offset=5, found_by=RECORD, log_start=1, floor=3)
    assert found[1] == PartitionBoundary(offset=4, found_by=NEW, log_start=2, floor=4)
    assert (found.offset(0), found.offset(1)) == (5, 4)
    assert (found.knows(0), found.knows(1)) == (True, False)


def test_an_unknown_partition_is_its_log_start_in_every_row():
    assert PartitionColumn.unknown(7, 2) == column(7, (UNKNOWN, 7, 7, NEW), (UNKNOWN, 7, 7, NEW))


@pytest.mark.parametrize(
    ("instant", "row", "nearest", "before"),
    [(9, None, 0, 0), (10, 0, 0, 0), (11, None, 0, 5), (30, 1, 1, 5), (31, None, 1, 9)],
)
def test_rows_are_found_by_instant(instant, row, nearest, before):
    assert MINE.row(instant) == row
    assert MINE.nearest(instant) == nearest
    assert MINE.largest_before(0, instant) == before


def test_an_offset_before_that_nobody_knew():
    assert MINE.largest_before(5, 31) == 0
    assert block([10], p0=column(4, (UNKNOWN, 4, 4, NEW))).largest_before(0, 11) == 4


def test_blocks_that_follow_each_other():
    other = block([40], p0=column(3, (11, 10, 3, RECORD)), p1=column(1, (8, 8, 7, END)))
    assert MINE.merged(other) == block(
        [10, 30, 40],
        p0=column(4, (5, 4, 1, RECORD), (9, 8, 2, END), (11, 10, 3, RECORD)),
        p1=column(6, (6, 6, 6, END), (7, 7, 6, END), (8, 8, 7, END)),
    )


def test_blocks_that_interlock():
    other = block(
        [5, 20], p0=column(3, (2, 1, 0, END), (6, 5, 1, RECORD)), p1=column(1, (3, 3, 3, END), (6, 6, 6, END))
    )
    assert MINE.merged(other) == block(
        [5, 10, 20, 30],
        p0=column(4, (2, 1, 0, END), (5, 4, 1, RECORD), (6, 5, 1, RECORD), (9, 8, 2, END)),
        p1=column(6, (3, 3, 3, END), (6, 6, 6, END), (6, 6, 6, END), (7, 7, 6, END)),
    )


def test_an_instant_before_the_last_of_many():
    three = [(n, n, 0, END) for n in (1, 2, 4)]
    merged = block([10, 15, 30], p0=column(0, *three)).merged(block([20], p0=column(0, (3, 3, 0, RECORD))))
    assert merged == block([10, 15, 20, 30], p0=column(0, *three[:2], (3, 3, 0, RECORD), three[2]))


def test_a_partition_that_only_one_block_knows_is_unknown_in_the_other():
    other = block([20], p2=column(8, (9, 9, 8, RECORD)))
    merged = block([10, 30], p0=MINE.columns[0]).merged(other)
    assert merged == block(
        [10, 20, 30],
        p0=column(4, (5, 4, 1, RECORD), (UNKNOWN, 4, 4, NEW), (9, 8, 2, END)),
        p2=column(8, (UNKNOWN, 8, 8, NEW), (9, 9, 8, RECORD), (UNKNOWN, 8, 8, NEW)),
    )
    assert list(merged.columns) == [0, 2]


def test_a_block_without_instants_adds_partitions_only():
    merged = MINE.merged(block([], p2=column(3)))
    assert merged.instants == array("q", [10, 30])
    assert merged.columns[2] == PartitionColumn.unknown(3, 2)
    assert block([], p2=column(3)).merged(block([20], p0=column(1, (1, 1, 1, END)))) == block(
        [20], p0=column(1, (1, 1, 1, END)), p2=column(3, (UNKNOWN, 3, 3, NEW))
    )


def test_a_block_is_of_one_topic_id():
    assert MINE.key == ("dc1", "bids", "id")
    assert MINE.merged(block([40], p0=column(3, (11, 10, 3, RECORD)))).key == ("dc1", "bids", "id")
