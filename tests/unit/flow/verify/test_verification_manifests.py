"""The counts within one manifest, word by word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check_files import check_conservation, lost_of
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import LandedFile, Loss, Manifest, PartitionCount
from tests.support.verified import FACTS, FOUND, TEN, manifest, with_manifest
from tests.unit.flow.verify.test_verification_offsets import r

REPAIRS = Repairs("ads")
RELAND_TEN = "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --mode reland"


def conservation(changed: VerifyFacts) -> list[tuple[str, str, str]]:
    found = list(check_conservation(changed, REPAIRS))
    assert {(a.slice, a.cluster, a.command, a.advice) for a in found} <= {
        ("2026-11-20T10Z", "dc1", RELAND_TEN, "")
    }
    return [(str(a.kind), a.expected, a.seen) for a in found]


def loss(start: int, until: int, partition: int = 0, topic: str = "bids") -> Loss:
    return Loss(topic, partition, start, until, exact=True)


@pytest.mark.parametrize(
    ("lost", "offsets"),
    [
        ((), 0),
        ((loss(0, 4),), 4),
        ((loss(0, 12), loss(18, 99)), 4),
        ((loss(12, 15), loss(16, 17)), 4),
        ((loss(0, 10), loss(20, 30)), 0),
        ((loss(0, 5), loss(25, 30)), 0),
        ((loss(10, 20, partition=1), loss(10, 20, topic="wins")), 0),
    ],
)
def test_what_of_a_range_was_lost(lost, offsets):
    wide = r(0, 10) if lost == (loss(0, 4),) else r(10, 20)
    assert lost_of(replace(manifest(TEN, 0), lost=lost), wide) == offsets


def test_records_are_offsets_without_gaps_and_losses():
    assert conservation(FACTS) == []
    ranges = (r(0, 3_000), r(0, 2_000, partition=1))
    lost = (loss(0, 1_200),)
    counts = (PartitionCount("bids", 0, 1_000, 0), PartitionCount("bids", 1, 1_499, 1))
    known = {"ranges": ranges, "lost": lost, "counts": counts}
    files = (LandedFile("a", "b", "click", "2026-11-20T10", 2_498, 1, "x"),)
    assert conservation(with_manifest(**known, read=2_499, gaps=1_301, files=files)) == []
    assert conservation(with_manifest(**known, read=2_499, gaps=1_300, files=files)) == [
        ("records read", "2,500 records of 5,000 offsets", "2,499 read, 1,300 gaps, 1,200 lost")
    ]


def test_partitions_sum_up_to_the_records():
    counts = (PartitionCount("bids", 0, 1_009, 1), PartitionCount("bids", 1, 991, 0))
    files = (LandedFile("a", "b", "click", "2026-11-20T10", 1_999, 1, "x"),)
    known = {"ranges": (r(0, 1_009), r(0, 991, partition=1)), "files": files}
    assert conservation(with_manifest(**known, read=2_000, counts=counts)) == []
    [one] = conservation(with_manifest(**known, read=2_000, counts=(counts[0], replace(counts[1], read=990))))
    assert one == ("records read", "1,999 records, by partition", "2,000 read")


def test_rows_in_the_files_are_the_records_that_were_parsed():
    first, second = manifest(TEN, 0).files
    files = (replace(first, rows=1_006), second)
    known = {"read": 1_010, "ranges": (r(0, 1_010),), "counts": (PartitionCount("bids", 0, 1_010, 1),)}
    assert conservation(with_manifest(**known, files=files)) == []
    assert conservation(with_manifest(**known, files=(first, second))) == [
        ("rows landed", "1,009 rows of as many records parsed", "9 in its files")
    ]


def test_rejected_files_hold_what_was_rejected_records():
    bad = manifest(TEN, 0).rejected[0]
    assert conservation(with_manifest(rejected=(bad, replace(bad, rows=1_234)))) == [
        ("records rejected", "1 in _rejected/", "1,235")
    ]
    many = {"rejected_records": {"not JSON": 1_001}, "read": 1_010, "ranges": (r(0, 1_010),)}
    counts = (PartitionCount("bids", 0, 1_010, 1_001),)
    assert conservation(with_manifest(**many, counts=counts)) == [
        ("records rejected", "1,001 in _rejected/", "1")
    ]


ARRAYS = {
    "rows": 1_011,
    "rejected_elements": {"no type": 2},
    "empty": 3,
    "files": (LandedFile("a", "b", "click", "2026-11-20T10", 1_009, 1, "x"),),
    "rejected": (LandedFile("c", "d", None, "", 3, 1, "x"),),
    "counts": (PartitionCount("bids", 0, 10, 1, 1_011, 2),),
}


def test_rows_of_arrays():
    assert conservation(with_manifest(**ARRAYS)) == []
    assert conservation(with_manifest(**{**ARRAYS, "files": ()})) == [
        ("rows landed", "1,009 rows of the 1,011 in 9 records parsed", "0 in its files")
    ]
    fewer = (PartitionCount("bids", 0, 10, 1, 1_010, 2),)
    assert conservation(with_manifest(**{**ARRAYS, "counts": fewer})) == [
        ("rows landed", "1,010 rows, by partition", "1,011")
    ]
    bare = (PartitionCount("bids", 0, 10, 1),)
    assert conservation(with_manifest(**{**ARRAYS, "counts": bare})) == [
        ("rows landed", "0 rows, by partition", "1,011")
    ]


def test_a_record_that_is_not_empty_holds_a_row():
    many = {
        "read": 1_210,
        "ranges": (r(0, 1_210),),
        "rows": 1_206,
        "rejected_elements": {},
        "empty": 3,
        "files": (LandedFile("a", "b", "click", "2026-11-20T10", 1_206, 1, "x"),),
        "counts": (PartitionCount("bids", 0, 1_210, 1, 1_206),),
    }
    assert conservation(with_manifest(**many)) == []
    assert conservation(with_manifest(**{**many, "empty": 2})) == [
        ("rows landed", "at least 1,207 rows of as many records that are not empty", "1,206")
    ]


@pytest.mark.parametrize(
    ("read", "rejected_records", "most", "fits"),
    [
        (10, 1, 10, True),
        (0, 0, 0, True),
        (5, 5, 5, True),
        (5, 6, 5, False),
        (5, -1, 5, False),
        (11, 0, 10, False),
    ],
)
def test_a_partition_brings_no_more_than_its_offsets(read, rejected_records, most, fits):
    counts = (PartitionCount("bids", 0, read, rejected_records), PartitionCount("bids", 3, 99, 0))
    changed = with_manifest(
        ranges=(r(1_000, 1_003 + most), r(0, 5, partition=1)), counts=counts, lost=(loss(0, 1_003),)
    )
    found = [a for a in check_conservation(changed, REPAIRS) if a.topic]
    assert fits == (found == [])
    if not fits:
        place = {"slice": "2026-11-20T10Z", "cluster": "dc1", "topic": "bids", "partition": 0}
        assert found == [
            Anomaly(
                AnomalyKind.READ,
                f"at most {most} records",
                f"{read} read, {rejected_records} rejected",
                RELAND_TEN,
                offsets=(1_000, 1_003 + most),
                **place,
            )
        ]


def test_numbers_of_a_partition_are_told_in_thousands():
    counts = (PartitionCount("bids", 0, 2_000, 1_500),)
    [one] = [
        a for a in check_conservation(with_manifest(ranges=(r(0, 1_000),), counts=counts), REPAIRS) if a.topic
    ]
    assert (one.expected, one.seen) == ("at most 1,000 records", "2,000 read, 1,500 rejected")


def test_a_manifest_of_every_slice_is_looked_at():
    both = tuple(replace(s, manifest=replace(s.manifest, gaps=1)) for s in FOUND)
    found = list(check_conservation(replace(FACTS, statuses=both), REPAIRS))
    assert [a.slice for a in found] == ["2026-11-20T10Z", "2026-11-20T11Z"]
    assert isinstance(both[0].manifest, Manifest)
