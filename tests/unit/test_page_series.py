"""Plots and the late table, lag, and payloads as text."""

from __future__ import annotations

from sluice.kafka.topics import TopicState
from sluice.page.lag import ask_topics, lag_of
from sluice.page.samples import SHOWN_BYTES, text_of
from sluice.page.series import OTHERS, late_table, long_series_of, series_of
from sluice.slices import SliceRange
from sluice.summary import store
from tests.fakes import FakeKafka, FakeTopic, MemoryLake
from tests.page_world import START, complete, file, missing, pipeline, unit

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
    store.note(lake, [complete(unit(0), rows=4), complete(unit(2), rows=6, unparsed={"no time": 1})])
    series = long_series_of(THREE, store.read_summaries(lake, THREE))
    assert series.starts == [int(START.timestamp()), int(START.add(hours=2).timestamp())]
    assert (series.rows, series.read, series.unparsed) == ([4, 6], [4, 7], [0, 1])


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


def test_lag_by_partition():
    topics = {("dc1", "t"): TopicState("u", {0: 0, 1: 30}, {0: 3_712, 1: 40})}
    found = [complete(unit(0), rows=7), missing(unit(1))]
    known, unknown = lag_of(found, topics, [], NOW).partitions
    assert (known.landed_until, known.records, known.seconds) == (107, 3_605, 4 * 3600)
    assert known.rate == round(7 / 3600, 3)
    assert (unknown.landed_until, unknown.records, unknown.seconds) == (None, 10, None)


def test_a_silent_cluster_is_a_line_beside_the_others():
    kafka = FakeKafka({("dc1", "t"): FakeTopic("u", {0: [1, 2]})}, silent={"dc2"})
    two = [{"cluster": c, "bootstrap": "x:1", "topics": ["t"]} for c in ("dc1", "dc2")]
    topics, errors = ask_topics(pipeline(kafka=two), kafka.topics_of)
    assert {name: state.ends for name, state in topics.items()} == {("dc1", "t"): {0: 2}}
    assert len(errors) == 1 and "dc2" in errors[0]


def test_payloads_as_text():
    assert text_of(b'{"a":"\xc3\xa4"}') == '{"a":"ä"}'
    assert text_of(b"\xff\x00<script>") == "\\xff\x00<script>"
    assert text_of(None) == ""
    assert text_of(b"x" * (SHOWN_BYTES + 1)).endswith(f"… ({SHOWN_BYTES + 1:,} bytes)")
