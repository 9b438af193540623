"""The overview: exact hours, days from summaries, and that both say the same of the same hours."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pendulum
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluice.clients.lake.open import open_lake
from sluice.errors import WrongUse
from sluice.flow.verify import verdict as verdicts
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.verdict import Verdict, note_verified, read_verdict
from sluice.manifest import Loss
from sluice.page.airflow_runs import Phase, SliceActivity
from sluice.page.history import CachedDays, days_of, hours_past, ids_of
from sluice.page.overview import OverviewContext, OverviewSnapshot, hours_of
from sluice.page.rows import RequestedRange, rows_of
from sluice.page.status_cache import StatusCache
from sluice.slices import HOUR, Slice, SliceRange, Unit
from sluice.state import months
from sluice.state.boundaries.boundary import CODE, FoundBy, PartitionColumn, TopicBoundaries
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries, LogEntry
from sluice.state.months import SUMMARIES, Month, StoredMonth, Summaries, UnitSummary, summary_of
from sluice.state.notes import months_of
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.fakes import MemoryLake
from tests.support.page_world import START, TABLE, complete, missing, pipeline, unit

NOW = START.add(hours=9, minutes=30)


def landed_only(place: Unit) -> UnitStatus:
    return replace(complete(place), state=UnitState.LANDED, tables={})


TEN = SliceRange(START, START.add(hours=10))
FOUND = [
    complete(unit(0)),
    complete(unit(1), rows=50, rejected_records={"no type": 2}),
    complete(unit(2), lost=(Loss("t", 0, 1, 2, True),)),
    complete(unit(3)),
    missing(unit(4)),
    missing(unit(5)),
    complete(unit(6)),
    missing(unit(7)),
    missing(unit(8)),
    missing(unit(9), UnitState.NOT_OVER),
]
EXPECTED = ["before", "verified", "lossy", "broken", "landing", "failed", "loaded", "late", "waiting", "open"]
WORK = {4: Phase.LANDING, 5: Phase.FAILED}


@pytest.fixture
def lake() -> MemoryLake:
    """Everything was verified but hour 6, and hour 3 was found broken."""
    lake = MemoryLake()
    months.note(lake, FOUND)
    broken = Anomaly(AnomalyKind.ROWS_MISSING, "5", "4", slice=unit(3).slice.id)
    seen = [status for status in FOUND if status.unit != unit(6)]
    note_verified(lake, TEN, seen, [broken], NOW)
    return lake


def around(verdict: Verdict) -> OverviewContext:
    work = {int(unit(h).slice.start.timestamp()): SliceActivity(phase, "p", "r") for h, phase in WORK.items()}
    return OverviewContext(pipeline(settle="2m"), work, verdict, unit(0).slice.end, NOW)


def snapshot(found: list[UnitStatus]) -> OverviewSnapshot:
    return OverviewSnapshot(found, [summary_of(status) for status in found], Boundaries())


def test_hours(lake):
    found = [missing(unit(0)), *FOUND[1:]]
    hours = hours_of(snapshot(found), months.read_summaries(lake, TEN), around(read_verdict(lake)))
    assert [hour.cell for hour in hours] == EXPECTED
    assert [hour.id for hour in hours] == list(ids_of(TEN))
    assert (hours[1].read, hours[1].rows, hours[1].rejected) == (52, 50, 2)
    assert [bool(hour.running) for hour in hours].index(True) == 4


def test_rejected_records_and_rejected_rows_are_not_added_up(lake):
    status = complete(unit(1), rows=50, rejected_records={"no type": 2})
    row = replace(status.tables[TABLE], rejected_rows=3)
    found = [replace(status, tables={TABLE: row})]
    (hour,) = hours_of(snapshot(found), months.read_summaries(lake, TEN), around(read_verdict(lake)))
    assert (hour.rejected, hour.rejected_rows) == (2, 3)


def test_days_say_of_each_hour_what_hours_say(lake):
    (month,) = months.read_summaries(lake, TEN).months
    del month.units[unit(0).slice.id]
    (day,) = days_of(TEN, Summaries([month]), around(read_verdict(lake)))
    assert day.id == "2026-11-20"
    assert dict.fromkeys(EXPECTED, 1) == day.counts
    assert next(iter(day.counts)) == day.cell == "broken"
    assert (day.running, day.read, day.rows, day.rejected) == ("1", 52 + 3 * 5, 50 + 3 * 5, 2)


def test_summarised_hours_say_what_exact_ones_say(lake):
    noted, now = months.read_summaries(lake, TEN), around(read_verdict(lake))
    del noted.months[0].units[unit(0).slice.id]
    assert hours_past(TEN, noted, now) == hours_of(snapshot([missing(unit(0)), *FOUND[1:]]), noted, now)


def test_empty_and_unusual_hours_look_unlike_others_exact_or_summarised():
    """Hours of 0, of 5, and of 50 rows with 20 rejected records, which is more than one in a hundred."""
    lake = MemoryLake()
    found = [
        complete(unit(0), rows=0),
        complete(unit(1)),
        complete(unit(2), rows=50, rejected_records={"x": 20}),
    ]
    note_verified(lake, TEN, found, [], NOW)
    three = SliceRange(START, START.add(hours=3))
    noted, now = months.read_summaries(lake, TEN), replace(around(Verdict()), first=START)
    past = hours_past(three, noted, now)
    assert [hour.cell for hour in past] == ["empty", "verified", "odd"]
    assert past == hours_of(snapshot(found), noted, now)
    (day,) = days_of(three, noted, now)
    assert day.counts == {"odd": 1, "verified": 1, "empty": 1}


@pytest.mark.parametrize("summarised", [True, False])
def test_hours_of_a_table_that_is_gone_lack_it_whatever_a_step_noted(lake, summarised: bool):
    noted = months.read_summaries(lake, TEN)
    now = replace(around(Verdict()), work={}, gone=frozenset({TABLE}))
    lacking = [replace(s, state=UnitState.LANDED, tables={}) if s.manifest else s for s in FOUND]
    hours = hours_past(TEN, noted, now) if summarised else hours_of(snapshot(lacking), noted, now)
    landed = [hour.cell for hour, status in zip(hours, FOUND, strict=True) if status.manifest]
    assert landed == ["before", *["no-table"] * 4]


@pytest.mark.parametrize("summarised", [True, False])
def test_an_hour_that_the_watch_has_seen_to_expire_is_no_late_one(lake, summarised: bool):
    """Of four with such an alarm: late, waiting, complete, and one that is not over. A step has noted them,
    or none has."""
    noted = months.read_summaries(lake, TEN)
    (month,) = noted.months
    for hour in () if summarised else (0, 7, 8, 9):
        del month.units[unit(hour).slice.id]
    names = {unit(hour).slice.id: frozenset({"dc1"}) for hour in (6, 7, 8, 9)}
    now = replace(around(read_verdict(lake)), expired=names)
    expected = [*EXPECTED[:7], "expired", "expired", "open"]
    found = [*([FOUND[0]] if summarised else [missing(unit(0))]), *FOUND[1:]]
    expected[0] = "verified" if summarised else "before"
    assert [hour.cell for hour in hours_of(snapshot(found), noted, now)] == expected
    assert [hour.cell for hour in hours_past(TEN, noted, now)] == expected
    kept: CachedDays = {}
    days_of(TEN, noted, around(read_verdict(lake)), kept)
    (day,) = days_of(TEN, noted, now, kept)
    assert day.counts == Counter(expected)
    other = replace(now, expired={name: frozenset({"dc2"}) for name in names})
    assert [hour.cell for hour in hours_past(TEN, noted, other)][7:] == ["late", "waiting", "open"]


def test_a_summarised_hour_names_the_cluster_that_it_lacks():
    lake = MemoryLake()
    note_verified(lake, TEN, [complete(unit(0))], [], NOW)
    two = [{"cluster": c, "bootstrap": "x:1", "topics": ["t"]} for c in ("dc1", "dc2")]
    both = OverviewContext(pipeline(kafka=two), {}, Verdict(), START, NOW)
    first, second = hours_past(SliceRange(START, START.add(hours=2)), months.read_summaries(lake, TEN), both)
    assert (first.missing, second.missing) == (("dc2",), ())
    later = OverviewContext(pipeline(kafka=two), {}, Verdict(), START, NOW, {"dc2": START.add(hours=1)})
    (alone,) = hours_past(SliceRange(START, START.add(hours=1)), months.read_summaries(lake, TEN), later)
    assert (alone.cell, alone.missing) == ("verified", ())


def test_an_hour_before_the_beginning_lacks_no_cluster():
    """One of two clusters has landed it: the pipeline's `start` was moved since."""
    two = [{"cluster": c, "bootstrap": "x:1", "topics": ["t"]} for c in ("dc1", "dc2")]
    found, one = [landed_only(unit(0)), missing(unit(0, "dc2"))], SliceRange(START, START.add(hours=1))
    month = {unit(0).slice.id: {s.unit.cluster: summary_of(s) for s in found}}
    noted = Summaries([StoredMonth("2026-11", "1", SUMMARIES.encode(month), "here")])
    for first, cell, lacking in ((START.add(hours=1), "before", ()), (START, "late", ("dc2",))):
        now = OverviewContext(pipeline(kafka=two), {}, Verdict(), first, NOW)
        for (hour,) in (hours_of(snapshot(found), noted, now), hours_past(one, noted, now)):
            assert (hour.cell, hour.missing) == (cell, lacking)


