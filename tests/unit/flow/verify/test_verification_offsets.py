"""What verify says of neighbours' offsets, and of those of manifests and boundaries, word by word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check_files import check_boundaries, check_lacking, check_neighbours
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import OffsetRange
from sluice.slices import Slice, Unit
from sluice.state.status import LackingTopic, UnitStatus
from tests.support.verified import FACTS, FOUND, START, manifest

REPAIRS = Repairs("ads")
RELAND = "sluice run ads --from 2026-11-20T{}:00Z --to 2026-11-20T{}:00Z --mode reland"
RELAND_TEN = RELAND.format(10, 11)
RESTORE = "the boundary log was changed: put `_boundaries/` back from a copy; manifests hold its offsets too"


def r(start: int, until: int, partition: int = 0, topic: str = "bids", uuid: str = "u1") -> OffsetRange:
    return OffsetRange(topic, uuid, partition, start, until)


def landed(hour: int, *ranges: OffsetRange, cluster: str = "dc1") -> UnitStatus:
    unit = Unit(Slice(START.add(hours=hour)), cluster)
    return replace(FOUND[0], unit=unit, ranges=ranges, manifest=replace(manifest(unit, 0), ranges=ranges))


def facts(*found: UnitStatus) -> VerifyFacts:
    return replace(FACTS, statuses=found)


def neighbours(*found: UnitStatus) -> list[Anomaly]:
    return list(check_neighbours(facts(*found), REPAIRS))


def between(kind: AnomalyKind, expected: str, seen: str, low: int, high: int, **more: object) -> Anomaly:
    known = {"slice": "2026-11-20T11Z", "cluster": "dc1", "topic": "bids", "partition": 0}
    return Anomaly(kind, expected, seen, RELAND.format(10, 12), offsets=(low, high), **{**known, **more})


@pytest.mark.parametrize(
    ("one", "other", "anomaly"),
    [
        (r(0, 10), r(10, 20), None),
        (
            r(5, 10),
            r(5, 10),
            between(
                AnomalyKind.OVERLAP, "offset 10, where 2026-11-20T10Z ends", "5: 5 offsets in both", 5, 10
            ),
        ),
        (
            r(0, 10),
            r(1_234, 2_000),
            between(
                AnomalyKind.GAP,
                "offset 10, where 2026-11-20T10Z ends",
                "1234: 1,224 offsets in neither",
                10,
                1_234,
            ),
        ),
        (
            r(0, 10),
            r(9, 20),
            between(
                AnomalyKind.OVERLAP, "offset 10, where 2026-11-20T10Z ends", "9: 1 offsets in both", 9, 10
            ),
        ),
        (
            r(5, 10),
            r(4, 20),
            between(
                AnomalyKind.BACKWARD, "offset 10, where 2026-11-20T10Z ends", "4: 6 offsets in both", 4, 10
            ),
        ),
    ],
)
def test_neighbours_share_their_boundary(one, other, anomaly):
    assert neighbours(landed(0, one), landed(1, other)) == ([anomaly] if anomaly else [])
    # In whatever order they are looked at.
    assert neighbours(landed(1, other), landed(0, one)) == ([anomaly] if anomaly else [])


def test_offsets_between_slices_that_do_not_meet_are_no_gap():
    assert neighbours(landed(0, r(0, 10)), landed(2, r(15, 20))) == []
    [one] = neighbours(landed(0, r(0, 10)), landed(2, r(9, 20)))
    assert (one.kind, one.slice, one.command) == (
        AnomalyKind.OVERLAP,
        "2026-11-20T12Z",
        RELAND.format(10, 13),
    )


def test_each_partition_and_topic_id_and_cluster_is_compared_with_itself():
    assert neighbours(
        landed(0, r(0, 10), r(3, 5, partition=1), r(7, 9, topic="wins")),
        landed(1, r(10, 11), r(5, 6, partition=1), r(0, 4, uuid="u2"), r(9, 9, topic="wins")),
        landed(1, r(0, 4), cluster="dc0"),
        landed(2, r(12, 13), r(6, 6, partition=1), cluster="dc1"),
    ) == [
        Anomaly(
            AnomalyKind.GAP,
            "offset 11, where 2026-11-20T11Z ends",
            "12: 1 offsets in neither",
            RELAND.format(11, 13),
            slice="2026-11-20T12Z",
            cluster="dc1",
            topic="bids",
            partition=0,
            offsets=(11, 12),
        )
    ]


def test_the_last_slice_that_had_the_partition_is_its_neighbour():
    found = neighbours(landed(0, r(0, 10)), landed(1), landed(2, r(8, 20)), landed(3, r(20, 30)))
    assert [(a.kind, a.slice, a.offsets) for a in found] == [(AnomalyKind.OVERLAP, "2026-11-20T12Z", (8, 10))]


def boundaries(stored: tuple[OffsetRange, ...] | None, mine: tuple[OffsetRange, ...]) -> list[Anomaly]:
    status = landed(0, *mine)
    return list(check_boundaries(facts(replace(status, ranges=stored)), REPAIRS))


def offsets(expected: str, seen: str, low: int, high: int, partition: int = 0) -> Anomaly:
    place = {"slice": "2026-11-20T10Z", "cluster": "dc1", "topic": "bids", "partition": partition}
    return Anomaly(AnomalyKind.OFFSETS, expected, seen, RELAND_TEN, offsets=(low, high), **place)


def no_boundaries() -> Anomaly:
    """Whoever lands the hour again would cut it elsewhere."""
    place = {"slice": "2026-11-20T10Z", "cluster": "dc1"}
    return Anomaly(AnomalyKind.OFFSETS, "the boundaries that it landed by", "none", advice=RESTORE, **place)


@pytest.mark.parametrize(
    ("stored", "mine", "anomalies"),
    [
        ((r(0, 10),), (r(0, 10),), []),
        (None, (r(0, 10),), [no_boundaries()]),
        ((r(0, 10),), (r(0, 9),), [offsets("[0, 10)", "[0, 9) in its manifest", 0, 9)]),
        ((r(3, 3),), (r(3, 9),), [offsets("[3, 3)", "[3, 9) in its manifest", 3, 9)]),
        ((r(3, 9),), (r(3, 3),), [offsets("[3, 9)", "[3, 3) in its manifest", 3, 3)]),
        ((), (r(3, 9),), [offsets("none, by its boundaries", "[3, 9) in its manifest", 3, 9)]),
        (
            (r(0, 10), r(4, 9, partition=1)),
            (r(0, 10),),
            [offsets("[4, 9)", "no such partition in its manifest", 4, 9, partition=1)],
        ),
        # A partition without offsets, a topic that came later.
        ((r(0, 10), r(4, 4, partition=1)), (r(0, 10),), []),
        ((r(0, 10), r(4, 9, topic="wins")), (r(0, 10),), []),
        ((r(0, 10),), (r(0, 10), r(7, 7, partition=2)), []),
        # The same topic recreated: neither id's offsets are the other's.
        (
            (r(0, 5, uuid="u2"),),
            (r(8, 9),),
            [
                offsets("none, by its boundaries", "[8, 9) in its manifest", 8, 9),
                offsets("[0, 5)", "no such partition in its manifest", 0, 5),
            ],
        ),
    ],
)
def test_a_manifests_offsets_are_those_of_its_boundaries(stored, mine, anomalies):
    assert boundaries(stored, mine) == anomalies


def test_hours_in_a_row_that_were_cut_elsewhere_are_landed_again_together():
    """Each alone would take out records that only the other's landing brings back."""
    cut = [replace(landed(hour, r(hour, hour + 1)), ranges=(r(hour, hour + 2),)) for hour in (0, 1, 3)]
    other = replace(landed(2, r(0, 1), cluster="dc2"), ranges=(r(0, 2),))
    found = check_boundaries(facts(*cut, landed(2, r(2, 3)), other), REPAIRS)
    assert [(a.slice[11:13], a.cluster, a.command) for a in found] == [
        ("10", "dc1", RELAND.format(10, 12)),
        ("11", "dc1", RELAND.format(10, 12)),
        ("13", "dc1", RELAND.format(13, 14)),
        ("12", "dc2", RELAND.format(12, 13)),
    ]


