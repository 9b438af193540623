"""Partitions that stand still, hour by hour."""

from __future__ import annotations

from array import array
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check import check_stalled
from sluice.slices import SliceRange
from sluice.state.boundaries.boundary import CODE, UNKNOWN, FoundBy, PartitionColumn, TopicBoundaries
from sluice.state.boundaries.model import Boundaries, LogEntry
from tests.support.verified import FACTS, START, pipeline


class TestStalled:
    HOURS = 4
    END = START.add(hours=HOURS)
    PLACE: ClassVar[dict[str, str]] = {"cluster": "dc1", "topic": "bids"}

    def told(self, *partitions: list[int], after: int = 3, **spec: object) -> list[Anomaly]:
        """`partitions`: the offsets at each of the hours' edges."""
        columns = {n: self.column(offsets) for n, offsets in enumerate(partitions)}
        instants = array("q", [START.add(hours=n).int_timestamp for n in range(self.HOURS + 1)])
        blocks = tuple(TopicBoundaries(c, "bids", "id", instants, columns) for c in ("dc1", "dc2"))
        facts = replace(
            FACTS,
            pipeline=pipeline(stalled_after=after, **spec),
            boundaries=Boundaries().with_entry(LogEntry(timedelta(hours=1), blocks)),
            slices=SliceRange(self.END.subtract(hours=1), self.END),
        )
        return list(check_stalled(facts))

    @staticmethod
    def column(offsets: list[int]) -> PartitionColumn:
        """First seen where its first known offset is."""
        first = next(offset for offset in [*offsets, 0] if offset != UNKNOWN) if UNKNOWN in offsets else 0
        known = array("q", offsets)
        found = array("b", [CODE[FoundBy.RECORD]] * len(offsets))
        return PartitionColumn(first, known, known, array("q", [0] * len(offsets)), found)

    def stands(self, partition: int, at: int, since: str = "11:00", slices: int = 3) -> Anomaly:
        return Anomaly(
            AnomalyKind.STALLED,
            "records, as in the topic's other partitions",
            f"none since 2026-11-20T{since}Z, {slices} slices",
            advice="inspect its leader, and what the partitioner of the producers sends there",
            partition=partition,
            offsets=(at, at),
            **self.PLACE,
        )

    MOVES: ClassVar[list[int]] = [1, 2, 3, 4, 5]

    def test_one_that_stands_while_the_other_moves(self):
        assert self.told(self.MOVES, [1, 9, 9, 9, 9]) == [self.stands(1, 9)]
        assert self.told(self.MOVES, [9, 9, 9, 9, 9], [7, 7, 7, 7, 7]) == [
            self.stands(1, 9),
            self.stands(2, 7),
        ]

    def test_it_stands_for_all_of_the_last_slices(self):
        for n in range(1, 4):
            moved = [9 + (edge > n) for edge in range(5)]
            assert self.told(self.MOVES, moved) == []
        assert self.told(self.MOVES, [1, 9, 9, 9, 9], after=4) == []
        assert self.told(self.MOVES, [1, 1, 9, 9, 9], after=2) == [self.stands(1, 9, "12:00", 2)]

    def test_one_that_never_moved_stands_for_a_key_that_nobody_uses(self):
        assert self.told(self.MOVES, [0] * 5) == []
        assert self.told(self.MOVES, [1] * 5) == [self.stands(1, 1)]

    def test_the_others_have_to_move_in_every_slice(self):
        assert self.told([1, 2, 3, 3, 4], [9] * 5) == []
        assert self.told([1, 2, 3, 4, 4], [9] * 5) == []
        assert self.told(self.MOVES, [1, 2, 2, 3, 4], [9] * 5) == []
        assert self.told([3] * 5, [9] * 5) == []

    def test_a_partition_that_came_within_the_slices_moves_too(self):
        assert self.told([UNKNOWN, UNKNOWN, UNKNOWN, 0, 5], [9] * 5) == []

    def test_one_that_came_within_the_slices_and_stands_is_waited_for(self):
        assert self.told(self.MOVES, [UNKNOWN, UNKNOWN, UNKNOWN, 9, 9]) == []
        assert self.told(self.MOVES, [UNKNOWN, 9, 9, 9, 9]) == [self.stands(1, 9)]

    def test_each_cluster_and_topic_is_looked_at(self):
        clusters = [
            {"cluster": c, "bootstrap": "h:1", "topics": ["wins", "bids"]} for c in ("dc0", "dc2", "dc1")
        ]
        found = self.told(self.MOVES, [9] * 5, kafka=clusters)
        assert [(a.cluster, a.topic, a.partition) for a in found] == [("dc2", "bids", 1), ("dc1", "bids", 1)]

    def test_it_can_be_switched_off(self):
        assert self.told(self.MOVES, [9] * 5, after=0) == []
