"""Plots and the late table, lag, and payloads as text."""

from __future__ import annotations

import tracemalloc
from array import array
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sluice.clients.kafka.topics import TopicState
from sluice.flow.resolve.resolve import resolve
from sluice.manifest import OffsetRange
from sluice.page.history import ids_of
from sluice.page.rejected_samples import SHOWN_BYTES, text_of
from sluice.page.traffic import OTHERS, late_table, long_series_of, series_of
from sluice.plan.backlog import Backlog, unlanded
from sluice.plan.lag import LONGEST, OlderUnread, TopicNow, ask_topics, lag_of, offsets_only, older_unread
from sluice.slices import SliceRange
from sluice.state import months
from sluice.state.boundaries.boundary import CODE, FoundBy, PartitionColumn, TopicBoundaries
from sluice.state.boundaries.model import Boundaries, LogEntry
from sluice.state.months import SUMMARIES, UnitSummary
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.fakes import FakeKafka, FakeTopic, MemoryLake
from tests.support.page_world import START, complete, file, missing, pipeline, unit

NOW = START.add(hours=5)
THREE = SliceRange(START, START.add(hours=3))


def test_rows_by_hour_and_type():
    mixed = [file(f"t{n}", "2026-11-20T11", n) for n in range(1, 10)]
    series = series_of([complete(unit(0), rows=4), complete(unit(1), files=mixed), missing(unit(2))])
    assert series.starts == [int(START.add(hours=h).timestamp()) for h in range(3)]
    assert series.rows == [4, 45, 0]
    assert series.types == {
        "t9": [0, 9, 0],
        "t8": [0, 8, 0],
        "t7": [0, 7, 0],
        "t6": [0, 6, 0],
        "t5": [0, 5, 0],
        "click": [4, 0, 0],
        OTHERS: [0, 10, 0],
    }


def test_a_long_series_is_of_the_hours_that_steps_have_seen():
    lake = MemoryLake()
    months.note(lake, [complete(unit(0), rows=4), complete(unit(2), rows=6, rejected_records={"no time": 1})])
    series = long_series_of(THREE, months.read_summaries(lake, THREE))
    assert series.starts == [int(START.timestamp()), int(START.add(hours=2).timestamp())]
    assert (series.rows, series.read, series.rejected_records) == ([4, 6], [4, 7], [0, 1])


def test_a_series_of_more_than_a_year_is_of_days(monkeypatch):
    """Hours 0 and 2 of the first day, and hour 25: the sums of two days, by hand."""
    monkeypatch.setattr("sluice.page.traffic.MOST_POINTS", 40)
    lake = MemoryLake()
    months.note(lake, [complete(unit(h), rows=h + 4, rejected_records={"no time": 1}) for h in (0, 2, 25)])
    for hours, by_day in ((40, False), (41, True)):
        slices = SliceRange(START, START.add(hours=hours))
        series = long_series_of(slices, months.read_summaries(lake, slices))
        assert series.by_day is by_day
        if by_day:
            assert series.starts == [int(START.add(hours=h).timestamp()) for h in (-10, 14)]
            assert (series.rows, series.read, series.rejected_records) == ([10, 29], [12, 30], [2, 1])
        else:
            assert (series.rows, series.read, series.rejected_records) == ([4, 6, 29], [5, 7, 30], [1, 1, 1])


def test_the_longest_series_costs_little():
    """Five years, each slice of which was seen: a month's summaries at a time, and a point for each day."""
    end = START.start_of("day")
    slices = SliceRange(end - LONGEST, end)
    one = UnitSummary("complete", "a" * 12, "a" * 12, 9, 9, 1, 0, 0, 8)
    lake, by_month = MemoryLake(), {}
    for name in ids_of(slices):
        by_month.setdefault(name[:7], {})[name] = {"dc1": one}
    for month, units in by_month.items():
        lake.put(SUMMARIES.key(month), SUMMARIES.encode(units))
    by_month.clear()
    noted = months.read_summaries(lake, slices)
    tracemalloc.start()
    series = long_series_of(slices, noted)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(series.starts) == 1830 and set(series.rows) == {8 * 24}
    assert peak < 5_000_000
    assert len(series.model_dump_json()) < 200_000


def test_late_events_by_arrival_and_own_hour():
    files = [file("click", f"2026-11-20T{hour:02}", 10 - hour % 10) for hour in (5, 7, 8, 9, 10)]
    table = late_table([complete(unit(0), files=files), complete(unit(1))], most=3)
    assert table.arrivals == ["2026-11-20T10Z"]
    assert table.events == ["older", "2026-11-20T07", "2026-11-20T08", "2026-11-20T09"]
    assert {cell.event: cell.rows for cell in table.cells} == {
        "older": 5,
        "2026-11-20T07": 3,
        "2026-11-20T08": 2,
        "2026-11-20T09": 1,
    }
    assert table.most == 5


