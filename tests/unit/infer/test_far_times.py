"""Times in another unit than the pipeline file says, wherever they show."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pendulum
import pytest

from sluice.cli.run import far_outside
from sluice.clients.kafka.producer import TopicLimits
from sluice.clients.kafka.topics import SampledRecord
from sluice.clients.lake.open import open_lake
from sluice.config.event import TimeSource
from sluice.config.pipeline import Pipeline
from sluice.doctor.check import Level
from sluice.doctor.events import joined, parse, sample_checks
from sluice.flow.resolve.resolve import resolve
from sluice.infer.values import NumberSpan, far_instants, far_times
from sluice.plan.lag import far_rows
from sluice.ship.record_times import RecordTimes, SourceTimes
from sluice.slices import Slice
from sluice.state.row_balance import rejected_by_reason, rejected_words, tombstone_words
from tests.support.fakes import FakeKafka, FakeTopic
from tests.support.landing_world import pipeline
from tests.support.page_world import complete, file, missing, unit

NOW = pendulum.datetime(2026, 11, 20, 12)
SECONDS = NOW.timestamp()


def spec(format: str, lake: str = "file:///lake") -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "p",
            "kafka": [{"cluster": "dc1", "bootstrap": "b:1", "topics": ["bids"]}],
            "event": {"type": {"field": "type"}, "time": {"field": "at", "format": format}},
            "lake": lake,
        }
    )


@pytest.mark.parametrize(
    ("format", "unit", "found", "said"),
    [
        ("epoch_ms", 1, "1970-01-21", "they are probably seconds: set `format: epoch_s` under `event.time`"),
        ("epoch_s", 1e3, "after the year 9999", "probably milliseconds: set `format: epoch_ms` under"),
        ("epoch_s", 1e6, "after the year 9999", "probably microseconds: set `format: epoch_us` under"),
        ("epoch_ms", 1e9, "after the year 9999", "probably nanoseconds: set `format: epoch_ns` under"),
    ],
)
def test_numbers_of_another_unit(format, unit, found, said):
    words = far_times(
        TimeSource(field="at", format=format), NumberSpan(SECONDS * unit, SECONDS * unit), int(SECONDS * 1000)
    )
    assert words.startswith(f"all times of the field at ({format}) are decades away: {found}")
    assert said in words


@pytest.mark.parametrize(
    "span",
    [
        NumberSpan(),
        NumberSpan(SECONDS, SECONDS * 1000),
        NumberSpan(0, SECONDS * 1000 * 50),
        NumberSpan(SECONDS * 1000 - 10**11, SECONDS * 1000),
    ],
)
def test_one_time_that_is_near_is_enough(span):
    assert far_times(TimeSource(field="at", format="epoch_ms"), span, int(SECONDS * 1000)) == ""


def test_old_times_are_no_other_unit():
    seconds = pendulum.datetime(1990, 5, 1).timestamp()
    words = far_times(
        TimeSource(field="at", format="epoch_s"), NumberSpan(seconds, seconds), int(SECONDS * 1000)
    )
    assert words.endswith(
        "are decades away: 1990-05-01; compare `event.time` in the pipeline file with an event"
    )
    assert (
        far_instants(TimeSource(field="at"), int(SECONDS * 1000), int(SECONDS * 1000), int(SECONDS * 1000))
        == ""
    )


def test_what_is_published():
    lines = [json.dumps({"type": "a", "at": SECONDS + n}).encode() for n in range(5000)]
    clock = RecordTimes(spec("epoch_ms").event, timedelta())
    stamps = SourceTimes(clock).of(lines, int(SECONDS * 1000), TopicLimits(4, 2**62, 3_600_000))
    assert pendulum.from_timestamp(stamps[0] / 1000).year == 1970
    assert "they are probably seconds: set `format: epoch_s`" in clock.far()
    right = RecordTimes(spec("epoch_s").event, timedelta())
    SourceTimes(right).of(lines, int(SECONDS * 1000), TopicLimits(4, 2**62, 3_600_000))
    assert right.far() == ""


@pytest.mark.parametrize(("format", "unit"), [("epoch_ms", 1), ("epoch_s", 1000)])
def test_what_the_doctor_samples(format, unit):
    """Also where every record is rejected for its time."""
    records = [
        SampledRecord("bids", 0, n, 0, json.dumps({"type": "a", "at": int(SECONDS) * unit}).encode(), ())
        for n in range(3)
    ]
    pipeline = spec(format)
    sample = parse(pipeline.event, records)
    warned = [c for c in sample_checks(pipeline, joined([sample, sample]), NOW) if c.place == "event.time"]
    assert [c.level for c in warned] == [Level.WARN]
    assert "they are probably" in warned[0].remedy


def test_what_has_landed():
    """Rows of 1970 in an hour of 2026."""
    pipeline = spec("epoch_ms")
    found = [complete(unit(0), files=[file("a", "1970-01-21T18", 5)]), missing(unit(1))]
    assert "1970-01-21; they are probably seconds" in far_rows(pipeline, found)
    other = complete(unit(1), files=[file("a", "2026-11-20T11", 5)])
    assert far_rows(pipeline, [*found, other]) == far_rows(pipeline, found[1:]) == ""


def test_what_lies_before_every_slice(tmp_path):
    """Published with the wrong format: 5,000 records are stamped 1970, and no hour has one."""
    pipeline = spec("epoch_ms", f"file://{tmp_path}")
    kafka = FakeKafka({("dc1", "bids"): FakeTopic("id", {0: [int(SECONDS)] * 5000})})
    hour = Slice(NOW.subtract(hours=1))
    resolve(pipeline, open_lake(pipeline), [hour], NOW, kafka.topics_of)
    said = far_outside(pipeline, kafka.topics_of)
    assert said.startswith("records of dc1/bids/0 before the first boundary: all times of the field at")
    assert "set `format: epoch_s`" in said
    kafka.silent.add("dc1")
    assert far_outside(pipeline, kafka.topics_of) == ""


def test_the_total_of_what_was_rejected():
    first = complete(unit(0), rows=5, rejected_records={"no type": 2, "time out of range": 1})
    second = complete(unit(1), files=[], rejected_records={"time out of range": 4})
    assert rejected_by_reason([first, second, missing(unit(2))]) == {"time out of range": 5, "no type": 2}
    assert rejected_words(pipeline(name="p"), [first, second]) == (
        "rejected: 7 of 12 records (5 time out of range, 2 no type); `sluice rejected p` shows them"
    )
    assert "(4 time out of range): none became a row" in rejected_words(pipeline(name="p"), [second])
    assert rejected_words(pipeline(name="p"), [missing(unit(0))]) == ""


def test_tombstones_are_counted_apart():
    only = complete(unit(0), rows=5, rejected_records={"no value": 12})
    both = complete(unit(1), rows=1, rejected_records={"no value": 1, "no type": 2})
    assert rejected_words(pipeline(name="p"), [only]) == ""
    assert rejected_words(pipeline(name="p"), [both]).startswith("rejected: 2 of 4 records (2 no type); ")
    assert tombstone_words([only, both]) == "tombstones: 13 records have no value, and give no row"
    assert tombstone_words([missing(unit(2))]) == ""


def test_rows_of_arrays_are_counted_among_rows():
    """Two records of arrays hold 1,200 rows, of which 1,099 are rejected; a third one is no JSON."""
    told = complete(unit(0), rows=101)
    counted = {
        "read": 3,
        "rejected_records": {"not JSON": 1},
        "rows": 1200,
        "rejected_elements": {"no type": 1099},
    }
    arrays = replace(told, manifest=replace(told.manifest, **counted))
    plain = complete(unit(1), rows=4, rejected_records={"no time": 1})
    assert rejected_words(pipeline(name="p"), [arrays]).startswith(
        "rejected: 1 of 3 records and 1,099 of 1,200 rows of arrays (1,099 no type, 1 not JSON); "
    )
    assert "rejected: 2 of 8 records and 1,099 of 1,200 rows of arrays (" in rejected_words(
        pipeline(name="p"), [arrays, plain]
    )
