"""What the boundary log says, asked in every way that there is."""

from __future__ import annotations

from array import array
from datetime import timedelta

import pendulum
import pytest

from sluice.errors import SluiceError
from sluice.manifest import Loss, OffsetRange
from sluice.slices import Slice
from sluice.state.boundaries.boundary import (
    CODE,
    UNKNOWN,
    Boundary,
    FoundBy,
    PartitionBoundary,
    PartitionColumn,
    TopicBoundaries,
)
from sluice.state.boundaries.model import Boundaries, Era, LogEntry
from sluice.state.boundaries.retention import last_seen, left_behind, rest, retained
from sluice.topic_patterns import TopicPatterns

HOUR = timedelta(hours=1)
START = pendulum.datetime(2026, 11, 20)
RECORD = CODE[FoundBy.RECORD]


def at(hour: int) -> int:
    return START.add(hours=hour).int_timestamp


def piece(hour: int) -> Slice:
    return Slice(START.add(hours=hour))


def column(offsets: list[int], floors: list[int] | None = None, first: int = 0) -> PartitionColumn:
    rows = len(offsets)
    known = array("q", floors or [first if offset == UNKNOWN else offset for offset in offsets])
    return PartitionColumn(
        first, array("q", offsets), known, array("q", [first] * rows), array("b", [RECORD] * rows)
    )


def block(
    hours: list[int], *columns: PartitionColumn, topic: str = "bids", cluster: str = "dc1", uuid: str = "id"
) -> TopicBoundaries:
    return TopicBoundaries(cluster, topic, uuid, array("q", [at(h) for h in hours]), dict(enumerate(columns)))


def log(*entries: LogEntry) -> Boundaries:
    state = Boundaries()
    for entry in entries:
        state = state.with_entry(entry)
    return state


BIDS = block([0, 1, 2], column([5, 8, 8]), column([UNKNOWN, 4, 9], first=4))
WINS = block([1, 2], column([1, 2]), topic="wins")
BOTH = log(LogEntry(HOUR, (BIDS, WINS)))


def test_the_first_entry_gives_the_slices_length():
    assert Boundaries().length is None
    assert log(LogEntry(HOUR, (BIDS,)), LogEntry(HOUR * 2, ())).length == HOUR


def test_the_ranges_of_a_slice_by_topic_and_partition():
    assert BOTH.ranges(piece(1), "dc1", ["wins", "bids"]) == (
        OffsetRange("wins", "id", 0, 1, 2),
        OffsetRange("bids", "id", 0, 8, 8),
        OffsetRange("bids", "id", 1, 4, 9),
    )
    assert BOTH.ranges(piece(0), "dc1", ["bids"]) == (
        OffsetRange("bids", "id", 0, 5, 8),
        OffsetRange("bids", "id", 1, 4, 4),
    )
    assert BOTH.ranges(piece(0), "dc1", ["bids", "wins"]) is None
    assert BOTH.ranges(piece(2), "dc1", ["bids"]) is None
    assert BOTH.ranges(piece(1), "dc2", ["bids"]) is None
    assert BOTH.ranges(piece(-1), "dc1", ["bids"]) is None
    assert BOTH.ranges(piece(1), "dc1", []) == ()


def test_a_partition_that_neither_boundary_knew_has_no_range():
    state = log(
        LogEntry(HOUR, (block([0, 1, 2], column([5, 6, 7]), column([UNKNOWN, UNKNOWN, 3], first=3)),))
    )
    assert state.ranges(piece(0), "dc1", ["bids"]) == (OffsetRange("bids", "id", 0, 5, 6),)
    assert state.ranges(piece(1), "dc1", ["bids"]) == (
        OffsetRange("bids", "id", 0, 6, 7),
        OffsetRange("bids", "id", 1, 3, 3),
    )


def test_a_partition_that_only_the_first_boundary_knew_ends_at_its_log_start():
    state = log(LogEntry(HOUR, (block([0, 1], column([2, UNKNOWN], first=2)),)))
    assert state.ranges(piece(0), "dc1", ["bids"]) == (OffsetRange("bids", "id", 0, 2, 2),)


