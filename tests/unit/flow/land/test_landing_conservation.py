"""Offsets in range = records read + gaps, offset by offset, and what is refused in which words."""

from __future__ import annotations

import re

import pytest

from sluice.errors import Conservation
from sluice.flow.land.conservation import check_rows
from sluice.flow.land.gaps import gaps_of, refuse, refuse_bare, unexplained
from sluice.flow.land.task.reports import Gap, SeenOffsets, WrittenFile
from sluice.manifest import OffsetRange
from sluice.slices import Slice, Unit
from tests.support.landing_world import START

UNIT = Unit(Slice(START), "dc1")
AGAIN = "nothing was committed; land the slice again and report it if it happens twice"


def seen(
    first: int, last: int, *gaps: Gap, partition: int = 0, records: int | None = None, **more: object
) -> SeenOffsets:
    brought = last - first + 1 - sum(gap.missing for gap in gaps)
    return SeenOffsets(
        "dc1",
        UNIT.slice.id,
        "bids",
        partition,
        first,
        last,
        brought if records is None else records,
        gaps,
        **more,
    )


def ranges(*edges: tuple[int, int]) -> list[OffsetRange]:
    return [OffsetRange("bids", "id", number, *edge) for number, edge in enumerate(edges)]


@pytest.mark.parametrize(
    ("parts", "gaps"),
    [
        ([seen(10, 19)], []),
        ([seen(15, 19), seen(10, 14)], []),
        ([], [Gap(10, 20)]),
        ([seen(11, 19)], [Gap(10, 11)]),
        ([seen(10, 18)], [Gap(19, 20)]),
        ([seen(10, 12), seen(14, 19)], [Gap(13, 14)]),
        ([seen(10, 19, Gap(12, 15))], [Gap(12, 15)]),
        ([seen(10, 19, Gap(12, 15), records=4, hidden=3)], [Gap(12, 15)]),
        ([seen(10, 19, Gap(11, 14, missing=2), Gap(16, 18))], [Gap(11, 14, missing=2), Gap(16, 18)]),
        ([seen(17, 17), seen(11, 15, Gap(12, 13))], [Gap(10, 11), Gap(12, 13), Gap(16, 17), Gap(18, 20)]),
    ],
)
def test_gaps_are_the_offsets_that_no_task_brought(parts, gaps):
    expected = {("bids", 0): gaps} if gaps else {}
    assert gaps_of(UNIT, ranges((10, 20)), parts) == expected


def test_each_partition_has_its_own_gaps():
    parts = [seen(5, 6, partition=1), seen(0, 9)]
    assert gaps_of(UNIT, ranges((0, 10), (5, 8), (3, 4), (7, 7)), parts) == {
        ("bids", 1): [Gap(7, 8)],
        ("bids", 2): [Gap(3, 4)],
    }


@pytest.mark.parametrize(
    ("parts", "offset", "place", "what"),
    [
        ([seen(10, 14), seen(14, 19)], 14, "bids/0", "brought twice or not asked for"),
        ([seen(9, 19)], 9, "bids/0", "brought twice or not asked for"),
        ([seen(12, 20)], 12, "bids/0", "brought twice or not asked for"),
        ([seen(10, 14), seen(15, 19, records=4)], 15, "bids/0", "counted wrong"),
        ([seen(10, 19, Gap(12, 13), records=10)], 10, "bids/0", "counted wrong"),
        ([seen(10, 19), seen(3, 4, partition=7)], 3, "bids/7", "not asked for"),
    ],
)
def test_what_was_brought_twice_or_from_elsewhere_is_refused(parts, offset, place, what):
    where = f"slice 2026-01-01T00Z/dc1: offset {offset} of dc1/{place}"
    words = f"{where} was {what} by Spark's Kafka source: {AGAIN}"
    with pytest.raises(Conservation, match=f"^{re.escape(words)}$"):
        gaps_of(UNIT, ranges((10, 20)), parts)


@pytest.mark.parametrize(
    ("gap", "visible", "wrong"),
    [
        (Gap(5, 9), 0, False),
        (Gap(5, 9), 1, True),
        (Gap(5, 9, missing=3), 1, False),
        (Gap(5, 9, missing=3), 0, True),
    ],
)
def test_a_second_look_has_to_meet_what_was_read(gap, visible, wrong):
    assert unexplained(gap, visible) is wrong


def test_a_refusal_says_both_numbers_and_the_place():
    said = refuse(UNIT, ("bids", 3), Gap(5, 19, missing=10), 6)
    assert str(said) == (
        "slice 2026-01-01T00Z/dc1: in offsets [5, 19) of dc1/bids/3 Spark read 4 records and a plain "
        "consumer 6: nothing was committed; land the slice again"
    )
    assert str(refuse_bare(UNIT, ("bids", 3), (7, 9))) == (
        "slice 2026-01-01T00Z/dc1: offsets [7, 9) of dc1/bids/3 hold no record, and neither compaction nor a "
        "transaction explains it: the broker has lost them; nothing was committed: inspect its log (an "
        "unclean leader election?), or, if the topic was compacted before, give it `compact` in "
        "cleanup.policy back until the slice has landed"
    )


def file(rows: int, hour: str = "2026-01-01T00") -> WrittenFile:
    return WrittenFile("dc1", "s", "click" if hour else None, hour, "k", rows, 1, "")


def part(
    records: int,
    rejected_records: dict[str, int] | None = None,
    rows: int | None = None,
    lost: dict | None = None,
    **more: int,
) -> SeenOffsets:
    return SeenOffsets(
        "dc1", "s", "bids", 0, 0, records - 1, records, (), rejected_records or {}, rows, lost or {}, **more
    )


@pytest.mark.parametrize(
    ("parts", "files"),
    [
        ([part(5, {"no value": 1, "not JSON": 2})], [file(2), file(3, "")]),
        ([part(5, {"not JSON": 1}), part(7, {"not JSON": 2})], [file(8), file(1), file(1, ""), file(2, "")]),
        ([part(5, {"not JSON": 1}, 20, {"no type": 2, "not UTF-8": 1})], [file(17), file(4, "")]),
        # Erased rows are in no file, and neither are records whose bytes the lake has forgotten.
        ([part(9, {"not JSON": 3}, erased=2)], [file(4), file(3, "")]),
        ([part(9, {"not JSON": 3}, without_bytes=2)], [file(6), file(1, "")]),
        # A task of which no record was an array of rows, beside one that had them.
        ([part(2, {"not JSON": 2}, 0), part(1, {}, 3)], [file(3), file(2, "")]),
    ],
)
def test_files_hold_what_was_parsed_and_what_was_refused(parts, files):
    check_rows(UNIT, parts, files)
    for number, one in enumerate(files):
        wrong = [*files[:number], file(one.rows - 1, one.hour), *files[number + 1 :]]
        with pytest.raises(Conservation, match="nothing was committed"):
            check_rows(UNIT, parts, wrong)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([file(1_999), file(1, "")], "2,000 rows were parsed, and the files hold 1,999 of them"),
        ([file(2_000), file(3, "")], "1 rows were refused, and the files hold 3 of them"),
    ],
)
def test_what_the_files_lack_is_told(files, words):
    with pytest.raises(Conservation, match=f"^slice 2026-01-01T00Z/dc1: {words}: {AGAIN}$"):
        check_rows(UNIT, [part(2_001, {"not JSON": 1})], files)
