"""Rows that the page shows are those that are there: without deleted ones, and as a table holds them now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.page.tables import rows_of_slice, tables_now
from sluice.slices import SliceRange
from tests.integration.landed import START, World, client_of, event, land, unit

pytestmark = pytest.mark.integration

HOURS = SliceRange(START, START.add(hours=2))


@pytest.fixture
def world(name, tmp_path: Path, clickhouse_server, monkeypatch) -> Iterator[World]:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    client = client_of(clickhouse_server)
    client.run(f"CREATE DATABASE {name}")
    columns = "n UInt8, _slice DateTime('UTC'), _cluster LowCardinality(String)"
    unmerged = "max_bytes_to_merge_at_max_space_in_pool = 1"
    client.run(
        f"CREATE TABLE {name}.clicks ({columns}) ENGINE = MergeTree ORDER BY _slice SETTINGS {unmerged}"
    )
    yield World(tmp_path, client, name)
    client.run(f"DROP DATABASE {name} SYNC")


@pytest.fixture
def pipeline(world: World) -> Pipeline:
    """Two hours of 5 and of 3 rows."""
    spec = world.pipeline({"click": "clicks"}, start=START.isoformat())
    for hour, rows in ((0, 5), (1, 3)):
        land(world.lake, unit(hour), [event("click", n=n) for n in range(rows)])
        world.load(spec, unit(hour), table="clicks")
    return spec


def in_all(world: World, pipeline: Pipeline) -> int:
    asked = [(world.client, [f"{world.database}.clicks"])]
    (now,) = tables_now(asked, pipeline, open_lake(pipeline).url, HOURS).values()
    return now.rows


def test_deleted_rows_do_not_count_before_a_merge_either(world: World, pipeline: Pipeline):
    assert in_all(world, pipeline) == 8
    world.sql("DELETE FROM {db}.clicks WHERE n >= 2 SETTINGS lightweight_deletes_sync = 2")
    (counted,) = world.client.rows(
        "SELECT sum(rows) FROM system.parts WHERE active AND database = {db:String}", {"db": world.database}
    )[0]
    assert counted == 8, "the server's own count has them until a merge"
    assert in_all(world, pipeline) == 4


def test_an_hours_rows_are_those_of_the_table_whatever_the_ledger_says(world: World, pipeline: Pipeline):
    table = f"{world.database}.clicks"
    asked = [(world.client, [table])]
    assert rows_of_slice(asked, pipeline, unit(0).slice) == {table: 5}
    world.sql("INSERT INTO {db}.clicks SELECT * FROM {db}.clicks WHERE n = 4")
    assert rows_of_slice(asked, pipeline, unit(0).slice) == {table: 6}
    assert rows_of_slice(asked, pipeline, unit(1).slice) == {table: 3}
    assert rows_of_slice([(world.client, [])], pipeline, unit(0).slice) == {}
