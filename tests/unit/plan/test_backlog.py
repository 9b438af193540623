"""Hours before the hourly run's own range: which are not complete, and what each run does of them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import timedelta

import pendulum
import pytest

from sluice.config.pipeline import Pipeline
from sluice.flow.resolve.resolve import resolve
from sluice.manifest import Loss, OffsetRange
from sluice.plan.backlog import Backlog, backlog_of, batches_of, chosen, hours_until, stuck, unlanded, windows
from sluice.plan.batches import MAX_ROWS
from sluice.slices import Slice, SliceRange, Unit
from sluice.state import months
from sluice.state.boundaries.boundary import CODE, UNKNOWN, FoundBy, PartitionColumn, TopicBoundaries
from sluice.state.boundaries.model import Boundaries, Era
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.fakes import FakeKafka, FakeTopic, MemoryLake
from tests.support.page_world import START, complete, missing, pipeline, unit

TWO = [{"cluster": c, "bootstrap": "x:1", "topics": ["t"]} for c in ("dc1", "dc2")]
LOST = (Loss("t", 0, 0, 5, exact=True),)


def span(first: int, last: int) -> SliceRange:
    return SliceRange(START.add(hours=first), START.add(hours=last))


def resolved(spec: Pipeline, lake: MemoryLake, slices: SliceRange, silent: Sequence[str] = ()) -> Boundaries:
    topics = {(cluster, "t"): FakeTopic(f"u-{cluster}", {0: []}) for cluster in ("dc1", "dc2")}
    kafka = FakeKafka(topics, set(silent))
    return resolve(spec, lake, list(slices), START.add(days=90), kafka.topics_of).boundaries


def seen(spec: Pipeline, lake: MemoryLake, boundaries: Boundaries, until: int) -> dict[str, str]:
    hours = hours_until(spec, boundaries, START.add(hours=until))
    assert hours is not None
    found = backlog_of(spec, boundaries, hours, months.read_summaries(lake, hours))
    return {str(unit): str(state) for unit, state in found.states.items()}


def to_load(
    hour: int, state: UnitState = UnitState.MISSING, rows: int = 10, cluster: str = "dc1"
) -> UnitStatus:
    """Resolved, `rows` offsets, nothing landed."""
    ranges = (OffsetRange("t", "u", 0, 0, rows),)
    losses = LOST if state is UnitState.EXPIRED else ()
    return UnitStatus(unit(hour, cluster), state, ranges, losses, None, {}, (), 1)


def test_hours_that_were_never_resolved_are_found_between_those_that_were():
    """The DAG was paused from hour 2 to hour 6, and heals one hour: nobody has ever asked for hours 2 … 4."""
    spec, lake = pipeline(), MemoryLake()
    resolved(spec, lake, span(0, 2))
    boundaries = resolved(spec, lake, span(5, 7))
    months.note(lake, [complete(unit(0)), complete(unit(1)), missing(unit(5)), complete(unit(6))])
    assert seen(spec, lake, boundaries, until=5) == {
        f"2026-11-20T{hour}Z/dc1": "missing" for hour in (12, 13, 14)
    }


def test_what_is_not_complete_stays_until_it_is():
    spec, lake = pipeline(), MemoryLake()
    boundaries = resolved(spec, lake, span(0, 5))
    whole = complete(unit(0))
    found = [whole, missing(unit(1)), missing(unit(2), UnitState.EXPIRED, LOST), complete(unit(3), lost=LOST)]
    months.note(lake, [*found, missing(unit(4), UnitState.LANDED)])
    assert found[3].state is UnitState.COMPLETE_WITH_LOSS
    assert seen(spec, lake, boundaries, until=5) == {
        "2026-11-20T11Z/dc1": "missing",
        "2026-11-20T12Z/dc1": "expired",
        "2026-11-20T14Z/dc1": "landed",
    }
    months.note(lake, [complete(unit(1)), complete(unit(4))])
    assert seen(spec, lake, boundaries, until=5) == {"2026-11-20T12Z/dc1": "expired"}


def test_hours_begin_at_the_files_start_else_at_the_first_boundary():
    lake = MemoryLake()
    boundaries = resolved(pipeline(), lake, span(2, 4))
    assert hours_until(pipeline(), boundaries, START.add(hours=9)) == span(2, 9)
    assert hours_until(pipeline(), Boundaries(), START.add(hours=9)) is None
    early, late = pipeline(start=START.add(hours=-3)), pipeline(start=START.add(hours=3))
    assert hours_until(early, boundaries, START.add(hours=9)) == span(-3, 9)
    assert hours_until(late, boundaries, START.add(hours=9)) == span(3, 9)
    assert hours_until(late, boundaries, START.add(hours=3)) is None


def test_a_cluster_that_was_added_later_is_missed_from_its_first_hour_on():
    both, lake = pipeline(kafka=TWO), MemoryLake()
    resolved(pipeline(kafka=TWO[:1]), lake, span(0, 3))
    boundaries = resolved(both, lake, span(3, 5), silent=["dc2"])
    months.note(lake, [complete(unit(hour)) for hour in range(5)])
    assert seen(both, lake, boundaries, until=5) == {
        "2026-11-20T13Z/dc2": "missing",
        "2026-11-20T14Z/dc2": "missing",
    }


def test_of_a_cluster_that_was_taken_away_only_what_has_landed_is_missed():
    lake = MemoryLake()
    boundaries = resolved(pipeline(kafka=TWO), lake, span(0, 3))
    months.note(lake, [complete(unit(hour)) for hour in range(3)])
    months.note(
        lake, [missing(unit(0, "dc2")), missing(unit(1, "dc2"), UnitState.LANDED), complete(unit(2, "dc2"))]
    )
    assert seen(pipeline(kafka=TWO[:1]), lake, boundaries, until=3) == {"2026-11-20T11Z/dc2": "landed"}


def test_a_look_takes_out_what_is_done_and_keeps_what_kafka_was_seen_to_lack():
    backlog = Backlog({unit(0): UnitState.MISSING, unit(1): UnitState.EXPIRED, unit(2): UnitState.MISSING})
    after = backlog.seen(
        [complete(unit(0)), missing(unit(1)), missing(unit(2), UnitState.LANDED), missing(unit(9))]
    )
    assert after.states == {unit(1): UnitState.EXPIRED, unit(2): UnitState.LANDED}
    assert str(after) == (
        "2 slices from 2026-11-20T11Z to 2026-11-20T12Z are not complete (1 expired, 1 landed)"
    )
    assert str(after.outside(span(2, 3))) == "1 slice, 2026-11-20T11Z, is not complete (1 expired)"


def test_what_has_expired_holds_up_nothing_unless_its_rest_shall_land():
    backlog = Backlog(
        {unit(0): UnitState.EXPIRED, unit(1): UnitState.MISSING, unit(2, "dc2"): UnitState.MISSING}
    )
    assert stuck(backlog, "fail", ["dc2"]) == {unit(0), unit(2, "dc2")}
    assert stuck(backlog, "land_rest") == frozenset()
    landed = Backlog({unit(2, "dc2"): UnitState.LANDED, unit(3, "dc2"): UnitState.STALE})
    assert stuck(landed, "fail", ["dc2"]) == frozenset()
    found = [to_load(0), to_load(1, UnitState.EXPIRED), to_load(2), to_load(3, UnitState.EXPIRED)]
    assert batches_of(found, "fail", 0) == [span(0, 1), span(2, 3)]
    assert batches_of(found, "land_rest", 3) == [span(0, 3), span(3, 4)]
    assert batches_of(found[1:2], "fail", 0) == []


def test_an_hour_of_which_one_cluster_has_expired_is_a_batch_of_its_own():
    found = [to_load(hour, cluster=c) for hour in range(5) for c in ("dc1", "dc2")]
    found[5] = to_load(2, UnitState.EXPIRED, cluster="dc2")
    assert batches_of(found, "fail", 0) == [span(0, 1), span(1, 2), span(2, 3), span(3, 5)]


def test_a_run_takes_one_batch_of_rows_at_most():
    found = [to_load(hour, rows=MAX_ROWS // 4) for hour in range(24)]
    assert batches_of(found, "fail", 3) == [span(0, 3), span(3, 4)]


def test_windows_span_ten_days_of_hours():
    units = [unit(hour) for hour in (0, 1, 239, 240, 900)]
    assert windows(units) == [span(0, 240), span(240, 241), span(900, 901)]
    quarter = timedelta(minutes=15)
    (one, two) = windows([Unit(Slice(START + quarter * n, quarter), "dc1") for n in range(241)])
    assert (len(one), len(two)) == (240, 1)
    assert chosen([], 7) == (None, 0)


@pytest.mark.parametrize("bad", [{0}, {5}, {29}, {0, 1, 2}, {3, 4, 17, 18, 29}, set(range(0, 30, 2))])
def test_hours_that_fail_each_time_hold_up_no_others_for_good(bad: set[int]):
    """Thirty hours in windows of ten; a batch that holds a bad hour does nothing. All others are done within
    as many runs as it takes each hour to be alone once in every window."""
    left = set(range(30))
    for turn in range(2 * 3 * 30):
        open_windows = windows((unit(hour) for hour in left), most=10)
        window, number = chosen(open_windows, turn)
        found = [
            to_load(hour) for hour in sorted(left) if window.start <= unit(hour).slice.start < window.end
        ]
        for batch in batches_of(found, "fail", number):
            inside = {hour for hour in left if batch.start <= unit(hour).slice.start < batch.end}
            left -= set() if inside & bad else inside
    assert left == bad


def test_without_bad_hours_every_run_takes_all_of_its_window():
    found = [to_load(hour) for hour in range(10)]
    for number in range(20):
        taken = [piece for batch in batches_of(found, "fail", number) for piece in batch]
        assert taken == [status.unit.slice for status in found]


def test_three_years_of_hours_are_known_by_their_summaries():
    """Every hour complete but one, three years ago; nothing but summaries and boundary log is read."""
    first = pendulum.datetime(2023, 11, 20)
    spec, lake = pipeline(start=first), MemoryLake()
    hours = SliceRange(first, first.add(years=3))
    whole = complete(unit(0))
    months.note(
        lake,
        [UnitStatus(Unit(piece, "dc1"), UnitState.COMPLETE, whole.ranges, (), whole.manifest, {}, (), 1)
         for number, piece in enumerate(hours) if number != 5],
    )  # fmt: skip
    assert {key[:9] for key in lake.objects} == {"_summary/"}
    found = backlog_of(spec, Boundaries(), hours, months.read_summaries(lake, hours))
    assert {str(one) for one in found.states} == {"2023-11-20T05Z/dc1"}


# ---- The backlog case by case: its words, the windows that runs take in turn, offsets that are not landed.

MISSING, EXPIRED = UnitState.MISSING, UnitState.EXPIRED


def test_nothing_is_left():
    assert not Backlog()
    assert (Backlog().states, Backlog().slices, Backlog().unlanded(5)) == ({}, [], [])


def test_from_the_first_slice_to_the_last():
    quarter = timedelta(minutes=15)
    units = [Unit(Slice(START + quarter * n, quarter), "dc1") for n in (6, 1, 3)]
    backlog = Backlog(dict.fromkeys(units, MISSING))
    assert backlog
    assert backlog.range == SliceRange(START + quarter, START + quarter * 7, quarter)
    assert str(backlog) == ("3 slices from 2026-11-20T1015Z to 2026-11-20T1130Z are not complete (3 missing)")
    one = Backlog({units[1]: MISSING})
    assert one.range == SliceRange(START + quarter, START + quarter * 2, quarter)


def test_what_may_still_land_of_the_first_slices():
    states = {unit(0): MISSING, unit(0, "dc2"): MISSING, unit(1): EXPIRED, unit(2): MISSING}
    backlog = Backlog({**states, unit(3): UnitState.LANDED, unit(4): MISSING})
    first = [unit(0), unit(0, "dc2")]
    assert backlog.unlanded(1) == first
    assert backlog.unlanded(2) == [*first, unit(2)]
    assert backlog.unlanded(9) == [*first, unit(2), unit(4)]
    assert backlog.unlanded(0) == Backlog({unit(1): EXPIRED}).unlanded(9) == []


def test_a_range_ends_before_its_end():
    backlog = Backlog({unit(hour): MISSING for hour in range(5)})
    assert list(backlog.outside(span(1, 3)).states) == [unit(0), unit(3), unit(4)]


def test_what_was_not_over_when_it_was_seen_is_missing_by_now():
    spec, lake = pipeline(), MemoryLake()
    boundaries = resolved(spec, lake, span(0, 2))
    months.note(lake, [missing(unit(0), UnitState.NOT_OVER), missing(unit(1), EXPIRED)])
    found = backlog_of(spec, boundaries, span(0, 2), months.read_summaries(lake, span(0, 2)))
    assert found.states == {unit(0): MISSING, unit(1): EXPIRED}


def test_what_a_cluster_that_was_taken_away_has_landed_is_loaded():
    lake = MemoryLake()
    boundaries = resolved(pipeline(kafka=TWO), lake, span(0, 3))
    months.note(lake, [complete(unit(hour)) for hour in range(3)])
    gone = (UnitState.LANDED, UnitState.STALE, EXPIRED)
    months.note(lake, [missing(unit(hour, "dc2"), state) for hour, state in enumerate(gone)])
    noted = months.read_summaries(lake, span(0, 3))
    found = backlog_of(pipeline(kafka=TWO[:1]), boundaries, span(0, 3), noted)
    assert found.states == {unit(0, "dc2"): UnitState.LANDED, unit(1, "dc2"): UnitState.STALE}


@pytest.mark.long
def test_a_century_of_hours_is_found_from_both_ends():
    """490,000 slices since 1970: the oldest 50,000 that are not complete, and the newest."""
    start, end = pendulum.datetime(1970, 1, 1), pendulum.datetime(2026, 1, 1)
    spec, lake, hours = pipeline(start=start), MemoryLake(), SliceRange(start, end)
    months.note(lake, [complete(Unit(Slice(start.add(hours=n)), "dc1")) for n in range(100)])
    last = [Unit(Slice(end.subtract(hours=n)), "dc1") for n in (1, 3)]
    months.note(lake, [complete(last[0]), missing(last[1], EXPIRED)])
    found = backlog_of(spec, Boundaries(), hours, months.read_summaries(lake, hours))
    pieces = found.slices
    oldest = [start.add(hours=100), start.add(hours=50_099)]
    newest = [end.subtract(hours=50_001), end.subtract(hours=2)]
    edges = [pieces[0].start, pieces[49_999].start, pieces[50_000].start, pieces[-1].start]
    assert (len(pieces), edges) == (100_000, [*oldest, *newest])
    assert list(found.states) == sorted(found.states)
    assert found.states[last[1]] is EXPIRED and last[0] not in found.states
    assert str(found).startswith("at least 100,000 slices from 1970-01-05T04Z to 2025-12-31T22Z are not")
    assert str(found.outside(span(0, 1))).startswith("at least") and not found.seen([]).whole


@pytest.mark.parametrize(("hours", "whole"), [(99, True), (100, True), (101, False)])
def test_as_many_hours_as_a_command_takes_are_all_found(hours, whole, monkeypatch):
    monkeypatch.setattr("sluice.plan.backlog.MOST_SLICES", 100)
    start = pendulum.datetime(2000, 1, 1)
    span = SliceRange(start, start.add(hours=hours))
    found = backlog_of(pipeline(start=start), Boundaries(), span, months.read_summaries(MemoryLake(), span))
    assert (len(found.slices), found.whole) == (min(hours, 100), whole)
    assert (found.slices == list(span)) is whole
    assert str(found).startswith("at least") is not whole


def test_fewer_hours_behind_the_oldest_half_are_all_found(monkeypatch):
    monkeypatch.setattr("sluice.plan.backlog.MOST_SLICES", 100)
    lake, hours = MemoryLake(), span(0, 92)
    months.note(lake, [complete(unit(50))])
    found = backlog_of(pipeline(start=START), Boundaries(), hours, months.read_summaries(lake, hours))
    assert (len(found.slices), found.whole) == (91, True)


def test_every_second_run_takes_the_oldest_window_and_the_others_each_in_turn():
    a, b, c = open_windows = [span(0, 1), span(5, 6), span(8, 9)]
    assert [chosen(open_windows, turn) for turn in range(0, 8, 2)] == [(a, n) for n in range(4)]
    assert [chosen(open_windows, turn) for turn in range(1, 14, 2)] == [
        *((a, 0), (b, 0), (c, 0)),
        *((a, 1), (b, 1), (c, 1)),
        (a, 2),
    ]


def test_what_is_complete_is_no_work():
    found = [complete(unit(0)), to_load(1), complete(unit(2)), to_load(3)]
    assert batches_of(found, "fail", 1) == [span(1, 2), span(3, 4)]
    assert batches_of(found[::2], "fail", 0) == []


@pytest.mark.parametrize(
    ("gaps", "number", "left_out"),
    [(7, 5, []), (9, 0, [8, 9]), (9, 3, [1, 2]), (9, 13, [1, 2]), (9, 9, [7, 8]), (8, 8, [7]), (8, 9, [8])],
)
def test_a_run_starts_eight_applications_at_most(gaps: int, number: int, left_out: list[int]):
    """Between the hours of one each, others have expired. With each number the first one is another."""
    found = [to_load(hour, EXPIRED if hour % 2 else MISSING) for hour in range(2 * gaps + 1)]
    whole = [span(2 * part, 2 * part + 1) for part in range(gaps + 1) if part not in left_out]
    assert len(whole) == 8
    assert batches_of(found, "fail", number) == whole


def at(hour: int) -> int:
    return int(START.add(hours=hour).timestamp())


def block(
    hours: Sequence[int], *columns: Sequence[int], cluster="dc1", topic="t", uuid="u"
) -> TopicBoundaries:
    """`columns` are each partition's offsets at these hours."""
    made = {}
    for number, offsets in enumerate(columns):
        stored = array("q", offsets)
        found = array("b", [CODE[FoundBy.RECORD]]) * len(stored)
        made[number] = PartitionColumn(3, stored, stored, stored, found)
    return TopicBoundaries(cluster, topic, uuid, array("q", map(at, hours)), made)