def test_delays_of_all_rows_and_an_event_before_its_time_is_not_late():
    """Slice 10: of its own hour and the one after, one, two and five late, and a year; slice 11: one late."""
    hours = {
        "2026-11-20T10": 100,
        "2026-11-20T11": 7,
        "2026-11-20T09": 6,
        "2026-11-20T08": 5,
        "2026-11-20T05": 4,
    }
    first = complete(
        unit(0), files=[file("t", hour, rows) for hour, rows in {**hours, "2025-11-20T10": 3}.items()]
    )
    second = complete(unit(1), files=[file("t", "2026-11-20T10", 20)])
    delays = late_table([first, second, missing(unit(2))]).delays
    assert {(one.hours, one.until): one.rows for one in delays if one.rows} == {
        (0, 1): 107,
        (1, 2): 26,
        (2, 3): 5,
        (3, 6): 4,
        (744, None): 3,
    }
    assert late_table([missing(unit(0))]).delays == []


def test_types_beyond_those_that_an_hour_keeps_are_among_the_others(monkeypatch):
    """Hour 0 has 40 types of 2 rows, hour 1 one of them with 9. Six are shown."""
    monkeypatch.setattr("sluice.page.traffic._KEPT", 30)
    many = [file(f"t{number:02}", "2026-11-20T10", 2) for number in range(40)]
    found = (complete(unit(hour), files=own) for hour, own in enumerate([many, [file("t00", "x", 9)]]))
    series = series_of(found)
    assert series.types["t00"] == [2, 9] and len(series.types) == 7
    assert series.types[OTHERS] == [80 - 6 * 2, 0]


def test_the_lag_needs_no_files():
    whole = complete(unit(0), rows=7)
    slim = offsets_only(whole)
    assert slim.manifest.files == () and slim.manifest.ranges == whole.manifest.ranges
    assert offsets_only(missing(unit(1))) == missing(unit(1))
    topics = {("dc1", "t"): TopicNow(TopicState("u", {0: 0}, {0: 3_712}))}
    assert lag_of([slim], topics, [], NOW, Boundaries()) == lag_of([whole], topics, [], NOW, Boundaries())


def test_the_lag_goes_back_five_years_and_no_further(monkeypatch):
    """Of a pipeline whose first boundary is of 1970 no half a million hours are made."""
    asked = []
    monkeypatch.setattr(
        "sluice.plan.lag.backlog_of",
        lambda p, b, hours, noted: asked.append(hours) or Backlog(),
    )
    for first in (datetime(1970, 1, 1, tzinfo=UTC), START.subtract(hours=2)):
        block = TopicBoundaries("dc1", "t", "u", array("q", [int(first.timestamp())]), {})
        known = Boundaries().with_entry(LogEntry(timedelta(hours=1), (block,)))
        assert older_unread(pipeline(), MemoryLake(), START, known) == OlderUnread()
    assert [len(hours) for hours in asked] == [1830 * 24, 2]
    assert {hours.end for hours in asked} == {START}
    assert older_unread(pipeline(), MemoryLake(), START, Boundaries()) == OlderUnread()


def test_lag_by_partition():
    topics = {("dc1", "t"): TopicNow(TopicState("u", {0: 0, 1: 30}, {0: 3_712, 1: 40}))}
    found = [complete(unit(0), rows=7), missing(unit(1))]
    known, unknown = lag_of(found, topics, [], NOW, bounded(100, 107)).partitions
    assert (known.landed_until, known.records, known.seconds) == (107, 3_605, 4 * 3600)
    assert known.rate == round(7 / 3600, 3)
    assert (unknown.landed_until, unknown.records, unknown.seconds) == (None, 10, None)
    assert unknown.rate == 0


def test_the_rate_is_that_of_the_newest_landed_hour_whatever_the_range():
    """An operator saw 0.25/s in one range and 1.2/s in another."""
    topics = {("dc1", "t"): TopicNow(TopicState("u", {0: 0}, {0: 5_000}))}
    hours = [complete(unit(0), rows=3_600), missing(unit(1)), missing(unit(2)), complete(unit(3), rows=72)]
    rates = [
        lag_of(found, topics, [], NOW.add(hours=5), bounded(100, 107)).partitions[0].rate
        for found in (hours, hours[1:], hours[3:])
    ]
    assert rates == [0.02, 0.02, 0.02]


def ranged(hour: int, start: int, until: int) -> UnitStatus:
    whole = complete(unit(hour))
    ranges = (OffsetRange("t", "u", 0, start, until),)
    return replace(whole, manifest=replace(whole.manifest, ranges=ranges), ranges=ranges)


def bounded(*offsets: int) -> Boundaries:
    """Boundaries of partition 0 at the hours from START on."""
    column = PartitionColumn(
        0, *(array("q", offsets) for _ in range(3)), array("b", [CODE[FoundBy.RECORD]] * len(offsets))
    )
    instants = array("q", [int(START.add(hours=hour).timestamp()) for hour in range(len(offsets))])
    block = TopicBoundaries("dc1", "t", "u", instants, {0: column})
    return Boundaries().with_entry(LogEntry(timedelta(hours=1), (block,)))


