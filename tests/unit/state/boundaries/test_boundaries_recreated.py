"""Topics that are recreated, or gone: which topic's offsets each slice has."""

from __future__ import annotations

import pytest

from sluice.errors import SluiceError
from sluice.manifest import OffsetRange
from sluice.state.boundaries.model import Era, LogEntry
from sluice.state.boundaries.retention import last_seen
from tests.unit.state.boundaries.test_boundaries_model import (
    BIDS,
    BOTH,
    HOUR,
    START,
    at,
    block,
    column,
    log,
    piece,
)

NEW = block([2, 3], column([0, 6]), uuid="new")
RECREATED = log(LogEntry(HOUR, (BIDS,)), LogEntry(HOUR, (NEW,), {("dc1", "bids"): Era("new", at(2))}))


def test_a_topic_that_was_made_again_counts_from_its_instant_on():
    assert RECREATED.uuid("dc1", "bids") == "new"
    assert RECREATED.stored("dc1", "bids") == NEW
    assert RECREATED.ranges(piece(1), "dc1", ["bids"]) == (
        OffsetRange("bids", "id", 0, 8, 8),
        OffsetRange("bids", "id", 1, 4, 9),
    )
    assert RECREATED.ranges(piece(2), "dc1", ["bids"]) == (OffsetRange("bids", "new", 0, 0, 6),)
    assert RECREATED.ranges(piece(3), "dc1", ["bids"]) is None


def test_one_that_is_gone_stands_still_where_it_was_last_seen():
    cut = log(
        LogEntry(HOUR, (block([0, 1], column([5, 8])),)),
        LogEntry(HOUR, (NEW,), {("dc1", "bids"): Era("new", at(2))}),
    )
    assert cut.ranges(piece(1), "dc1", ["bids"]) == (OffsetRange("bids", "id", 0, 8, 8),)
    assert cut.ranges(piece(-3), "dc1", ["bids"]) == (OffsetRange("bids", "id", 0, 5, 5),)
    assert cut.missing([piece(-3), piece(1), piece(3)], "dc1", "bids") == [at(4)]


def test_a_boundary_of_one_that_is_gone_is_the_last_known():
    before = START.subtract(hours=3)
    found, first = RECREATED.offsets("dc1", "bids", before), RECREATED.offsets("dc1", "bids", START)
    assert found is not None and first is not None
    assert (found.uuid, found.instant, found.partitions) == ("id", before, first.partitions)
    assert RECREATED.offsets("dc1", "bids", START.add(hours=4)) is None


def test_a_topic_that_was_made_again_twice():
    newest = block([4], column([0]), uuid="newest")
    state = RECREATED.with_entry(LogEntry(HOUR, (newest,), {("dc1", "bids"): Era("newest", at(4))}))
    assert [era.uuid for era in state.eras["dc1", "bids"]] == ["id", "new", "newest"]
    assert [found.uuid for h in (1, 2, 4) if (found := state.offsets("dc1", "bids", START.add(hours=h)))] == [
        "id",
        "new",
        "newest",
    ]
    assert state.ranges(piece(3), "dc1", ["bids"]) == (OffsetRange("bids", "new", 0, 6, 6),)
    assert last_seen(state, "dc1", "bids") == START.add(hours=3)


def test_until_when_the_topic_before_is_known():
    assert last_seen(RECREATED, "dc1", "bids") == START.add(hours=2)
    assert last_seen(BOTH, "dc1", "bids") is None
    assert last_seen(BOTH, "dc2", "bids") is None
    empty = log(
        LogEntry(HOUR, (block([], column([])),)), LogEntry(HOUR, (NEW,), {("dc1", "bids"): Era("new", at(2))})
    )
    assert last_seen(empty, "dc1", "bids") is None


def test_a_topic_may_be_accepted_before_it_has_a_boundary():
    state = log(LogEntry(HOUR, (), {("dc1", "bids"): Era("id", at(1))}), LogEntry(HOUR, (BIDS,)))
    assert state.eras == {("dc1", "bids"): (Era("id", at(1)),)}
    assert state.ranges(piece(0), "dc1", ["bids"]) is None
    assert state.ranges(piece(1), "dc1", ["bids"]) is not None


def test_what_nobody_accepted_is_told_with_its_entry():
    with pytest.raises(
        SluiceError, match="^boundary log, entry 1: topic dc1/bids has the id new, which was never accepted"
    ):
        BOTH.with_entry(LogEntry(HOUR, (NEW,)))
