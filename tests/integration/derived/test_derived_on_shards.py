"""Traffic counts and rollups on two shards: each makes its own part, and a unit is done when both have."""

from __future__ import annotations

from collections import Counter

import pendulum
import pytest

from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.lake.folder import FolderLake
from sluice.config.pipeline import Pipeline
from sluice.flow.load.shards import load_shards
from sluice.slices import Unit
from sluice.state.boundaries.model import Boundaries
from sluice.state.manifests import read_manifests
from sluice.state.shard_ledgers import ledgers_of
from sluice.state.status import statuses
from sluice.state.unit_state import UnitState
from tests.integration.land.test_counts import CLICKS, TRAFFIC, events, expected
from tests.support.landing_world import World, hours, pipeline
from tests.support.shards_world import Shards, made, shards

pytestmark = pytest.mark.integration

COUNTRIES = (
    "CREATE TABLE {db}.countries (country String, n UInt64, _slice DateTime('UTC'), "
    "_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY country"
)
SELECT = "SELECT country, count() AS n FROM {source} GROUP BY country"
UNITS = [Unit(piece, "dc1") for piece in hours(3)]


@pytest.fixture
def two(clickhouse_servers, tmp_path, name, monkeypatch) -> Shards:
    found = made(tmp_path, name, clickhouse_servers, monkeypatch)
    for statement in (TRAFFIC, CLICKS, COUNTRIES):
        found.everywhere(statement)
    (tmp_path / "countries.sql").write_text(SELECT)
    return found


def spec_of(two: Shards) -> Pipeline:
    db = two.world.database
    rollup = {"from": f"{db}.clicks", "sql": str(two.world.root / "countries.sql")}
    return pipeline(
        tables={"click": f"{db}.clicks"},
        counts=[{"table": f"{db}.traffic", "by": {"country": "country", "os": "device.os"}}],
        rollups={f"{db}.countries": rollup},
        clickhouse=shards("s1", "s2"),
    )


def load(spec: Pipeline, lake: FolderLake, mode: str = "fill", only: str = "") -> None:
    for target in spec.targets:
        if not only or target.name == only:
            load_shards(spec, target, UNITS, lake, mode=mode, token=mode)


def states(spec: Pipeline, lake: FolderLake) -> list[UnitState]:
    with connect_shards(spec) as servers:
        ledgers = ledgers_of(servers, spec, lake.url)
    manifests = read_manifests(lake, UNITS)
    found = statuses(spec, UNITS, Boundaries(), manifests, ledgers, pendulum.now("UTC"))
    return [status.state for status in found]


def test_counts_and_rollups_on_two_shards(two: Shards):
    records, spec, lake = events(300), spec_of(two), FolderLake(two.world.root / "demo")
    world = World({("dc1", "bids"): [records[::2], records[1::2]]})
    world.resolve(spec, lake, hours(3))
    world.land(spec, lake, hours(3))
    load(spec, lake)
    assert states(spec, lake) == [UnitState.COMPLETE] * 3

    select = "SELECT toUnixTimestamp(hour), type, toString(country) AS c, os, sum(count) FROM {db}.traffic"
    counted = two.everywhere(select + " GROUP BY ALL")
    sums: Counter = Counter()
    for hour, kind, country, os, count in (row for rows in counted for row in rows):
        sums[hour, kind, country, os] += count
    assert sums == expected(records)
    assert all(counted), "one shard has no counts"

    clicks = "SELECT country, toUnixTimestamp(_slice) AS at, count() FROM {db}.clicks GROUP BY ALL"
    rolled = "SELECT country, toUnixTimestamp(_slice) AS at, n FROM {db}.countries ORDER BY ALL"
    own = two.everywhere(clicks + " ORDER BY ALL")
    assert two.everywhere(rolled) == own and all(own)

    load(spec, lake, "reload", "clicks")
    assert states(spec, lake) == [UnitState.STALE] * 3
    load(spec, lake)
    assert states(spec, lake) == [UnitState.COMPLETE] * 3
    assert two.everywhere(rolled) == own