def test_what_was_left_out_between_landed_hours_is_not_landed():
    """Landed are [100, 200) and [450, 500). Of the hours between one is resolved; 30 offsets came since."""
    found = [
        ranged(2, 100, 200),
        replace(missing(unit(3)), ranges=(OffsetRange("t", "u", 0, 200, 250),)),
        missing(unit(4)),
        ranged(5, 450, 500),
    ]
    known = bounded(20, 60, 100, 200, 250, 450, 500)
    topics = {("dc1", "t"): TopicNow(TopicState("u", {0: 0}, {0: 530}))}
    (one,) = lag_of(found, topics, [], NOW, known).partitions
    assert (one.landed_until, one.records, one.outside) == (500, 250 + 30, 20)
    older = OlderUnread(unlanded={("dc1", "t", 0): [(20, 60), (90, 120)]})
    (one,) = lag_of(found, topics, [], NOW, known, older).partitions
    assert (one.records, one.gone, one.outside) == (40 + 10 + 250 + 30, 0, 20)
    expired = {("dc1", "t"): TopicNow(TopicState("u", {0: 230}, {0: 530}))}
    (one,) = lag_of(found, expired, [], NOW, known, older).partitions
    assert (one.records, one.gone, one.outside) == (220 + 30, 40 + 10 + 30, 0)


def test_what_was_left_out_before_the_first_landed_hour_is_not_landed():
    """Hour 0 is resolved and not landed, hours 1 and 2 are not even resolved."""
    first = replace(missing(unit(0)), ranges=(OffsetRange("t", "u", 0, 100, 150),))
    found = [first, missing(unit(1)), missing(unit(2)), ranged(3, 450, 500)]
    topics = {("dc1", "t"): TopicNow(TopicState("u", {0: 0}, {0: 530}))}
    (one,) = lag_of(found, topics, [], NOW, bounded(100, 150)).partitions
    assert (one.landed_until, one.records, one.outside) == (500, 350 + 30, 100)


def test_what_has_landed_is_known_by_its_manifest():
    """Also where no boundary is stored of it any more."""
    found = [replace(ranged(hour, *edges), ranges=None) for hour, edges in ((0, (0, 10)), (1, (15, 20)))]
    topics = {("dc1", "t"): TopicNow(TopicState("u", {0: 0}, {0: 27}))}
    (one,) = lag_of(found, topics, [], NOW, Boundaries()).partitions
    assert (one.landed_until, one.records) == (20, 5 + 7)


def test_what_waits_behind_an_open_transaction_is_not_landed():
    """The log ends at 7; a transaction is open from offset 5 on. Another partition has none."""
    kafka = FakeKafka({("dc1", "t"): FakeTopic("u", {0: [1] * 7, 1: [1] * 3}, stable={0: 5})})
    topics, _ = ask_topics(pipeline(), Boundaries(), kafka.topics_of)
    first, second = lag_of([ranged(0, 0, 5)], topics, [], NOW, Boundaries()).partitions
    assert (first.log_end, first.records, first.held) == (5, 2, 2)
    assert (second.log_end, second.records, second.held) == (3, 3, 0)


def test_offsets_of_older_hours_lie_between_the_boundaries_around_them():
    """Hours 0 and 1 were resolved, then hours 5 and 6, and nobody has asked for those between. Each has ten
    records."""
    kafka = FakeKafka({("dc1", "t"): FakeTopic("u", {0: [ms(h) for h in range(8) for _ in range(10)]})})
    spec, lake = pipeline(), MemoryLake()
    for first, last in ((0, 2), (5, 7)):
        slices = list(SliceRange(START.add(hours=first), START.add(hours=last)))
        boundaries = resolve(spec, lake, slices, START.add(hours=9), kafka.topics_of).boundaries
    left = Backlog({unit(h): UnitState.EXPIRED if h == 6 else UnitState.MISSING for h in (1, 2, 3, 4, 6)})
    assert unlanded(left, boundaries) == {("dc1", "t", 0): [(10, 50), (60, 70)]}
    never = Backlog({unit(h): UnitState.MISSING for h in (7, 8)})
    assert unlanded(never, boundaries) == {("dc1", "t", 0): [(70, 70)]}


def ms(hour: int) -> int:
    return int(START.add(hours=hour, minutes=30).timestamp() * 1000)


def test_a_silent_cluster_is_a_line_beside_the_others():
    kafka = FakeKafka({("dc1", "t"): FakeTopic("u", {0: [1, 2]})}, silent={"dc2"})
    two = [{"cluster": c, "bootstrap": "x:1", "topics": ["t"]} for c in ("dc1", "dc2")]
    topics, errors = ask_topics(pipeline(kafka=two), Boundaries(), kafka.topics_of)
    assert {name: now.state.ends for name, now in topics.items()} == {("dc1", "t"): {0: 2}}
    assert len(errors) == 1 and "dc2" in errors[0]


def test_payloads_as_text():
    assert text_of(b'{"a":"\xc3\xa4"}') == '{"a":"ä"}'
    assert text_of(b"\xff\x00<script>") == "\\xff\x00<script>"
    assert text_of(None) == ""
    assert text_of(b"x" * (SHOWN_BYTES + 1)).endswith(f"… ({SHOWN_BYTES + 1:,} bytes)")
