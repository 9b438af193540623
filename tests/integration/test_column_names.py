"""Columns of a user's table that are named like anything in Sluice's own statements."""

from __future__ import annotations

from random import Random

import pytest

from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import Placement
from sluice.clients.clickhouse.sql import identifier
from sluice.flow.verify.read_tables import SliceSpan
from sluice.flow.verify.read_views import read_views
from sluice.slices import SliceRange
from sluice.state.system_tables import create_system_tables
from tests.integration.landed import START, World, client_of, event, land, unit
from tests.support.statement_names import names

pytestmark = pytest.mark.integration

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
EVENTS = range(7)
NAMES = names()


def value(name: str, number: int) -> int:
    """What column `name` has in event `number`: no two columns add up to the same."""
    return NAMES.index(name) * 100 + number


def columns(kind: str) -> str:
    return ", ".join(f"{identifier(name)} {kind}" for name in NAMES)


@pytest.fixture
def world(clickhouse_server, tmp_path, name) -> World:
    made = World(tmp_path, client_of(clickhouse_server), name)
    made.sql("CREATE DATABASE {db}")
    create_system_tables(made.client, "sluice verify made")
    made.sql(f"CREATE TABLE {{db}}.clicks ({columns('UInt32')}, {KEYS}) ENGINE = MergeTree ORDER BY tuple()")
    yield made
    made.sql("DROP DATABASE {db} SYNC")


def make_view(world: World, table: str, kind: str) -> None:
    given = ", ".join(f"CAST({identifier(name)} AS {kind}) AS {identifier(name)}" for name in NAMES)
    engine = f"SummingMergeTree(({', '.join(map(identifier, NAMES))})) ORDER BY (_slice, _cluster)"
    world.sql(f"CREATE TABLE {{db}}.{table} ({columns(kind)}, {KEYS}) ENGINE = {engine}")
    world.sql(
        f"CREATE MATERIALIZED VIEW {{db}}.{table}_view TO {{db}}.{table} AS "
        f"SELECT {given}, _slice, _cluster FROM {{db}}.clicks"
    )


def test_sums_of_a_views_table_are_of_its_own_columns(world: World):
    make_view(world, "whole", "UInt32")
    make_view(world, "broken", "Float64")
    hour = f"toDateTime({int(START.timestamp())}, 'UTC')"
    rows = [f"({', '.join(str(value(name, n)) for name in NAMES)}, {hour}, 'dc1')" for n in EVENTS]
    world.sql(f"INSERT INTO {{db}}.clicks VALUES {', '.join(rows)}")
    pipeline, found = world.pipeline({"click": "clicks"}), read_table(world.client, world.database, "clicks")
    assert found is not None
    span = SliceSpan.of(SliceRange(START, START.add(hours=1))).parameters
    views = read_views(world.client, pipeline, pipeline.targets[0], found, span)
    assert views.notes == ()
    sums = {one.table.partition(".")[2]: one for one in views.view_tables}
    wanted = [sum(value(name, n) for n in EVENTS) for name in NAMES]
    for seen in (sums["whole"].stored, sums["whole"].selected):
        assert seen[unit()].exact == f"({','.join(map(str, wanted))})"
    for seen in (sums["broken"].stored, sums["broken"].selected):
        assert [(one.value, one.scale) for one in seen[unit()].floats] == [(n, n) for n in wanted]


def test_a_row_is_placed_by_its_own_columns(world: World):
    """Of two shards the second; whoever reads another column by one of the names places rows elsewhere."""
    place = " + ".join(map(identifier, NAMES))
    pipeline, second = world.pipeline({"click": "clicks"}), Placement("s2", 1, 2, place, "s1, s2 by place")
    numbers = Random(1)
    fields = [{name: numbers.randrange(100) for name in NAMES} for _ in range(20)]
    land(world.lake, unit(), [event(**one) for one in fields])
    wanted = sorted(tuple(one.values()) for one in fields if sum(one.values()) % 2)
    assert 0 < len(wanted) < len(fields)
    assert world.load(pipeline, unit(), placement=second).summary()["rows"] == len(wanted)
    listed = ", ".join(map(identifier, NAMES))
    assert world.sql(f"SELECT {listed} FROM {{db}}.clicks ORDER BY {listed}") == wanted
