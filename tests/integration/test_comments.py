"""COMMENTs of columns that an older release made hold values: they are cleared, and nothing else is."""

from __future__ import annotations

import pytest

from sluice.infer.comments import clear_value_comments
from tests.integration.landed import World, client_of

pytestmark = pytest.mark.integration

COMMENTS = (
    "SELECT name, comment FROM system.columns WHERE database = '{db}' AND table = 'people' ORDER BY name"
)


def test_values_go_and_the_rest_stays(clickhouse_server, tmp_path, name: str):
    world = World(tmp_path, client_of(clickhouse_server), name)
    world.sql("CREATE DATABASE {db} ENGINE = Atomic")
    world.sql(
        """CREATE TABLE {db}.people (
        `e'mail` String COMMENT 'in all 2 events; 2 different texts; such as "ann@example.org", "it\\'s"',
        n UInt64 COMMENT 'in 50.0 % of 4 events; whole numbers from 7 to 4,711; such as 7, 4711',
        seen Date COMMENT 'in all 2 events; days',
        own String COMMENT 'a name, such as Ann', bare String
        ) ENGINE = MergeTree ORDER BY n"""
    )
    world.sql("INSERT INTO {db}.people VALUES ('a', 1, '2026-01-01', 'b', 'c')")
    tables = [f"{name}.people", f"{name}.gone"]
    assert clear_value_comments(world.client, tables) == [f"{name}.people.e'mail", f"{name}.people.n"]
    assert world.sql(COMMENTS) == [
        ("bare", ""),
        ("e'mail", "in all 2 events"),
        ("n", "in 50.0 % of 4 events"),
        ("own", "a name, such as Ann"),
        ("seen", "in all 2 events; days"),
    ]
    assert world.sql("SELECT * EXCEPT seen FROM {db}.people") == [("a", 1, "b", "c")]
    assert clear_value_comments(world.client, tables) == []
