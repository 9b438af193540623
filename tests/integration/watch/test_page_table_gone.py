"""A table that is gone: the page says of its hours what `sluice status` says, until the table is back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from sluice.cli.status import read_behind
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.page.rows import RequestedRange, rows_of
from sluice.page.slice_view import unit_view
from sluice.page.status_cache import StatusCache
from sluice.slices import SliceRange
from sluice.state.months import Summaries, note
from sluice.state.survey import survey
from tests.integration.landed import START, World, client_of, event, land, unit

pytestmark = pytest.mark.integration

NOW = START.add(hours=4)
HOURS = SliceRange(START, START.add(hours=2))


@pytest.fixture
def world(name, tmp_path: Path, clickhouse_server, monkeypatch) -> Iterator[World]:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    client = client_of(clickhouse_server)
    client.run(f"CREATE DATABASE {name}")
    for table in ("clicks", "views"):
        columns = "n UInt8, _slice DateTime('UTC'), _cluster LowCardinality(String)"
        client.run(f"CREATE TABLE {name}.{table} ({columns}) ENGINE = MergeTree ORDER BY _slice")
    yield World(tmp_path, client, name)
    client.run(f"DROP DATABASE {name} SYNC")


@pytest.fixture
def pipeline(world: World) -> Pipeline:
    """Two hours are landed and loaded."""
    spec = world.pipeline({"click": "clicks", "view": "views"}, start=START.isoformat())
    for hour in (0, 1):
        land(world.lake, unit(hour), [event("click", n=1), event("view", n=2)])
    for table in ("clicks", "views"):
        world.load(spec, unit(0), unit(1), table=table)
    note(world.lake, survey(spec, HOURS))
    return spec


def cells(memory: StatusCache, spec: Pipeline, days: int) -> Mapping[str, str] | Mapping[str, int]:
    """By hour, or of a range of days how many hours have which."""
    asked = RequestedRange(HOURS.end.subtract(days=days), HOURS.end, NOW)
    (row,) = rows_of(memory, [spec], asked, {})
    assert row.error == ""
    if asked.zoom == "hours":
        return {cell.id: cell.cell for cell in row.cells if cell.cell != "before"}
    counts = [pair for cell in row.cells for pair in cell.counts.items()]
    return {kind: number for kind, number in counts if kind not in ("before", "open")}


def tables(memory: StatusCache, spec: Pipeline) -> Mapping[str, str]:
    (status, _) = memory.snapshot(spec, HOURS).statuses
    gone = memory.clients.gone(spec)
    return {row.table: row.state for row in unit_view(spec, status, Summaries([]), gone).tables}


@pytest.mark.parametrize("days", [1, 30])
def test_an_hour_of_a_table_that_is_gone(world: World, pipeline: Pipeline, days: int):
    memory = StatusCache()
    clicks, views = (f"{world.database}.{name}" for name in ("clicks", "views"))
    ids = [unit(hour).slice.id for hour in (0, 1)]
    loaded = dict.fromkeys(ids, "loaded") if days == 1 else {"loaded": 2}
    assert cells(memory, pipeline, days) == loaded
    world.sql("RENAME TABLE {db}.clicks TO {db}.away")
    found = survey(pipeline, HOURS)
    note(open_lake(pipeline), found)
    said = read_behind(pipeline, found)
    assert {str(status.state) for status in found} == {"landed"} and [gone.table for gone in said.gone] == [
        clicks
    ]
    gone = dict.fromkeys(ids, "no-table") if days == 1 else {"no-table": 2}
    assert cells(memory, pipeline, days) == cells(memory, pipeline, days) == gone
    assert tables(memory, pipeline) == {clicks: "no such table", views: "committed"}
    world.sql("RENAME TABLE {db}.away TO {db}.clicks")
    note(open_lake(pipeline), survey(pipeline, HOURS))
    assert cells(memory, pipeline, days) == loaded
    assert tables(memory, pipeline) == {clicks: "committed", views: "committed"}


@pytest.mark.parametrize("days", [1, 30])
def test_an_hour_that_a_table_lacks_is_late(world: World, pipeline: Pipeline, days: int):
    """The table is there: a load is due."""
    memory = StatusCache()
    land(world.lake, unit(1), [event("click", n=3)], generation=2)
    world.sql("DROP TABLE {db}.clicks SYNC")
    note(open_lake(pipeline), survey(pipeline, HOURS))
    columns = "n UInt8, _slice DateTime('UTC'), _cluster LowCardinality(String)"
    world.sql(f"CREATE TABLE {{db}}.clicks ({columns}) ENGINE = MergeTree ORDER BY _slice")
    ids = [unit(hour).slice.id for hour in (0, 1)]
    assert cells(memory, pipeline, days) == (dict.fromkeys(ids, "late") if days == 1 else {"late": 2})
