"""Rows of messages that were arrays: their numbers in targets and sluice.rejected, beside files without."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.manifest import Manifest
from tests.integration.landed import World, client_of, event, land, unit
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration


@pytest.fixture
def world(name, tmp_path, clickhouse_server) -> Iterator[World]:
    client = client_of(clickhouse_server)
    client.run(f"CREATE DATABASE {name}")
    yield World(tmp_path, client, name)
    client.run(f"DROP DATABASE {name} SYNC")


def number(world: World, manifest: Manifest) -> None:
    """Gives every row of the unit's files the number 7 + its place."""
    for file in manifest.files:
        with world.lake.local(file.key) as path:
            table = pq.read_table(path)
        begun = world.lake.begin(file.key)
        numbers = pa.array(range(7, 7 + table.num_rows), pa.int32())
        pq.write_table(table.append_column("_row", numbers), begun.path)
        world.lake.finish(file.key, begun)


def make(world: World) -> None:
    world.sql(
        "CREATE TABLE {db}.clicks (n UInt8, _row UInt32, _offset UInt64, _slice DateTime('UTC'), "
        "_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice"
    )


@pytest.mark.parametrize("read", per_commit(["pull", "push"]))
def test_files_without_numbers_count_as_row_0(world: World, read: str):
    make(world)
    land(world.lake, unit(0), [event(n=1), event(n=300)])
    number(world, land(world.lake, unit(1), [event(n=2), event(n=400), event(n=3)]))
    world.load(world.pipeline({"click": "clicks"}, clickhouse={"read": read}), unit(0), unit(1))
    assert world.sql("SELECT n, _row FROM {db}.clicks ORDER BY n") == [(1, 0), (2, 7), (3, 9)]
    rejected_rows = "SELECT offset, row FROM sluice.rejected WHERE target = '{db}.clicks' ORDER BY slice"
    assert world.sql(rejected_rows) == [(1, 0), (1, 8)]