@pytest.mark.parametrize(
    ("columns", "losses"),
    [
        ((column([5, 9], floors=[5, 9]),), ()),
        ((column([5, 9], floors=[2, 9]),), (Loss("bids", 0, 2, 5, exact=False),)),
        # What is uncertain at its end is the next slice's.
        ((column([5, 9], floors=[5, 6]),), ()),
        # A partition that came within the slice, and had lost records by then.
        ((column([UNKNOWN, 9], first=7),), (Loss("bids", 0, 0, 7, exact=False),)),
        ((column([UNKNOWN, 9], first=1),), (Loss("bids", 0, 0, 1, exact=False),)),
        ((column([UNKNOWN, 9], first=0),), ()),
        # One that comes later, and one that was there before.
        ((column([UNKNOWN, UNKNOWN], first=7),), ()),
        ((column([7, 9], first=7),), ()),
        (
            (column([5, 9], floors=[2, 9]), column([8, 9], floors=[7, 9])),
            (Loss("bids", 0, 2, 5, exact=False), Loss("bids", 1, 7, 8, exact=False)),
        ),
    ],
)
def test_what_had_expired_when_a_slice_was_first_resolved(columns, losses):
    state = log(LogEntry(HOUR, (block([0, 1], *columns),)))
    assert state.expired(piece(0), "dc1", ["bids"]) == losses
    assert state.expired(piece(5), "dc1", ["bids"]) == ()
    assert state.expired(piece(0), "dc1", ["bids", "unknown"]) == losses


def test_a_boundary_by_its_instant():
    found = BOTH.offsets("dc1", "bids", START)
    assert found == Boundary(
        "dc1",
        "bids",
        "id",
        START,
        {
            0: PartitionBoundary(5, FoundBy.RECORD, 0, 5),
            1: PartitionBoundary(4, FoundBy.RECORD, 4, 4),
        },
    )
    assert BOTH.offsets("dc1", "bids", START.add(minutes=30)) is None
    assert BOTH.offsets("dc1", "views", START) is None


def test_instants_that_are_to_look_up():
    assert BOTH.missing([piece(2), piece(1), piece(4)], "dc1", "bids") == [at(3), at(4), at(5)]
    assert BOTH.missing([piece(0)], "dc1", "wins") == [at(0)]
    assert BOTH.missing([piece(0)], "dc1", "views") == [at(0), at(1)]
    assert BOTH.missing([piece(0)], "dc1", "bids") == []


def test_a_topic_without_instants_is_to_look_up():
    state = log(LogEntry(HOUR, (block([], column([])),)))
    assert state.ranges(piece(0), "dc1", ["bids"]) is None
    assert state.missing([piece(0)], "dc1", "bids") == [at(0), at(1)]
    assert (state.span(), state.begin("dc1"), state.end("dc1")) == (None, None, None)
    assert state.clusters == {"dc1"}


def test_entries_add_up():
    state = log(
        LogEntry(HOUR, (block([1, 2], column([5, 9])),), asked={"dc2": at(5), "dc3": at(7)}),
        LogEntry(timedelta(hours=2), (block([0], column([4])), WINS), asked={"dc2": at(3)}),
        LogEntry(HOUR, (), asked={"dc2": at(4)}),
    )
    assert (state.entries, state.length) == (3, HOUR)
    assert state.asked == {"dc2": at(3), "dc3": at(7)}
    assert state.clusters == {"dc1", "dc2", "dc3"}
    assert state.ranges(piece(0), "dc1", ["bids"]) == (OffsetRange("bids", "id", 0, 4, 5),)
    assert state.span() == (START, START.add(hours=2))


def test_the_log_begins_and_ends_for_each_cluster():
    other = block([3, 4, 5], column([0, 0, 0]), cluster="dc2")
    state = log(LogEntry(HOUR, (BIDS, WINS, other), asked={"dc2": at(1), "dc3": at(6)}))
    assert state.span() == (START, START.add(hours=5))
    assert [state.begin(c) for c in ("dc1", "dc2", "dc3", "dc4")] == [
        START,
        START.add(hours=1),
        START.add(hours=6),
        None,
    ]
    assert [state.end(c) for c in ("dc1", "dc2", "dc3")] == [START.add(hours=2), START.add(hours=5), None]
    assert Boundaries().span() is None


def test_the_topic_id_that_stands():
    assert BOTH.uuid("dc1", "bids") == "id"
    assert (BOTH.uuid("dc1", "views"), BOTH.uuid("dc2", "bids")) == (None, None)
    assert BOTH.stored("dc1", "bids") == BIDS
    assert BOTH.stored("dc2", "bids") is None
    assert BOTH.eras == {("dc1", "bids"): (Era("id", None),), ("dc1", "wins"): (Era("id", None),)}


@pytest.mark.parametrize(
    ("start", "losses", "left"),
    [
        (10, (), (10, 20)),
        (11, (Loss("bids", 1, 10, 11, exact=True),), (11, 20)),
        (25, (Loss("bids", 1, 10, 20, exact=True),), (20, 20)),
    ],
)
def test_each_partition_loses_by_its_own_log_start(start, losses, left):
    ranges = (
        OffsetRange("bids", "id", 0, 0, 9),
        OffsetRange("bids", "id", 1, 10, 20),
        OffsetRange("wins", "w", 1, 3, 3),
    )
    starts = {("bids", 0): 0, ("bids", 1): start, ("wins", 1): 99}
    assert retained(ranges, starts) == losses
    assert rest(ranges, starts) == (ranges[0], OffsetRange("bids", "id", 1, *left), ranges[2])


