"""After an outage longer than `lookback` the hourly runs land and load what it left out, and tell of it.

The steps, the lake and ClickHouse are real; Kafka and Spark stand in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import pendulum
import pytest

from sluice.clients.clickhouse.client import Client
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.errors import RecordsExpired
from sluice.flow import choose_backlog, steps
from sluice.flow.resolve.resolve import resolve, retained_losses
from sluice.slices import SliceRange
from tests.integration.landed import client_of
from tests.support.fakes import FakeTopic
from tests.support.landing_world import START, World, event
from tests.support.landing_world import pipeline as landing_pipeline

pytestmark = pytest.mark.integration

HOURS = 90
COLUMNS = "n UInt32, _slice DateTime('UTC'), _cluster LowCardinality(String)"


@dataclass
class Hourly:
    """The hourly DAG without Airflow: what its tasks call, in their order."""

    pipeline: Pipeline
    lake: Lake
    world: World
    client: Client
    monkeypatch: pytest.MonkeyPatch

    def at(self, hour: int) -> pendulum.DateTime:
        """It is `hour` hours and five minutes after START."""
        now = START.add(hours=hour, minutes=5)
        self.monkeypatch.setattr(pendulum, "now", lambda tz=None: now)
        return now

    def run(self, hour: int) -> list[str]:
        """The run of the slice that ends at `hour`. The errors of batches that did not land all they have."""
        self.at(hour)
        end, failed = START.add(hours=hour), []
        slices = steps.hourly_range(self.pipeline, SliceRange(end.subtract(hours=1), end))
        steps.resolve_range(self.pipeline, slices)
        batches = steps.work_in(self.pipeline, slices, "fill").batches
        older = choose_backlog.older_batches(self.pipeline, slices.start, hour)
        for batch in (*batches, *older.batches):
            try:
                self.world.land(self.pipeline, self.lake, batch)
            except RecordsExpired as error:
                failed.append(str(error))
            steps.load_table(
                self.pipeline, self.pipeline.targets[0].table, batch, "fill", "t", lambda _: None
            )
            if not failed:
                steps.verify_range(self.pipeline, batch)
        return failed

    def told(self, hour: int) -> str:
        now = self.at(hour)
        return str(
            choose_backlog.seen_backlog(self.pipeline, self.lake, now.start_of("hour").subtract(hours=24))
        )

    @property
    def rows(self) -> Counter:
        table = self.pipeline.targets[0].table
        return Counter(
            (stamp, n) for stamp, n in self.client.rows(f"SELECT toUnixTimestamp(_slice), n FROM {table}")
        )

    @staticmethod
    def published(*without: int) -> Counter:
        """An event every ten minutes, numbered, apart from those of the hours `without`."""
        stamp = int(START.timestamp())
        return Counter((stamp + 3600 * (n // 6), n) for n in range(6 * HOURS) if n // 6 not in without)


@pytest.fixture
def hourly(clickhouse_server, tmp_path, name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hourly]:
    world = World({("dc1", "bids"): [[event("click", 10 * n, n=n) for n in range(6 * HOURS)]]})
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_BACKLOG", clickhouse_server.at.variable)
    spec = landing_pipeline(
        lake=tmp_path.as_uri(),
        tables={"click": f"{name}.clicks"},
        clickhouse={"connection": "clickhouse_backlog"},
    )
    # The steps ask the Kafka of lists.
    monkeypatch.setattr(steps, "resolve", partial(resolve, topics_of=world.topics_of))
    monkeypatch.setattr(
        choose_backlog, "retained_losses", partial(retained_losses, topics_of=world.topics_of)
    )
    with closing(client_of(clickhouse_server)) as client:
        client.run(f"CREATE DATABASE {name}")
        client.run(f"CREATE TABLE {name}.clicks ({COLUMNS}) ENGINE = MergeTree ORDER BY n")
        yield Hourly(spec, open_lake(spec), world, client, monkeypatch)


def test_runs_after_a_long_outage_bring_what_it_left_out(hourly: Hourly):
    """No run from hour 30 on until hour 85: `lookback` reaches back to hour 61."""
    assert hourly.run(29) == hourly.run(30) == []
    assert hourly.rows == hourly.published(*range(5), *range(30, HOURS))
    assert hourly.told(85) == (
        "31 slices from 2026-01-02T06Z to 2026-01-03T12Z are not complete (31 missing)"
    )
    assert hourly.run(85) == []
    assert hourly.rows == hourly.published(*range(5), *range(85, HOURS))
    assert not choose_backlog.seen_backlog(hourly.pipeline, hourly.lake, START.add(hours=61)).states


@pytest.mark.long
def test_what_kafka_has_lost_meanwhile_stays_told_and_holds_up_nothing(hourly: Hourly):
    """The records of hours 30 … 33 expire before anybody has asked for those hours: up to hour 34, whose
    look-up gives the log start, each may have had them."""
    hourly.run(29)
    hourly.run(30)
    hourly.world.expire("dc1", "bids", 0, 6 * 34)
    assert hourly.run(85) == []
    assert hourly.rows == hourly.published(*range(5), *range(30, 35), *range(85, HOURS))
    lost = "5 slices from 2026-01-02T06Z to 2026-01-02T10Z are not complete (5 expired)"
    assert hourly.told(85) == lost
    assert hourly.run(86) == []
    assert hourly.told(86) == lost
    rest = hourly.pipeline.model_copy(update={"on_expired": "land_rest"})
    hourly.pipeline = rest
    assert hourly.run(87) == []
    assert hourly.rows == hourly.published(*range(5), *range(30, 34), *range(87, HOURS))
    assert not choose_backlog.seen_backlog(rest, hourly.lake, START.add(hours=63)).states


@pytest.mark.long
def test_a_start_that_lies_before_the_first_run_is_where_the_hours_begin(hourly: Hourly):
    hourly.pipeline = hourly.pipeline.model_copy(update={"start": START.add(hours=2)})
    assert hourly.told(50) == (
        "24 slices from 2026-01-01T02Z to 2026-01-02T01Z are not complete (24 missing)"
    )
    assert hourly.run(50) == []
    assert hourly.rows == hourly.published(0, 1, *range(50, HOURS))


@pytest.mark.long
def test_a_cluster_that_was_away_for_longer_than_lookback_is_caught_up_with(hourly: Hourly):
    """dc2 is silent from hour 6 to hour 44, while dc1 goes on: dc2's hours 6 … 19 lie before `lookback`."""
    own = {"topics": ["bids"], "bootstrap": "nowhere:1"}
    both = [{"cluster": name, **own} for name in ("dc1", "dc2")]
    hourly.world.logs["dc2", "bids"] = [[event("click", 60 * h + 5, n=1000 + h) for h in range(HOURS)]]
    stamps = {0: [at for _, at in hourly.world.logs["dc2", "bids"][0]]}
    hourly.world.kafka.topics["dc2", "bids"] = FakeTopic("id-dc2", stamps)
    hourly.pipeline = Pipeline.model_validate(
        {**hourly.pipeline.model_dump(exclude_defaults=True), "kafka": both, "start": START.add(hours=5)}
    )
    assert hourly.run(6) == []
    hourly.world.kafka.silent.add("dc2")
    for hour in (20, 42, 43):
        assert hourly.run(hour) == []
    first = {(int(START.timestamp()) + 3600 * h, 1000 + h) for h in (5,)}
    assert hourly.rows == hourly.published(*range(5), *range(43, HOURS)) + Counter(first)
    assert hourly.told(43) == (
        "13 slices from 2026-01-01T06Z to 2026-01-01T18Z are not complete (13 missing)"
    )
    hourly.world.kafka.silent.clear()
    assert hourly.run(44) == []
    late = {(int(START.timestamp()) + 3600 * h, 1000 + h) for h in range(5, 44)}
    assert hourly.rows == hourly.published(*range(5), *range(44, HOURS)) + Counter(late)
    assert not choose_backlog.seen_backlog(hourly.pipeline, hourly.lake, START.add(hours=20)).states
