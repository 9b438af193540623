"""What a load puts into the tables behind materialized views: what the server itself puts there when somebody
inserts the same rows into tables and views that are made alike."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from local.clickhouse_config import PASSWORD, USER
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import ALONE
from sluice.clients.clickhouse.sql import identifier
from sluice.config.pipeline import Pipeline
from sluice.flow.contents.compare_tables import Comparing
from sluice.flow.contents.staged_load import Stage
from sluice.flow.load.fencing import fences, stagings
from sluice.flow.load.work import work_for
from sluice.flow.verify.read_tables import read_views
from sluice.flow.verify.repairs import Repairs
from sluice.state.ledger import committed
from sluice.state.manifests import read_manifests
from tests.integration.landed import START, World, client_of, event, land, unit
from tests.integration.view_cases import BEFORE, CASES
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

HOURS = {unit(0): 5, unit(1): 0, unit(15): 4}


def events(count: int, first: int = 1) -> list:
    return [event(n=n, kind=f"k{n}", tags=["x", f"t{n}"][: n % 3]) for n in range(first, first + count)]


@pytest.fixture
def world(clickhouse_server, tmp_path, name) -> World:
    made = World(tmp_path, client_of(clickhouse_server), name)
    made.sql("CREATE DATABASE {db}")
    yield made
    made.sql("DROP DATABASE {db} SYNC")


@pytest.fixture
def mirror(world: World) -> World:
    """Where nobody loads: rows are inserted."""
    made = World(world.root, world.client, f"{world.database}_m")
    made.sql("CREATE DATABASE {db}")
    yield made
    made.sql("DROP DATABASE {db} SYNC")


def tables(world: World) -> list[str]:
    return [
        name
        for (name,) in world.sql(
            "SELECT name FROM system.tables WHERE database = '{db}' AND engine LIKE '%MergeTree'"
        )
    ]


def contents(world: World, called: str) -> dict[str, Counter]:
    """By table its rows; states of aggregates as what they stand for, and the database's name as `called`."""
    found = {}
    for name in tables(world):
        columns = world.client.rows(
            "SELECT name, type FROM system.columns WHERE database = {database:String} "
            "AND table = {name:String} AND default_kind != 'ALIAS' ORDER BY position",
            {"database": world.database, "name": name},
        )
        given = [f"finalizeAggregation(`{c}`)" if t.startswith("Agg") else f"`{c}`" for c, t in columns]
        rows = world.client.rows(f"SELECT {', '.join(given)} FROM {identifier(world.database, name)}")
        texts = [tuple(str(value).replace(world.database, called) for value in row) for row in rows]
        key = "inner" if name.startswith(".inner_id") else name.replace(world.database, called)
        found[key] = Counter(texts)
    return found


def expect_alike(world: World, mirror: World) -> None:
    for name in tables(mirror):
        if name != "dim":
            mirror.client.run(f"TRUNCATE TABLE {identifier(mirror.database, name)}")
    mirror.sql(f"INSERT INTO {{db}}.clicks SELECT * FROM {world.database}.clicks")
    assert contents(world, "d") == contents(mirror, "d")


def verified(world: World, pipeline: Pipeline) -> None:
    """`sluice verify` finds in the views' tables the rows that the loads have put there."""
    found = read_table(world.client, world.database, "clicks")
    assert found is not None
    span = {"start": int(START.timestamp()), "end": int(START.add(days=1).timestamp())}
    seen = read_views(world.client, pipeline, found, span)
    for fed in seen:
        there = {place: fed.rows.get(place, 0) for place in HOURS}
        assert fed.committed == there, fed.view
    assert len(seen) == len(found.stored)
    target, manifests = pipeline.targets[0], read_manifests(world.lake, HOURS)
    works = [work_for(pipeline, target, place, manifests[place], True, ALONE.stamp) for place in HOURS]
    contents = Comparing(Stage(world.client, pipeline, target, world.lake, ALONE), Repairs("p")).check(works)
    assert (contents.anomalies, contents.moved) == ([], [])


def _with_login(statement: str) -> str:
    """A dictionary reads its table as a user of its own."""
    return statement.replace("{user}", USER).replace("{password}", os.environ[PASSWORD])


@pytest.mark.parametrize("case", per_commit(CASES, 1))
def test_views_get_what_an_insert_gives_them(world: World, mirror: World, case: str):
    for place in (world, mirror):
        for statement in (*BEFORE, *CASES[case]):
            place.sql(_with_login(statement))
    pipeline = world.pipeline({"click": "clicks"})
    for place, count in HOURS.items():
        land(world.lake, place, events(count))
    world.load(pipeline, *HOURS)
    assert world.sql("SELECT count() FROM {db}.clicks") == [(9,)]
    expect_alike(world, mirror)
    world.load(pipeline, unit(0), mode="reload")
    expect_alike(world, mirror)
    land(world.lake, unit(0), events(3, first=2), generation=2)
    world.load(pipeline, *HOURS)
    assert world.sql("SELECT count() FROM {db}.clicks") == [(7,)]
    expect_alike(world, mirror)
    verified(world, pipeline)
    ledger = committed(world.client, pipeline, world.lake.url, pipeline.targets[0])
    assert {place: row.rows for place, row in ledger.items()} == HOURS | {unit(0): 3}
    own = (fences(f"{world.database}.clicks"), stagings(f"{world.database}.clicks"))
    left = world.sql("SELECT name FROM system.tables WHERE database = 'sluice'")
    assert [name for (name,) in left if name.startswith(own)] == []
