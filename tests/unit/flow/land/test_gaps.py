"""What batches' headers say of offsets without a record: markers and aborted batches explain them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.kafka.fetch import Fetched, not_hidden
from sluice.clients.kafka.record_batch import StoredBatch
from sluice.errors import Conservation, ExpiredMeanwhile
from sluice.flow.land.gaps import NEAR, explain
from sluice.flow.land.task.records import table_of
from sluice.flow.land.task.reports import MOST_GAPS, Gap, SeenOffsets, SeenRecords
from sluice.slices import Unit
from tests.support.landing_world import hours, kafka_batch

LOGS = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3), st.booleans()), min_size=1, max_size=40)
"""Of each batch how many offsets it has, how many are missing before it, and whether it is hidden."""


class Log:
    """Batches of a partition; a fetch gives `each` of them, of the jumping size `few`."""

    def __init__(self, shape: list[tuple[int, int, bool]], each: int, few: int) -> None:
        self.batches: list[StoredBatch] = []
        self.hidden: set[int] = set()
        self.fetches: list[tuple[int, int]] = []
        self.each, self.few, at = each, few, 0
        for size, before, hidden in shape:
            at += before
            self.batches.append(StoredBatch(at, at + size, size))
            at += size
            self.hidden |= set(range(at - size, at)) if hidden else set()
        self.end = at

    def fetch(self, offset: int, most: int) -> Fetched:
        self.fetches.append((offset, most))
        found = [batch for batch in self.batches if batch.until > offset]
        found = found[: self.each if most > 1 << 20 else self.few]
        return Fetched(tuple(found), frozenset(n for n, b in enumerate(found) if b.start in self.hidden))


@given(LOGS, st.integers(1, 9), st.integers(1, 3), st.data())
def test_left_is_what_no_hidden_batch_holds(shape, each, few, data):
    log = Log(shape, each, few)
    offsets = st.lists(st.integers(0, log.end), unique=True, max_size=12).map(sorted)
    edges = data.draw(offsets)
    gaps = list(zip(edges[::2], edges[1::2], strict=False))
    left = not_hidden(log.fetch, gaps)
    inside = [offset for start, until in left for offset in range(start, until)]
    asked = [offset for start, until in gaps for offset in range(start, until)]
    assert inside == [offset for offset in asked if offset not in log.hidden]


def test_it_jumps_between_gaps_that_lie_far_apart_and_reads_on_where_they_are_near():
    markers = [(1000, 0, False), (1, 0, True)] * 50
    log = Log(markers, each=100, few=2)
    gaps = sorted((n, n + 1) for n in log.hidden)
    assert not_hidden(log.fetch, gaps) == []
    assert len(log.fetches) == 2
    far = Log([(1, 0, True), *[(1000, 0, False)] * 200] * 5, each=100, few=2)
    assert not_hidden(far.fetch, sorted((n, n + 1) for n in far.hidden)) == []
    assert [offset for offset, _ in far.fetches] == sorted(far.hidden)


def seen_of(gaps: int, explained: set[int]) -> SeenOffsets:
    """Every second offset is missing, in one slice."""
    seen = SeenRecords()
    for start in range(0, 2 * gaps + 2, 100):
        offsets = np.arange(start, min(start + 100, 2 * gaps + 2), 2)
        batch = kafka_batch(0, [(offset, b"", 0) for offset in offsets.tolist()])
        seen.records(table_of(batch, "c", "t", 0, np.zeros(len(offsets), np.int64)))

    def look(topic: str, partition: int, missing: list[tuple[int, int]]) -> list[tuple[int, int]]:
        assert (topic, partition) == ("t", 0)
        assert missing == [(n, n + 1) for n in range(1, 2 * gaps + 1, 2)]
        return [gap for gap in missing if gap[0] not in explained]

    (found,) = seen.report("c", list(hours(1)), look)
    return found


def test_a_task_counts_what_is_explained_and_tells_the_rest():
    found = seen_of(4 * MOST_GAPS, set(range(1, 8 * MOST_GAPS + 1, 2)) - {7, 9})
    assert (found.hidden, found.gaps) == (4 * MOST_GAPS - 2, (Gap(7, 8), Gap(9, 10)))
    assert found.records + found.hidden + 2 == found.last - found.first + 1
    many = seen_of(4 * MOST_GAPS, {1})
    assert (many.hidden, many.gaps) == (1, (Gap(3, 8 * MOST_GAPS, 4 * MOST_GAPS - 1),))


class Headers:
    """Topics of which headers explain all but `shown`, and of which nobody may read the records."""

    def __init__(self, shown: list[tuple[int, int]]) -> None:
        self.shown = shown
        self.asked: list[tuple[int, int]] = []

    def left(self, topic, partition, gaps):
        self.asked += gaps
        return self.shown

    def records(self, topic, partition, start, end):
        raise AssertionError("nobody may read them")

    def unhidden(self, topic, partition, gaps):
        self.bare = list(gaps)
        return None


def test_the_driver_reads_only_what_headers_leave():
    units = [Unit(piece, "dc1") for piece in hours(2)]
    place = ("t", 0)
    gaps = {units[0]: {place: [Gap(3, 5), Gap(8, 9)]}, units[1]: {place: [Gap(9, 12), Gap(20, 30, 4)]}}
    topics = Headers([(8, 10)])
    topics.records = lambda *_: iter([(offset, 0) for offset in range(20, 26)])
    explain(topics, gaps, {place: 0})
    assert topics.asked == [(3, 5), (8, 9), (9, 12)]
    assert topics.bare == [(8, 9), (9, 10), (26, 30)]


class Shown(Headers):
    """Topics of which headers explain nothing, and of which a consumer reads `offsets`. `spans` are what it
    was asked to read."""

    def __init__(self, offsets: set[int], bare: tuple[int, int] | None = None) -> None:
        super().__init__([])
        self.offsets, self.first_bare = offsets, bare
        self.spans: list[tuple[int, int]] = []

    def left(self, topic, partition, gaps):
        return list(gaps)

    def records(self, topic, partition, start, end):
        self.spans.append((start, end))
        return iter([(offset, 0) for offset in range(start, end) if offset in self.offsets])

    def unhidden(self, topic, partition, gaps):
        return self.first_bare


UNITS = [Unit(piece, "dc1") for piece in hours(2)]
PLACE = ("t", 0)


def test_gaps_far_apart_are_read_apart():
    first, near, far = Gap(10, 12), Gap(12 + NEAR, 15 + NEAR), Gap(16 + 2 * NEAR, 17 + 2 * NEAR)
    topics = Shown(set())
    explain(topics, {UNITS[0]: {PLACE: [first, near, far]}}, {PLACE: 10})
    assert topics.spans == [(10, 15 + NEAR), (16 + 2 * NEAR, 17 + 2 * NEAR)]
    assert NEAR == 20_000


def test_a_gap_that_the_log_has_passed_has_expired():
    with pytest.raises(ExpiredMeanwhile, match=r"2026-01-01T01Z.*\[7, 9\)|\[7, 9\).*2026-01-01T01Z"):
        explain(Shown(set()), {UNITS[1]: {PLACE: [Gap(7, 12)]}}, {PLACE: 9})


def test_a_record_that_a_consumer_meets_in_a_gap_is_refused():
    with pytest.raises(Conservation) as error:
        explain(Shown({8}), {UNITS[1]: {PLACE: [Gap(7, 9)]}}, {PLACE: 0})
    where = "slice 2026-01-01T01Z/dc1: in offsets [7, 9) of dc1/t/0"
    assert str(error.value).startswith(f"{where} Spark read 0 records and a plain consumer 1: ")


def test_a_lost_record_is_of_the_unit_that_has_its_offset():
    gaps = {UNITS[0]: {PLACE: [Gap(7, 9)]}, UNITS[1]: {PLACE: [Gap(9, 11)]}}
    with pytest.raises(
        Conservation, match=r"^slice 2026-01-01T01Z/dc1: offsets \[9, 11\) of dc1/t/0 hold no"
    ):
        explain(Shown(set(), bare=(9, 11)), gaps, {PLACE: 0})


def test_gaps_of_which_none_is_exact_are_not_asked_for_by_headers():
    class Joined(Shown):
        def left(self, topic, partition, gaps):
            raise AssertionError("nothing to ask")

    explain(Joined({3}), {UNITS[0]: {PLACE: [Gap(2, 5, 2)]}}, {PLACE: 0})