def test_a_slice_that_ends_before_it_begins_is_told_once():
    place = {"slice": "2026-11-20T10Z", "cluster": "dc1", "topic": "bids", "partition": 0}
    assert boundaries((r(9, 4), r(7, 7, partition=1)), (r(9, 11),)) == [
        Anomaly(AnomalyKind.BACKWARD, "an end at or after 9", "4", advice=RESTORE, offsets=(4, 9), **place)
    ]
    # And hides nothing of the partitions behind it.
    both = boundaries((r(9, 4), r(0, 5, partition=1)), (r(9, 11), r(0, 6, partition=1)))
    assert [(a.kind, a.partition) for a in both] == [(AnomalyKind.BACKWARD, 0), (AnomalyKind.OFFSETS, 1)]
    bare = replace(landed(0), ranges=(r(9, 4),), manifest=None)
    assert [a.kind for a in check_boundaries(facts(bare), REPAIRS)] == [AnomalyKind.BACKWARD]


def test_offsets_of_a_topic_that_the_hour_landed_without_are_open_until_a_reland():
    lacks = replace(landed(0, r(0, 5)), lacking=(LackingTopic("wins", 12), LackingTopic("views", None)))
    assert list(check_lacking(facts(lacks, landed(1, r(5, 9))), REPAIRS)) == [
        Anomaly(
            AnomalyKind.LACKING,
            "its 12 offsets of the topic",
            "none: it landed while the pipeline file did not name the topic",
            command=REPAIRS.reland(lacks.unit.slice),
            slice="2026-11-20T10Z",
            cluster="dc1",
            topic="wins",
        )
    ]
