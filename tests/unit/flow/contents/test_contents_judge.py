"""Rows of a file and records of a unit: each kind of wrong row is told, with the first of them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from sluice.clients.lake import layout
from sluice.config.event import Event
from sluice.flow.contents.check_lake_rows import Fault, IdentityCounter
from sluice.flow.contents.read_rows import FileColumns
from sluice.flow.contents.recompute import FileJudge, TypeFolder
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.manifest import PartitionCount
from tests.support.verified import TEN, manifest

MANIFEST = replace(
    manifest(TEN, 0), rejected_records={}, rejected=(), counts=(PartitionCount("bids", 0, 10, 0),)
)
EVENT = Event.model_validate({"type": {"field": "type"}, "time": {"field": "ts"}})
GOOD = b'{"type": "click", "ts": "2026-11-20T10:15:00Z"}'
TIME = 1_795_169_700_000  # of GOOD: date -d 2026-11-20T10:15:00Z +%s


def rows(count: int = 3, **columns) -> FileColumns:
    found = FileColumns(
        payloads=[GOOD] * count,
        clusters=["dc1"] * count,
        topics=["bids"] * count,
        partitions=[0] * count,
        offsets=list(range(count)),
        stamps=[TIME] * count,
        types=["click"] * count,
        reasons=None,
        numbers=None,
        headers=None,
        times=[TIME] * count,
    )
    return replace(found, **columns)


def wrong(
    given: FileColumns, event: Event = EVENT, folder: str = "type=click/date=2026-11-20/hour=10/x.parquet"
):
    judge = FileJudge([event], MANIFEST, TypeFolder.of(folder))
    judge.take(given)
    return [(one.kind, one.offset, one.rows) for one in judge.wrong.values()]


def test_good_rows():
    assert wrong(rows()) == []
    assert wrong(rows(), folder="type=_overflow/date=2026-11-20/hour=10/x.parquet") == []


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ({"payloads": [GOOD, b"[]", GOOD]}, AnomalyKind.ROW_PAYLOAD),
        ({"payloads": [GOOD, None, GOOD]}, AnomalyKind.ROW_PAYLOAD),
        ({"payloads": [GOOD, GOOD.replace(b"click", b"view"), GOOD]}, AnomalyKind.ROW_TYPE),
        ({"payloads": [GOOD, b'{"type": 5, "ts": "2026-11-20T10:15:00Z"}', GOOD]}, AnomalyKind.ROW_TYPE),
        ({"types": ["click", "view", "click"]}, AnomalyKind.ROW_TYPE),
        ({"payloads": [GOOD, GOOD.replace(b"T10", b"T11"), GOOD]}, AnomalyKind.ROW_HOUR),
        ({"payloads": [GOOD, b'{"type": "click"}', GOOD]}, AnomalyKind.ROW_HOUR),
        ({"times": [TIME, TIME + 1, TIME]}, AnomalyKind.ROW_HOUR),
        ({"times": [TIME, None, TIME]}, AnomalyKind.ROW_HOUR),
        ({"clusters": ["dc1", "dc2", "dc1"]}, AnomalyKind.ROW_IDENTITY),
        ({"topics": ["bids", "other", "bids"]}, AnomalyKind.ROW_IDENTITY),
    ],
)
def test_the_second_row_is_wrong(columns: dict, kind: AnomalyKind):
    assert wrong(rows(**columns)) == [(kind, 1, 1)]


def test_an_offset_of_another_unit():
    assert wrong(rows(offsets=[0, 10, 11])) == [(AnomalyKind.ROW_IDENTITY, 10, 2)]


@pytest.mark.parametrize(
    ("number", "kind"), [("3", "3"), ("-12", "-12"), ("36893488147419103232", "36893488147419103232")]
)
def test_a_whole_number_is_the_type_of_its_digits(number: str, kind: str):
    payload = b'{"type": %s, "ts": "2026-11-20T10:15:00Z"}' % number.encode()
    folder = f"type={kind}/date=2026-11-20/hour=10/x.parquet"
    assert wrong(rows(payloads=[payload] * 3, types=[kind] * 3), folder=folder) == []
    assert wrong(rows(payloads=[payload.replace(b", ", b".0, ")] * 3, types=[kind] * 3), folder=folder) == [
        (AnomalyKind.ROW_TYPE, 0, 3)
    ]


def test_the_folder_decides():
    assert wrong(rows(), folder="type=view/date=2026-11-20/hour=10/x.parquet") == [
        (AnomalyKind.ROW_TYPE, 0, 3)
    ]
    assert wrong(rows(), folder="type=click/date=2026-11-21/hour=10/x.parquet") == [
        (AnomalyKind.ROW_HOUR, 0, 3)
    ]


def test_type_by_header_and_time_by_record():
    event = Event.model_validate({"type": {"header": "table"}, "time": {"record": True}})
    headers = [
        [{"key": "table", "value": b"view"}, {"key": "table", "value": name}]
        for name in (b"click", b"view", None)
    ]
    given = rows(payloads=[b"{}"] * 3, headers=headers)
    assert wrong(given, event) == [(AnomalyKind.ROW_TYPE, 1, 2)]
    late = replace(given, headers=[headers[0]] * 3, stamps=[TIME, TIME, TIME + 3_600_000])
    assert wrong(late, event) == [(AnomalyKind.ROW_HOUR, 2, 1)]


def test_numbers_may_be_a_millisecond_away():
    """2000000000.0005 s is 2033-05-18T03:33:20Z and half a millisecond."""
    event = Event.model_validate({"type": {"field": "type"}, "time": {"field": "ts", "format": "epoch_s"}})
    given = rows(4, payloads=[b'{"type": "click", "ts": 2000000000.0005}'] * 4)
    folder = "type=click/date=2033-05-18/hour=03/x.parquet"
    times = [2_000_000_000_000 + more for more in (-1, 0, 1, 2)]
    assert wrong(replace(given, times=times), event, folder) == [(AnomalyKind.ROW_HOUR, 3, 1)]


def test_type_by_topic():
    event = Event.model_validate({"type": {"topic": True}, "time": {"record": True}})
    assert wrong(rows(), event, "type=bids/date=2026-11-20/hour=10/x.parquet") == [
        (AnomalyKind.ROW_TYPE, 0, 3)
    ]
    assert wrong(rows(types=["bids"] * 3), event, "type=bids/date=2026-11-20/hour=10/x.parquet") == []


@pytest.mark.parametrize("name", ["click", "a/b=c", "100%", "_overflow", "Größe {x}", "a\nb"])
def test_folders_as_the_lake_names_them(name: str):
    key = layout.data_file(layout.event_folder(name, "0999-01-02T03"), "2026-11-20T10Z", "dc1", 1, 0)
    assert TypeFolder.of(key).type == name
    assert TypeFolder.of(layout.event_folder(None, "2026-11-20T10") + "x").type is None


def faults(given: list[FileColumns], **changes) -> list[tuple[str, str]]:
    identities = IdentityCounter(replace(MANIFEST, **changes))
    for part in given:
        identities.take(part)
    return [(fault.expected, fault.seen) for fault in identities.faults()]


def test_each_record_once():
    assert faults([rows(10)]) == []
    assert faults([rows(10, offsets=[*range(9), 8])]) == [
        ("each record once", "1 more"),
        ("10 records in its files", "9"),
    ]
    assert faults([rows(9)]) == [("10 records in its files", "9"), ("10 rows landed", "9")]


def test_a_record_that_is_landed_and_rejected():
    rejected_records = {"rejected_records": {"not JSON": 1}, "counts": (PartitionCount("bids", 0, 10, 1),)}
    refused = rows(1, types=None, reasons=["not JSON"], offsets=[9])
    assert faults([rows(9), refused], **rejected_records) == []
    both = faults([rows(9), replace(refused, offsets=[8])], **rejected_records)
    assert both == [("each record once", "1 more"), ("10 records in its files", "9")]
    assert faults([rows(9), replace(refused, reasons=["no type"])], **rejected_records) == [
        ("0 rejected as 'no type'", "1"),
        ("1 rejected as 'not JSON'", "0"),
    ]


ARRAYS = {
    "rows": 12,
    "empty": 1,
    "rejected_records": {"not JSON": 1},
    "rejected_elements": {"no type": 2},
    "counts": (PartitionCount("bids", 0, 10, 1, 12, 2),),
}
NUMBERED = [(offset, number) for offset in range(8) for number in range(2 if offset < 4 else 1)]


def arrays(landed: list[tuple[int, int]], refused: list[tuple[int, int | None]]) -> list[FileColumns]:
    def part(pairs: list, **columns) -> FileColumns:
        offsets, numbers = [o for o, _ in pairs], [n for _, n in pairs]
        return rows(len(pairs), offsets=offsets, numbers=numbers, **columns)

    reasons = ["not JSON" if number is None else "no type" for _, number in refused]
    return [part(landed), part(refused, types=None, reasons=reasons)]


def test_rows_of_a_record():
    """Two rows of eight records are refused, a ninth record as a whole, and one is empty."""
    taken = [(0, 1), (5, 0)]
    landed = [pair for pair in NUMBERED if pair not in taken]
    assert faults(arrays(landed, [*taken, (8, None)]), **ARRAYS) == []
    renumbered = [(0, 2) if pair == (0, 0) else pair for pair in landed]
    assert faults(arrays(renumbered, [*taken, (8, None)]), **ARRAYS) == [
        ("rows numbered from 0 on", "1 that follow on none")
    ]
    twice = [(1, 0) if pair == (1, 1) else pair for pair in landed]
    assert ("each record once", "1 more") in faults(arrays(twice, [*taken, (8, None)]), **ARRAYS)
    assert ("rows numbered from 0 on", "1 that follow on none") in faults(
        arrays(landed, [*taken, (7, None)]), **ARRAYS
    )


def test_many_rows_in_any_order():
    chance = random.Random(7)
    offsets = list(range(5000))
    chance.shuffle(offsets)
    parts = [rows(500, offsets=offsets[n : n + 500]) for n in range(0, 5000, 500)]
    known = {"read": 5000, "counts": (PartitionCount("bids", 0, 5000, 0),)}
    assert faults(parts, **known) == []
    assert Counter(faults([*parts[:-1], parts[0]], **known)) == Counter(
        [("each record once", "500 more"), ("5,000 records in its files", "4,500")]
    )


# ---- Any offset and any number of a row is told from all others.

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
