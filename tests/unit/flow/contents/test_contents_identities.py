"""Any offset and any number of a row is told from all others."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from sluice.flow.contents.check_lake_rows import Fault, IdentityCounter
from sluice.manifest import PartitionCount
from tests.unit.flow.contents.test_contents_judge import MANIFEST, faults, rows

LAST = 2**63 - 1
PLACE = ("bids", 0)


def counted(pairs: list[tuple[int, int | None]], refused: list[tuple[int, int | None]]) -> list[Fault]:
    """The faults of a unit of arrays, in which each record is to have what `pairs` and `refused` say."""
    records = len({offset for offset, _ in (*pairs, *refused)})
    identities = IdentityCounter(replace(MANIFEST, rows=len(pairs), read=records, counts=()))
    for part, reasons in ((pairs, None), (refused, ["no type"] * len(refused))):
        columns = {"offsets": [offset for offset, _ in part], "numbers": [number for _, number in part]}
        identities.take(rows(len(part), reasons=reasons, **columns))
    return [fault for fault in identities.faults() if "rejected as" not in fault.expected]


@pytest.mark.parametrize("first", [2**35 - 5, 2**35, 2**53 - 5, LAST - 9])
def test_large_offsets(first: int):
    known = {"counts": (PartitionCount("bids", 0, 10, 0),)}
    offsets = [first + n for n in range(10)]
    assert faults([rows(10, offsets=offsets)], **known) == []
    assert faults([rows(10, offsets=[*offsets[:9], offsets[0]])], **known) == [
        ("each record once", "1 more"),
        ("10 records in its files", "9"),
    ]
    identities = IdentityCounter(MANIFEST)
    identities.take(rows(2, offsets=[offsets[9]] * 2))
    assert next(identities.faults()) == Fault("each record once", "1 more", PLACE, offsets[9])


def test_many_rows_of_a_record_and_one_that_was_rejected_as_a_whole():
    """A row of any number is none that was rejected as a whole, and no row of the next record."""
    for number in (2**28 - 1, 2**28, 2**31 - 1):
        assert counted([(4, number)], []) == [
            Fault("rows numbered from 0 on", "1 that follow on none", PLACE, 4)
        ]
    assert counted([(5, 0)], [(4, None)]) == []
    assert counted([(5, 0), (5, 1)], [(5, None)]) == [
        Fault("rows numbered from 0 on", "1 that follow on none", PLACE, 5)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_the_same_as_of_sets(seed: int):
    chance = random.Random(seed)
    offsets = chance.sample([0, 1, 2**28, 2**35, 2**35 + 1, 2**36, LAST - 1, LAST, -1, -(2**63)], 6)
    numbers = [0, 1, 2, 3, -1, 2**28 - 1, 2**28, 2**31 - 1, -(2**31)]
    pairs = [(chance.choice(offsets), chance.choice(numbers[: chance.randint(1, 9)])) for _ in range(60)]
    refused = [(chance.choice(offsets), chance.choice([None, 0, 1])) for _ in range(chance.randint(0, 4))]
    times = Counter([*pairs, *refused])
    more = sum(times.values()) - len(times)
    numbers_by_offset = {offset: {n for of, n in times if of == offset} for offset, _ in times}
    wrong = [o for o, own in numbers_by_offset.items() if own != {None} and own != {*range(len(own))}]
    told = {fault.expected: fault for fault in counted(pairs, refused)}
    assert told.keys() == {
        *(["each record once"] if more else []),
        *(["rows numbered from 0 on"] if wrong else []),
    }
    if more:
        assert told["each record once"].seen == f"{more:,} more"
        assert told["each record once"].offset == min(offset for (offset, _), n in times.items() if n > 1)
    if wrong:
        assert told["rows numbered from 0 on"].offset == min(wrong)
