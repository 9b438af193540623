"""`sluice find` with real tables: what each has of a record, and when it was committed."""

from __future__ import annotations

from array import array
from datetime import timedelta

import pendulum
import pytest

from sluice.config.pipeline import Pipeline
from sluice.flow.find.find import RecordFinder
from sluice.flow.find.outcome import Outcome, RecordFacts, outcome_of
from sluice.state.boundaries.boundary import PartitionColumn, TopicBoundaries
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries, LogEntry
from tests.integration.landed import START, World, client_of, event, land, unit

pytestmark = pytest.mark.integration

KEYS = "_topic String, _partition Int32, _offset Int64, _slice DateTime('UTC'), _cluster String"
EVENTS = [event("click", n=1), event("view", n=2), event("click", n="x"), event("other")]


@pytest.fixture
def world(clickhouse_server, tmp_path, name: str, monkeypatch) -> World:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    found = World(tmp_path, client_of(clickhouse_server), name)
    found.sql("CREATE DATABASE {db}")
    found.sql(f"CREATE TABLE {{db}}.clicks (n UInt32, {KEYS}) ENGINE = MergeTree ORDER BY _slice")
    bare = "n UInt32, _slice DateTime('UTC'), _cluster String"
    found.sql(f"CREATE TABLE {{db}}.views ({bare}) ENGINE = MergeTree ORDER BY _slice")
    edges = array("q", [int(START.timestamp()), int(START.timestamp()) + 3600])
    column = PartitionColumn(0, array("q", [0, len(EVENTS)]), edges, edges, array("b", [0, 0]))
    block = TopicBoundaries("dc1", "events", "u", edges, {0: column})
    BoundaryLog(found.lake).append(Boundaries(), LogEntry(timedelta(hours=1), (block,)), START)
    return found


def asked(world: World, pipeline: Pipeline) -> list[RecordFacts]:
    finder = RecordFinder(pipeline, world.lake)
    return [facts for offset in range(len(EVENTS)) for facts in finder.at("events", 0, offset)]


def test_what_tables_have_of_each_record(world: World) -> None:
    pipeline = world.pipeline({"click": "clicks", "view": "views"})
    land(world.lake, unit(), EVENTS)
    waiting = [Outcome.NOT_LOADED, Outcome.NOT_LOADED, Outcome.NOT_LOADED, Outcome.NO_TABLE]
    assert [outcome_of(facts) for facts in asked(world, pipeline)] == waiting
    before = pendulum.now("UTC").subtract(seconds=1)
    for table in ("clicks", "views"):
        world.load(pipeline, unit(), table=table)
    click, view, unfit, other = asked(world, pipeline)
    outcomes = [outcome_of(facts) for facts in (click, view, unfit, other)]
    assert outcomes == [Outcome.IN_TABLE, Outcome.IN_TABLE, Outcome.REJECTED_ROW, Outcome.NO_TABLE]
    (clicks,), (views,), (refused,) = click.tables, view.tables, unfit.tables
    assert (clicks.table, clicks.commit, clicks.rows) == (f"{world.database}.clicks", "committed", 1)
    assert (views.table, views.rows) == (f"{world.database}.views", None)  # nothing tells its rows apart
    assert (refused.rows, refused.rejected_rows) == (0, (("n", "does not fit UInt32", 0),))
    assert before <= clicks.committed_at <= pendulum.now("UTC")

    # The key of a map is the event's own: it is not printed.
    of_map = """SELECT * REPLACE ('tags["ann"]' AS column) FROM sluice.rejected"""
    world.sql(f"INSERT INTO sluice.rejected {of_map} WHERE target = '{{db}}.clicks'")
    columns = [column for column, _, _ in asked(world, pipeline)[2].tables[0].rejected_rows]
    assert columns == ["n", "tags[]"]

    world.sql("INSERT INTO {db}.clicks SELECT * FROM {db}.clicks WHERE _offset = 0")
    assert outcome_of(asked(world, pipeline)[0]) == Outcome.TWICE
    world.sql("DELETE FROM {db}.clicks WHERE _offset = 0")
    assert outcome_of(asked(world, pipeline)[0]) == Outcome.ABSENT
    land(world.lake, unit(), EVENTS, generation=2)
    assert [facts.tables[0].commit for facts in asked(world, pipeline)[:3]] == ["stale"] * 3


def test_clickhouse_that_does_not_answer(world: World, monkeypatch) -> None:
    pipeline = world.pipeline({"click": "clicks"})
    land(world.lake, unit(), EVENTS)
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", "http://u:p@127.0.0.1:1/")
    click = asked(world, pipeline)[0]
    assert outcome_of(click) == Outcome.UNKNOWN
    assert "127.0.0.1:1" in click.tables[0].error