def test_days_and_hours_agree_where_the_pipeline_begins(tmp_path):
    """It was resolved a month before the range; of the range's first days no step has noted anything."""
    spec = pipeline(lake=f"file://{tmp_path}")
    lake, first = open_lake(spec), START.subtract(days=40)
    at = array("q", [int(first.timestamp()), int(first.add(hours=1).timestamp())])
    zeros, offsets = array("q", [0, 0]), array("q", [100, 109])
    column = PartitionColumn(0, offsets, zeros, zeros, array("b", [CODE[FoundBy.RECORD]] * 2))
    entry = LogEntry(HOUR, (TopicBoundaries("dc1", "t", "u", at, {0: column}),))
    assert BoundaryLog(lake).append(Boundaries(), entry, NOW)
    months.note(lake, [complete(unit(0))])
    memory = StatusCache()
    memory.clients = SimpleNamespace(gone=lambda _: frozenset())
    asked = RequestedRange(START.subtract(days=20).start_of("day"), START.start_of("day"), NOW)
    (row,) = rows_of(memory, [spec], asked, {})
    assert (row.error, {cell.cell for cell in row.cells}) == ("", {"late"})


STATES = st.sampled_from(["complete", "landed", "missing", "not over"])
SUMMARY = st.builds(UnitSummary, STATES, st.sampled_from(["", "a"]), st.sampled_from(["", "a", "b"]))
UNITS = st.dictionaries(st.sampled_from(["dc1", "dc2", "old"]), SUMMARY)
# Few kinds of hours, so that many are alike.
HOURS = st.lists(UNITS, min_size=1, max_size=3).flatmap(
    lambda kinds: st.lists(st.sampled_from(kinds), min_size=10, max_size=10)
)