# ---- Topics that are recreated, or gone: which topic's offsets each slice has.

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


def test_what_the_topic_before_had_in_the_slices_of_the_newest():
    columns = (column([5, 8, 9, 12]), column([3, 4, 4, 4]), column([UNKNOWN, UNKNOWN, 2, 7], first=2))
    old = LogEntry(HOUR, (block([0, 1, 2, 4], *columns),))

    def since(hour: int) -> tuple[Loss, ...]:
        new = LogEntry(HOUR, (NEW,), {("dc1", "bids"): Era("new", at(hour))})
        return left_behind(log(old, new), "dc1", "bids")

    first = Loss("bids", 0, 8, 12, exact=True)
    assert since(1) == (first, Loss("bids", 2, 2, 7, exact=True))
    assert since(0) == (
        Loss("bids", 0, 5, 12, exact=True),
        Loss("bids", 1, 3, 4, exact=True),
        Loss("bids", 2, 2, 7, exact=True),
    )
    assert since(-3) == since(0)
    # Between two boundaries the offset is not known: at most these.
    assert since(3) == since(2) == (Loss("bids", 0, 9, 12, exact=True), Loss("bids", 2, 2, 7, exact=True))
    assert since(4) == since(5) == ()


def test_a_topic_that_left_nothing_behind():
    assert left_behind(BOTH, "dc1", "bids") == left_behind(BOTH, "dc2", "bids") == ()
    accepted = {("dc1", "bids"): Era("new", at(2))}
    empty = log(LogEntry(HOUR, (block([], column([])),)), LogEntry(HOUR, (NEW,), accepted))
    assert left_behind(empty, "dc1", "bids") == ()
    never = log(LogEntry(HOUR, (), {("dc1", "bids"): Era("id")}), LogEntry(HOUR, (NEW,), accepted))
    assert left_behind(never, "dc1", "bids") == ()
    for since, left in ((2, (Loss("bids", 0, 0, 6, exact=True),)), (3, ())):
        era = {("dc1", "bids"): Era("newest", at(since))}
        newest = LogEntry(HOUR, (block([4], column([9]), uuid="newest"),), era)
        assert left_behind(RECREATED.with_entry(newest), "dc1", "bids") == left


# ---- What is known of a cluster, of its topics and of patterns.


def test_what_a_cluster_and_its_topics_have():
    other = block([5], column([9]), cluster="dc2")
    state = BOTH.with_entry(LogEntry(HOUR, (other,)))
    assert state.instants("dc1") == {at(0), at(1), at(2)}
    assert state.instants("dc2") == {at(5)}
    assert state.instants("dc3") == frozenset()
    assert (state.topics("dc1"), state.topics("dc2"), state.topics("dc3")) == (
        ("bids", "wins"),
        ("bids",),
        (),
    )
    assert [state.has("dc1", "wins", at(hour)) for hour in (0, 1, 2, 3)] == [False, True, False, False]
    assert [state.has("dc1", "bids", at(hour)) for hour in (-1, 0, 1, 2)] == [False, True, True, False]
    assert not state.has("dc2", "wins", at(1))
    assert [RECREATED.has("dc1", "bids", at(hour)) for hour in (0, 1, 2, 3)] == [True, True, True, False]
    assert not Boundaries().has("dc1", "bids", at(0)) and not Boundaries().passes("dc1", "bids", at(0))


def test_the_highest_log_start_of_a_partition():
    def seen(hours: list[int], *starts: list[int]) -> LogEntry:
        columns = [
            PartitionColumn(
                0, *(array("q", [20] * len(hours)) for _ in range(2)), array("q", of), codes(hours)
            )
            for of in starts
        ]
        return LogEntry(HOUR, (block(hours, *columns),))

    def codes(hours: list[int]) -> array[int]:
        return array("b", [RECORD] * len(hours))

    state = log(seen([1, 2], [7, 3], [0, 0]), seen([0], [5], [4]))
    assert [state.log_start("dc1", "bids", number) for number in (0, 1, 2)] == [7, 4, 0]
    assert state.log_start("dc1", "wins", 0) == state.log_start("dc2", "bids", 0) == 0
    assert log(LogEntry(HOUR, (block([], column([])),))).log_start("dc1", "bids", 0) == 0


