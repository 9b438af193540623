"""What the watch reads while a source is silent, and of hours that Kafka has lost."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import pytest

from sluice.clients.lake import layout
from sluice.config.pipeline import Cluster, Pipeline
from sluice.errors import KafkaUnavailable
from sluice.flow.resolve.resolve import resolve
from sluice.manifest import OffsetRange, encode
from sluice.page.retention import read_retention, retention_of
from sluice.slices import SliceRange
from sluice.state.boundaries.model import Boundaries
from sluice.state.unit_state import UnitState
from sluice.watch import observe as observing
from sluice.watch.problems import ProblemSource
from tests.support.channels import mail
from tests.support.fakes import FakeTopic
from tests.support.page_world import START, manifest, pipeline, unit
from tests.support.watch_world import HOUR_MS, World, records, world_of


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return world_of(monkeypatch)


@pytest.mark.parametrize("away", [False, True], ids=["clickhouse answers", "clickhouse is silent"])
def test_the_lag_is_what_lake_and_kafka_say(world: World, away: bool):
    """Hours 10 and 11 have landed. The 5 records of hour 9 have not, nor have the 3 of hour 12."""
    world.kafka.topics["dc1", "t"] = FakeTopic("u", {0: records({-1: 5, 0: 7, 1: 11, 2: 3})})
    spec, now = pipeline(lookback="2h"), START.add(hours=2, minutes=5)
    resolve(
        spec, world.lake, SliceRange(START.subtract(hours=1), START.add(hours=2)), now, world.kafka.topics_of
    )
    for hour, start, until in ((0, 5, 12), (1, 12, 23)):
        landed = replace(manifest(unit(hour), ()), ranges=(OffsetRange("t", "u", 0, start, until),))
        world.lake.put(layout.manifest(unit(hour).slice.id, "dc1"), encode(landed))
    world.away = away
    seen = world.observe(spec, now)
    assert (ProblemSource.CLICKHOUSE in seen.silent, seen.lag_records) == (away, 5 + 3)
    (one,) = seen.lag.partitions
    assert (one.landed_until, one.records, one.seconds, one.log_end) == (23, 5 + 3, 5 * 60, 26)


def troubled(world: World) -> Pipeline:
    """Hours 8 and 9 are before `lookback`. Kafka has lost 5 records of hour 10 in topic x; partition 1 of
    topic t stands still since 9:00. Boundaries are stored until 12:00."""
    world.kafka.topics["dc1", "t"] = FakeTopic(
        "u", {0: records(dict.fromkeys(range(-2, 5), 10)), 1: records({-2: 5})}
    )
    world.kafka.topics["dc1", "x"] = FakeTopic("v", {0: records({0: 20})})
    world.settings = {"retention.ms": str(9 * HOUR_MS)}
    alarms = {"lag": "1h", "lag_records": 10, "notify": [mail("smtp_ops")]}
    kafka = [{"cluster": "dc1", "bootstrap": "x:1", "topics": ["t", "x"]}]
    spec = pipeline(kafka=kafka, lookback="4h", stalled_after=2, alarms=alarms)
    resolved = SliceRange(START.subtract(hours=2), START.add(hours=2))
    resolve(spec, world.lake, resolved, START.add(hours=4), world.kafka.topics_of)
    world.kafka.topics["dc1", "x"].starts[0] = 5
    return spec


@pytest.mark.parametrize("source", [ProblemSource.KAFKA, ProblemSource.CLICKHOUSE])
def test_a_silent_source_is_one_problem_and_neither_begins_nor_ends_another(
    world: World, source: ProblemSource
):
    spec, now = troubled(world), START.add(hours=4, minutes=40)
    assert [line.split(": ", 2)[:2] for line in world.heard(spec, now)] == [
        ["PROBLEM hour overdue", "slice 2026-11-20T11Z/dc1"],
        ["PROBLEM hour overdue", "slice 2026-11-20T12Z/dc1"],
        ["PROBLEM hour overdue", "slice 2026-11-20T13Z/dc1"],
        ["PROBLEM lag", "records"],
        ["PROBLEM lag", "seconds"],
        ["PROBLEM older hours", "before the `lookback`"],
        ["PROBLEM partition stands still", "cluster dc1, t/1"],
        ["PROBLEM records expired", "slice 2026-11-20T10Z/dc1"],
        ["PROBLEM retention", "4 times, from slice 2026-11-20T08Z/dc1 to 2026-11-20T11Z/dc1; of the first"],
        ["PROBLEM table missing", "table events.clicks"],
    ]
    world.away = source is ProblemSource.CLICKHOUSE
    world.kafka.silent = {"dc1"} if source is ProblemSource.KAFKA else set()
    (silent,) = world.heard(spec, now.add(minutes=5))
    assert silent.startswith(f"PROBLEM unavailable: {source}: ")
    world.away, world.kafka.silent = False, set()
    (back,) = world.heard(spec, now.add(minutes=10))
    assert back.startswith(f"OVER unavailable: {source} (open since 2026-11-20T14:45")


def test_each_cluster_that_is_silent_is_told(world: World, monkeypatch: pytest.MonkeyPatch):
    """dc1 does not resolve; dc2 and dc3 do, from boundaries that are stored, and are silent then."""
    clusters = [{"cluster": f"dc{n}", "bootstrap": "x:1", "topics": ["t"]} for n in (1, 2, 3)]
    spec, now = pipeline(kafka=clusters), START.add(hours=4)
    for name in ("dc2", "dc3"):
        world.kafka.topics[name, "t"] = FakeTopic("u", {0: records({0: 5})})
    world.kafka.silent = {"dc1"}
    errors = {name: str(KafkaUnavailable(name, "x:1", "no answer")) for name in ("dc2", "dc3")}
    monkeypatch.setattr(observing, "ask_topics", lambda *_: ({}, list(errors.values())))

    def inquiry(cluster: Cluster) -> NoReturn:
        raise KafkaUnavailable(cluster.cluster, "x:1", "no answer")

    monkeypatch.setattr(observing, "open_inquiry", inquiry)
    seen = world.observe(spec, now)
    first, *others = seen.silent[ProblemSource.KAFKA].split("; ")
    assert "dc1" in first and others == list(errors.values())
    assert seen.lag.errors == [first, *others]


def test_records_that_wait_are_noticed_while_clickhouse_is_silent(world: World):
    spec, now = troubled(world), START.add(hours=4, minutes=40)
    world.away = True
    heard = world.heard(spec, now)
    assert "PROBLEM lag: records: 90 records are in Kafka and not landed, the bound is 10" in heard


def test_what_kafka_deletes_next_before_lookback_is_noticed_while_clickhouse_is_silent(world: World):
    """Hours 8 and 9 are before `lookback`. Hour 8 has landed, which no summary knows: it is in no danger."""
    spec, now = troubled(world), START.add(hours=4, minutes=40)
    landed = replace(manifest(unit(-2), ()), ranges=(OffsetRange("t", "u", 0, 0, 10),))
    world.lake.put(layout.manifest(unit(-2).slice.id, "dc1"), encode(landed))
    world.away = True
    heard = world.heard(spec, now)
    assert [line.split(": ")[1] for line in heard if line.startswith("PROBLEM retention")] == [
        f"slice 2026-11-20T{hour}Z/dc1" for hour in ("09", "10", "11")
    ]
    assert not any("older hours" in line for line in heard)
    older = world.observe(spec, now).older
    assert older.states == {unit(-2): UnitState.LANDED, unit(-1): UnitState.MISSING}


def paused(world: World, lost: int) -> Pipeline:
    """Of the 150 hours before 10:00 none has landed. Kafka has lost the oldest, which nobody has noted, and
    will lose the next in an hour."""
    stamps = records(dict.fromkeys(range(-150, 0), 2))
    world.kafka.topics["dc1", "t"] = FakeTopic("u", {0: stamps}, {0: 2 * lost})
    world.settings = {"retention.ms": str((150 - lost + 1) * HOUR_MS)}
    alarms = {"retention": "2h", "notify": [mail("smtp_ops")]}
    return pipeline(start=f"{START.subtract(hours=150):%Y-%m-%dT%H:%MZ}", lookback="2h", alarms=alarms)


LOST = pytest.mark.parametrize("lost", [0, 5, 30, 100], ids=lambda hours: f"{hours} hours are lost")


@LOST
def test_hours_that_kafka_has_lost_hide_none_that_it_deletes_next(world: World, lost: int):
    problems = [one for one in world.heard(paused(world, lost), START) if "PROBLEM retention" in one]
    assert [problem.split(" (")[0] for problem in problems] == [
        f"PROBLEM retention: slice {hour}: Kafka will delete hour {hour.slice.id} in {left} h 0 min"
        for hour, left in ((unit(lost - 150), 1), (unit(lost - 149), 2))
    ]


@LOST
def test_the_pages_clock_has_the_hours_that_kafka_deletes_next(world: World, lost: int):
    facts = read_retention(paused(world, lost), world.lake, Boundaries(), START)
    found = retention_of(facts, START)
    assert (found.waiting, found.errors) == (150, [])
    ends = [(one.slice, one.at) for one in found.hours if one.at][:2]
    assert ends == [
        (unit(hour).slice.id, START.add(hours=left).isoformat())
        for hour, left in ((lost - 150, 1), (lost - 149, 2))
    ]
    assert len(found.hours) <= 24 + 24


def test_another_cluster_is_asked_for_its_own_oldest_hours(world: World):
    """Cluster dc2 has lost nothing, and lacks hours since the first; dc1 has lost 100."""
    spec = paused(world, 100)
    world.kafka.topics["dc2", "t"] = FakeTopic("w", {0: records(dict.fromkeys(range(-150, 0), 1))})
    clusters = [{"cluster": name, "bootstrap": "x:1", "topics": ["t"]} for name in ("dc1", "dc2")]
    both = Pipeline.model_validate({**spec.model_dump(exclude_unset=True), "kafka": clusters})
    oldest = {one.unit for one in world.observe(both, START).oldest if one.state is UnitState.MISSING}
    assert {unit(-50, "dc1"), unit(-49, "dc1"), unit(-150, "dc2")} <= oldest
