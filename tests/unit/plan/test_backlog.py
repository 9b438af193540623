"""Hours before the hourly run's own range: which are not complete, and what each run does of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pendulum
import pytest

from sluice.config.pipeline import Pipeline
from sluice.flow.resolve.resolve import resolve
from sluice.manifest import Loss, OffsetRange
from sluice.plan.backlog import Backlog, backlog_of, batches_of, chosen, hours_until, stuck, windows
from sluice.plan.batches import MAX_ROWS
from sluice.slices import Slice, SliceRange, Unit
from sluice.state import months
from sluice.state.boundaries.model import Boundaries
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