BIDS_ALL, WINS_ALL = TopicPatterns(("bids.*",), ()), TopicPatterns(("wins.*",), ("wins.test",))
LISTED = log(
    LogEntry(
        HOUR,
        (block([0, 1, 2], column([1, 2, 3]), topic="bids.a"),),
        listed={"dc1": {BIDS_ALL: frozenset({at(0), at(1)})}},
    ),
    LogEntry(
        HOUR,
        (),
        listed={
            "dc1": {BIDS_ALL: frozenset({at(2), at(3)}), WINS_ALL: frozenset({at(1)})},
            "dc2": {WINS_ALL: frozenset({at(7)})},
        },
    ),
)


def test_which_slices_were_resolved_by_patterns():
    assert [LISTED.lists("dc1", at(hour)) for hour in (-1, 0, 3, 4)] == [False, True, True, False]
    assert [LISTED.lists("dc1", at(hour), BIDS_ALL) for hour in (0, 1, 2, 3, 7)] == [True] * 4 + [False]
    assert [LISTED.lists("dc1", at(hour), WINS_ALL) for hour in (0, 1)] == [False, True]
    assert not LISTED.lists("dc1", at(1), TopicPatterns(("wins.*",), ()))
    assert not LISTED.lists("dc3", at(1))
    assert [LISTED.oldest_listed(cluster) for cluster in ("dc1", "dc2", "dc3")] == [at(0), at(7), None]
    assert [LISTED.newest_listed(cluster) for cluster in ("dc1", "dc2", "dc3")] == [at(3), at(7), None]
    nothing = log(LogEntry(HOUR, (), listed={"dc1": {BIDS_ALL: frozenset()}}))
    assert nothing.newest_listed("dc1") is nothing.oldest_listed("dc1") is None


@pytest.mark.parametrize(
    ("topic", "without"),
    [
        ("bids.a", [2, 3]),
        ("bids.b", [0, 1, 2, 3]),
        ("wins.a", [1]),
        ("wins.test", []),
        ("clicks", []),
    ],
)
def test_slices_that_stay_without_a_topic(topic: str, without: list[int]):
    hours = range(-2, 9)
    assert [h for h in hours if LISTED.stays_without("dc1", topic, at(h))] == without
    # An instant is passed where the slices on both of its sides are.
    assert [h for h in hours if LISTED.passes("dc1", topic, at(h))] == [
        h for h in hours if {h - 1, h} <= {*without}
    ]
    for hour in hours:
        edges = [hour]
        while edges[0] - 1 in without:
            edges.insert(0, edges[0] - 1)
        while edges[-1] in without:
            edges.append(edges[-1] + 1)
        assert LISTED.standstill("dc1", topic, at(hour)) == (at(edges[0]), at(edges[-1]))
    assert not LISTED.stays_without("dc3", topic, at(1))


def test_since_when_a_topic_is_gone():
    assert LISTED.gone_since("dc1", "bids.a") == at(4)
    assert LISTED.gone_since("dc1", "bids.b") is None  # it never had a boundary
    assert LISTED.gone_since("dc2", "bids.a") is None
    back = LISTED.with_entry(LogEntry(HOUR, (block([4, 5], column([3, 4]), topic="bids.a"),)))
    assert back.gone_since("dc1", "bids.a") is None
    again = back.with_entry(LogEntry(HOUR, (), listed={"dc1": {BIDS_ALL: frozenset({at(5)})}}))
    assert again.gone_since("dc1", "bids.a") == at(6)
    assert BOTH.gone_since("dc1", "bids") is None  # no slice was resolved by patterns
    listed = {"dc1": {BIDS_ALL: frozenset({at(1)})}}
    hole = log(LogEntry(HOUR, (block([0, 1, 5], column([1, 2, 3]), topic="bids.a"),), listed=listed))
    assert hole.gone_since("dc1", "bids.a") is None  # it came back
    empty = log(LogEntry(HOUR, (block([], topic="bids.a"),), listed=LISTED.listed))
    assert empty.gone_since("dc1", "bids.a") is None


def test_instants_at_which_a_topic_lacks_its_boundary():
    instants = frozenset(map(at, (-2, -1, 0, 1, 2, 3, 5)))
    assert BOTH.behind("dc1", "bids", [], instants) == {at(3), at(5)}
    assert BOTH.behind("dc1", "bids", [at(-1)], instants) == {at(3), at(5)}
    assert BOTH.behind("dc1", "bids", [at(-2), at(5)], instants) == {at(-1), at(3)}
    assert BOTH.behind("dc1", "clicks", [at(1)], instants) == {at(2), at(3), at(5)}
    assert BOTH.behind("dc1", "clicks", [], instants) == set()
    assert BOTH.behind("dc2", "bids", [at(3)], instants) == {at(5)}