DONE = {"dc1": UnitSummary("complete", "a", "a", read=1, rows=1)}


@example([DONE] * 10, 0, 5, set(), 12)
@example([DONE] * 10, 0, 12, {3}, 12)
@example([DONE, {"dc1": UnitSummary("complete")}] * 5, 0, 12, set(), 12)
@settings(max_examples=200)
@given(HOURS, st.integers(0, 10), st.integers(0, 10), st.sets(st.integers(0, 9)), st.integers(0, 12))
def test_hours_that_are_alike_are_no_more_than_alike(known, first, begin, broken, now):
    """A cell that is worked out once for many hours is that of each hour asked for alone."""
    two = [{"cluster": c, "bootstrap": "x:1", "topics": ["t"]} for c in ("dc1", "dc2")]
    month = {unit(hour).slice.id: units for hour, units in enumerate(known)}
    look = verdicts.verification_of(TEN, 1, 1, len(broken), NOW)
    told = [
        verdicts.opened_by(Anomaly(AnomalyKind.GAP, "a", "b", slice=unit(h).slice.id), look) for h in broken
    ]
    verdict = verdicts.after(Verdict(), look, told)
    begins = {"dc2": START.add(hours=begin)}
    it = OverviewContext(
        pipeline(kafka=two), {}, verdict, START.add(hours=first), START.add(hours=now), begins
    )
    noted = summaries(month)
    together = hours_past(TEN, noted, it)
    assert together == [hour for piece in TEN for hour in hours_past(alone(piece), noted, it)]
    (day,) = days_of(TEN, noted, it)
    assert day.counts == Counter(hour.cell for hour in together)