def known(*blocks: TopicBoundaries, **eras: Sequence[str]) -> Boundaries:
    """`eras`: the ids of a topic, in their order, where it had several."""
    ids = {(b.cluster, b.topic): tuple(Era(uuid) for uuid in eras.get(b.topic, [b.uuid])) for b in blocks}
    return Boundaries(blocks={b.key: b for b in blocks}, eras=ids)


def lost(*hours: int, cluster: str = "dc1", state: UnitState = MISSING) -> dict[Unit, UnitState]:
    return {unit(hour, cluster): state for hour in hours}


@pytest.mark.parametrize(
    ("hours", "spans"),
    [
        ([3, 4], [(20, 50)]),  # from the boundary before, to the one after
        ([2, 3, 4], [(20, 50)]),
        ([1], [(10, 20)]),
        ([0, 1], [(10, 20)]),
        ([6], [(50, 80)]),
        ([4, 5, 6], [(20, 80)]),  # one spell: what lies within is counted once
        ([3, 6], [(20, 50), (50, 80)]),
        ([-3], [(10, 10)]),  # before the first boundary nothing is known
        ([-1, 0], [(10, 20)]),
        ([9, 10], [(80, 80)]),  # nor is it after the last one
        ([7, 8, 9], [(50, 80)]),
        ([-3, 3, 4, 6, 9], [(10, 10), (20, 50), (50, 80), (80, 80)]),
        ([], []),
    ],
)
def test_offsets_between_the_boundaries_around_missing_hours(hours: list[int], spans: list):
    """Boundaries are stored of hours 0, 2, 5 and 8."""
    boundaries = known(block([0, 2, 5, 8], [10, 20, 50, 80]))
    found = unlanded(Backlog(lost(*reversed(hours))), boundaries)
    assert found == ({("dc1", "t", 0): spans} if spans else {})


def test_each_partition_of_each_topic_has_its_own():
    boundaries = known(
        block([], topic="empty"),
        block([], [], topic="none"),
        block([0, 1, 2], [1, 2, 3], topic="two", uuid="old"),
        block([0, 1, 2], [10, 20, 30], [UNKNOWN, UNKNOWN, 7], topic="two", uuid="new"),
        block([0, 2], [100, 300], topic="t"),
        block([0, 1, 2], [5, 6, 7], cluster="dc2"),
        block([0, 1, 2], [5, 6, 7], cluster="dc3"),
        two=["old", "new"],
    )
    left = lost(1) | lost(0, cluster="dc2") | lost(1, cluster="dc2", state=UnitState.LANDED)
    assert unlanded(Backlog(left | lost(0, 1, cluster="dc3", state=EXPIRED)), boundaries) == {
        ("dc1", "two", 0): [(20, 30)],
        ("dc1", "two", 1): [(3, 7)],
        ("dc1", "t", 0): [(100, 300)],
        ("dc2", "t", 0): [(5, 6)],
        ("dc3", "t", 0): [(5, 7)],
    }
