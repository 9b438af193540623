"""Columns of a user's table that are named like anything in Sluice's own statements."""

from __future__ import annotations

from random import Random

import pytest

from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import Placement
from sluice.clients.clickhouse.sql import identifier
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.read_tables import SliceSpan, read_views
from sluice.slices import SliceRange
from sluice.state.system_tables import create_system_tables
from tests.integration.landed import START, World, client_of, event, land, unit
from tests.integration.verify.test_contents import compared
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
def world(clickhouse_server, tmp_path, name, monkeypatch) -> World:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    made = World(tmp_path, client_of(clickhouse_server), name)
    made.sql("CREATE DATABASE {db}")
    create_system_tables(made.client, "sluice verify made")
    made.sql(f"CREATE TABLE {{db}}.clicks ({columns('UInt32')}, {KEYS}) ENGINE = MergeTree ORDER BY tuple()")
    yield made
    made.sql("DROP DATABASE {db} SYNC")


@pytest.mark.long
def test_the_rows_of_a_views_table_are_compared_by_its_own_columns(world: World):
    given = ", ".join(map(identifier, NAMES))
    engine = f"SummingMergeTree(({given})) ORDER BY (_slice, _cluster)"
    world.sql(f"CREATE TABLE {{db}}.sums ({columns('UInt32')}, {KEYS}) ENGINE = {engine}")
    world.sql(
        "CREATE MATERIALIZED VIEW {db}.sums_view TO {db}.sums AS "
        f"SELECT {given}, _slice, _cluster FROM {{db}}.clicks"
    )
    pipeline = world.pipeline({"click": "clicks"})
    land(world.lake, unit(), [event(**{name: value(name, n) for name in NAMES}) for n in EVENTS])
    world.load(pipeline, unit())
    found = read_table(world.client, world.database, "clicks")
    assert found is not None
    span = SliceSpan.of(SliceRange(START, START.add(hours=1))).parameters
    [seen] = read_views(world.client, pipeline, found, span)
    assert (seen.rows, seen.committed) == ({unit(): 1}, {unit(): 1})

    def differing() -> list[tuple[str, str]]:
        found = compared(world, pipeline).anomalies
        return [(one.table, one.seen) for one in found if one.kind is AnomalyKind.VALUES]

    assert differing() == []
    world.sql(
        f"ALTER TABLE {{db}}.sums UPDATE {identifier(NAMES[0])} = 1 WHERE 1 SETTINGS mutations_sync = 2"
    )
    assert differing() == [(f"{world.database}.sums", f"1 rows, other values in {NAMES[0]}")]


def test_a_row_is_placed_by_its_own_columns(world: World):
    """Of two shards the second; whoever reads another column by one of the names places rows elsewhere."""
    place = " + ".join(map(identifier, NAMES))
    pipeline, second = world.pipeline({"click": "clicks"}), Placement("s2", 1, 2, place, f"s1, s2 by {place}")
    numbers = Random(1)
    fields = [{name: numbers.randrange(100) for name in NAMES} for _ in range(20)]
    land(world.lake, unit(), [event(**one) for one in fields])
    wanted = sorted(tuple(one.values()) for one in fields if sum(one.values()) % 2)
    assert 0 < len(wanted) < len(fields)
    assert world.load(pipeline, unit(), placement=second).summary()["rows"] == len(wanted)
    listed = ", ".join(map(identifier, NAMES))
    assert world.sql(f"SELECT {listed} FROM {{db}}.clicks ORDER BY {listed}") == wanted