def summaries(units: Month) -> Summaries:
    """As the lake has them: a version is of the bytes."""
    names = sorted({name[:7] for name in units})
    data = {
        month: SUMMARIES.encode({n: u for n, u in units.items() if n.startswith(month)}) for month in names
    }
    return Summaries(
        StoredMonth(month, hashlib.sha256(text).hexdigest(), text, "") for month, text in data.items()
    )


def alone(piece: Slice) -> SliceRange:
    return SliceRange(piece.start, piece.end)


# Two whole days of one month, half a day of it, and a day of the next one.
DAYS = SliceRange(pendulum.datetime(2026, 10, 29, 12), pendulum.datetime(2026, 11, 2))
PLACES = [piece.id for piece in DAYS]
LOOKS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(PLACES), UNITS.filter(bool), max_size=4),  # what steps note
        st.sets(st.sampled_from(PLACES), max_size=1),  # what verify finds broken
        st.sets(st.sampled_from(PLACES), max_size=1),  # what Airflow is at work on
        st.sampled_from([-800, 0, 20, 70, 1500]),  # the first hour that is expected: often months away
        st.sampled_from([0, 20, 70, 1500, 1500]),  # now
        st.sampled_from([-800, 30, 1500]),  # where the second cluster begins
        st.integers(0, len(DAYS)),  # where the range begins
    ),
    min_size=2,
    max_size=5,
)


@settings(max_examples=100, deadline=None)
@given(LOOKS)
def test_days_that_are_remembered_are_those_worked_out_anew(looks):
    known, seen = dict.fromkeys(PLACES, DONE), {}
    two = [{"cluster": c, "bootstrap": "x:1", "topics": ["t"]} for c in ("dc1", "dc2")]
    for noted, broken, working, first, now, later, begin in looks:
        known |= noted
        look = verdicts.verification_of(DAYS, 1, 1, len(broken), NOW)
        told = [verdicts.opened_by(Anomaly(AnomalyKind.GAP, "a", "b", slice=name), look) for name in broken]
        verdict = verdicts.after(Verdict(), look, told)
        work = {
            int(Slice.from_id(n, HOUR).start.timestamp()): SliceActivity(Phase.LANDING, "p", "r")
            for n in working
        }
        expected, instant = DAYS.start.add(hours=first), DAYS.start.add(hours=now)
        begins = {"dc2": DAYS.start.add(hours=later)}
        it = OverviewContext(pipeline(kafka=two), work, verdict, expected, instant, begins)
        some = SliceRange(DAYS.start.add(hours=begin), DAYS.end)
        assert days_of(some, summaries(known), it, seen) == days_of(some, summaries(known), it)


def test_a_month_in_which_nothing_has_changed_is_not_decoded_again():
    noted, seen = dict.fromkeys(PLACES, DONE), {}
    it = OverviewContext(
        pipeline(), {}, Verdict(), DAYS.start.subtract(months=1), pendulum.datetime(2026, 12, 2)
    )
    whole = SliceRange(DAYS.start.add(hours=12), DAYS.end)
    first = days_of(whole, summaries(noted), it, seen)
    again = summaries(noted)
    assert days_of(whole, again, it, seen) == first
    assert ["units" in vars(month) for month in again.months] == [False, False]
    changed = summaries(noted | {PLACES[-1]: {"dc1": UnitSummary("missing")}})
    assert [day.cell for day in days_of(whole, changed, it, seen)] == ["verified", "verified", "late"]
    assert ["units" in vars(month) for month in changed.months] == [False, True]


