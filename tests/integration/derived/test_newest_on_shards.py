"""Newest rows on two shards: each has the keys of its own rows, and a key is on one of them."""

from __future__ import annotations

import json

import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.config.pipeline import Pipeline
from sluice.errors import ShardsRefused
from sluice.flow.load.shards import load_shards
from sluice.slices import Unit
from sluice.state.departed_tables import creation
from tests.integration.land.test_counts import events
from tests.support.landing_world import World, hours, pipeline
from tests.support.shards_world import Shards, made, shards

pytestmark = pytest.mark.integration

UNITS = [Unit(piece, "dc1") for piece in hours(3)]
LOG = (
    "CREATE TABLE {db}.clicks (country String, _topic String, _partition Int32, _offset Int64, "
    "_slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY tuple()"
)


@pytest.fixture
def two(clickhouse_servers, tmp_path, name, monkeypatch) -> Shards:
    found = made(tmp_path, name, clickhouse_servers, monkeypatch)
    found.everywhere(LOG)
    spec = spec_of(found)
    found.everywhere(creation(spec, spec.targets[-1]).partition(": ")[2])
    return found


def spec_of(two: Shards, *names: str) -> Pipeline:
    db = two.world.database
    latest = {"table": f"{db}.newest", "key": ["country"]}
    by = {"shard_by": {f"{db}.clicks": "cityHash64(country)"}}
    return pipeline(
        tables={"click": {"table": f"{db}.clicks", "latest": latest}},
        clickhouse=shards(*(names or ("s1", "s2")), **by),
    )


def load(spec: Pipeline, lake: FolderLake, mode: str = "fill", only: str = "") -> None:
    for target in spec.targets:
        if not only or target.name == only:
            load_shards(spec, target, UNITS, lake, mode=mode, token=mode)


def test_newest_rows_on_two_shards(two: Shards):
    records, spec, lake = events(300), spec_of(two), FolderLake(two.world.root / "demo")
    partitions = [records[::2], records[1::2]]
    world = World({("dc1", "bids"): partitions})
    world.resolve(spec, lake, hours(3))
    world.land(spec, lake, hours(3))
    load(spec, lake)
    newest: dict[str, tuple] = {}
    for partition, items in enumerate(partitions):
        for offset, (payload, at) in enumerate(items):
            fields = json.loads(payload)
            if fields["type"] == "click":
                row = (at // 3_600_000 * 3600, offset, partition)
                key = fields["country"] or ""
                newest[key] = max(newest.get(key, row), row)
    select = "SELECT country, toUnixTimestamp(_slice), _offset, _partition FROM {db}.newest FINAL"
    seen = two.everywhere(select)
    assert sorted(row for rows in seen for row in rows) == sorted((k, *row) for k, row in newest.items())
    assert all(seen), "one shard has no key"
    load(spec, lake, "reload")
    assert two.everywhere(select + " ORDER BY ALL") == [sorted(rows) for rows in seen]

    # With the shards in another order the log is placed anew before its newest rows are taken.
    turned = spec_of(two, "s2", "s1")
    with pytest.raises(ShardsRefused, match="placed on other shards"):
        load(turned, lake, "repair", "newest")