def test_what_is_remembered_is_bounded():
    seen, now = {}, pendulum.datetime(2026, 11, 20)
    it = OverviewContext(pipeline(), {}, Verdict(), pendulum.datetime(1950, 1, 1), now)
    for year in range(1950, 2026, 5):
        span = SliceRange(pendulum.datetime(year, 1, 1), pendulum.datetime(year + 5, 1, 1))
        months = [StoredMonth(name, "", b"{}", "") for name in months_of(span)]
        assert len(days_of(span, Summaries(months), it, seen)) > 1800
        assert {name[:4] for name in seen} >= {str(year + n) for n in range(5)}
    assert len(seen) == 72


def test_an_hour_that_was_open_when_a_step_saw_it_is_missing_when_it_is_over(lake):
    later = OverviewContext(pipeline(), {}, Verdict(), START, NOW.add(hours=1))
    (day,) = days_of(
        SliceRange(START.add(hours=9), START.add(hours=10)), months.read_summaries(lake, TEN), later
    )
    assert day.counts == {"waiting": 1}


def test_one_of_two_clusters_is_not_the_slice():
    lake = MemoryLake()
    note_verified(lake, TEN, [complete(unit(0))], [], NOW)
    two = [{"cluster": c, "bootstrap": "x:1", "topics": ["t"]} for c in ("dc1", "dc2")]
    both = OverviewContext(pipeline(kafka=two), {}, Verdict(), START, NOW)
    (day,) = days_of(SliceRange(START, START.add(hours=1)), months.read_summaries(lake, TEN), both)
    assert day.counts == {"late": 1}


@pytest.mark.parametrize("length", [timedelta(minutes=15), timedelta(hours=1), timedelta(days=1)])
def test_ids_are_those_of_the_slices(length):
    slices = SliceRange.widen(START, START.add(days=2), length)
    assert list(ids_of(slices)) == [piece.id for piece in slices]


def test_a_look_replaces_only_what_it_looked_at():
    verdict = verdicts.within(
        verdicts.after(
            Verdict(),
            (look := verdicts.verification_of(TEN, 1, 1, 1, NOW)),
            [
                verdicts.opened_by(Anomaly(AnomalyKind.GAP, "a", "b", slice=unit(h).slice.id), look)
                for h in (1, 8)
            ],
        ),
        SliceRange(START, START.add(hours=4)),
    )
    assert [one.slices for one in verdict.anomalies] == [(unit(1).slice.id,)]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("48h", "now", ("2026-11-18T20", "2026-11-20T20", "hours")),
        ("2026-11-01", "2026-11-09", ("2026-11-01T00", "2026-11-09T00", "hours")),
        ("2026-11-01", "2026-11-10", ("2026-11-01T00", "2026-11-10T00", "days")),
        ("8760h", "now", ("2025-11-20T20", "2026-11-20T20", "days")),
    ],
)
def test_what_is_asked(start, end, expected):
    asked = RequestedRange.of(start, end, NOW)
    assert (f"{asked.start:%Y-%m-%dT%H}", f"{asked.end:%Y-%m-%dT%H}", asked.zoom) == expected


@pytest.mark.parametrize(
    ("start", "end", "past", "newest"),
    [("48h", "now", 0, 48), ("2h", "now", 0, 2), ("2026-11-01", "2026-11-09", 6 * 24, 48)],
)
def test_the_newest_two_days_are_looked_at(start, end, past, newest):
    older, looked = RequestedRange.of(start, end, NOW).halves(timedelta(hours=1))
    assert (len(older), len(looked), older.end) == (past, newest, looked.start)


@pytest.mark.parametrize(
    ("start", "end"),
    [("x", "now"), ("²h", "now"), ("①h", "now"), ("2026-11-02", "2026-11-01"), ("1990-01-01", "now")],
)
def test_what_cannot_be_asked(start, end):
    with pytest.raises(WrongUse):
        RequestedRange.of(start, end, pendulum.instance(NOW))
