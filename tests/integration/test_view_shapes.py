"""What is certain of the rows that a view gives, by the server's own understanding of its SELECT."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.flow.verify.read_view_shapes import view_table_shapes
from tests.integration.landed import World, client_of

pytestmark = pytest.mark.integration

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
FROM = "_slice, _cluster FROM {db}.t"
BLOCKS = "depends on the blocks in which rows come"
# By SELECT: one by one, the columns that are put together by a function, those that are not certain, and why
# nothing is.
CASES: dict[str, tuple[bool, dict[str, str], dict[str, str], str]] = {
    f"n, upper(name) AS u, {FROM} WHERE n > 1 AND name LIKE 'a%'": (True, {}, {}, ""),
    f"n, tag, {FROM} ARRAY JOIN tags AS tag": (True, {}, {}, ""),
    f"arrayJoin(tags) AS tag, arrayMap(x -> x || name, tags) AS all, {FROM}": (True, {}, {}, ""),
    f"arrayJoin(range(rand() % 3)) AS r, {FROM}": (True, {}, {}, "rand() may give another value each time"),
    f"* FROM (SELECT n + 1 AS n, {FROM} UNION ALL SELECT n, {FROM} WHERE n > 3)": (True, {}, {}, ""),
    f"n, now() AS at, {FROM}": (True, {}, {"at": "now() may give another value each time"}, ""),
    f"n, {FROM} WHERE at < now()": (True, {}, {}, "now() may give another value each time"),
    f"n, doubled + 1 AS d, halved AS h, {FROM}": (True, {}, {}, ""),
    f"n, made AS m, {FROM}": (
        *(True, {}),
        {"m": "its DEFAULT may give another value each time"},
        "",
    ),
    f"n, (SELECT max(n) FROM {{db}}.dim) AS m, {FROM}": (True, {}, {"m": "it reads {db}.dim"}, ""),
    f"n, {FROM} WHERE n IN (SELECT n FROM {{db}}.dim)": (True, {}, {}, "it reads {db}.dim"),
    f"n, {FROM} LIMIT 5": (True, {}, {}, f"LIMIT {BLOCKS}"),
    f"n, {FROM} LIMIT 1 BY n": (True, {}, {}, f"LIMIT BY {BLOCKS}"),
    f"n, row_number() OVER (ORDER BY n) AS r, {FROM}": (True, {}, {"r": f"row_number() OVER {BLOCKS}"}, ""),
    f"DISTINCT n, {FROM}": (False, {}, {}, ""),
    f"n, count() AS c, sum(big) AS s, max(name) AS m, avg(big) AS a, {FROM} GROUP BY ALL": (
        *(False, {"c": "sum", "s": "sum", "m": "max"}),
        {"a": f"avg() {BLOCKS}"},
        "",
    ),
    f"n, uniqState(name) AS u, sumIfState(big, n > 1) AS s, maxSimpleState(big) AS m, {FROM} GROUP BY ALL": (
        *(False, {"u": "uniqMerge", "s": "sumIfMerge", "m": "max"}),
        {},
        "",
    ),
    f"n, toUInt32(sum(big)) AS s, CAST(count() AS Float64) AS c, {FROM} GROUP BY ALL": (
        *(False, {"s": "sum", "c": "sum"}, {}),
        "",
    ),
    f"n, toInt32(sum(n / 3)) AS cut, {FROM} GROUP BY ALL": (
        *(False, {}),
        {"cut": f"what is computed of an aggregate {BLOCKS}"},
        "",
    ),
    f"n, sum(big) / count() AS mean, {FROM} GROUP BY ALL": (
        *(False, {}),
        {"mean": f"what is computed of an aggregate {BLOCKS}"},
        "",
    ),
    f"n, count() AS c, {FROM} GROUP BY ALL HAVING count() > 0": (False, {"c": "sum"}, {}, ""),
    f"n, count() AS c, {FROM} GROUP BY ALL HAVING n > 3": (False, {"c": "sum"}, {}, ""),
    f"n, count() AS c, {FROM} GROUP BY ALL HAVING c > 1": (
        *(True, {}, {}),
        f"what is computed of an aggregate {BLOCKS}",
    ),
    f"sum(c) AS total, _slice, _cluster FROM (SELECT n, count() AS c, {FROM} GROUP BY ALL) GROUP BY ALL": (
        *(False, {"total": "sum"}, {}),
        "",
    ),
    f"count() AS groups, _slice, _cluster FROM (SELECT n, {FROM} GROUP BY ALL) GROUP BY ALL": (
        *(False, {}),
        {"groups": f"count() {BLOCKS}"},
        "",
    ),
    "t.n AS n, d.name AS name, t._slice, t._cluster FROM {db}.t AS t LEFT JOIN {db}.dim AS d ON t.n = d.n": (
        *(False, {}),
        {"name": "it comes from {db}.dim"},
        "",
    ),
    "t.n AS n, d.name AS name, t._slice, t._cluster FROM {db}.t AS t ANY LEFT JOIN {db}.dim AS d USING n": (
        *(True, {}),
        {"name": "it comes from {db}.dim"},
        "",
    ),
    "t.n AS n, t._slice, t._cluster FROM {db}.t AS t INNER JOIN {db}.dim AS d ON t.n = d.n": (
        *(True, {}, {}),
        "its rows depend on {db}.dim",
    ),
}


@pytest.fixture
def world(clickhouse_server, tmp_path, name) -> World:
    made = World(tmp_path, client_of(clickhouse_server), name)
    made.sql("CREATE DATABASE {db}")
    made.sql(
        "CREATE TABLE {db}.t (n UInt16, big UInt64, name String, tags Array(String), at DateTime, "
        "doubled UInt32 MATERIALIZED n * 2, halved UInt16 ALIAS intDiv(n, 2), "
        f"made UUID DEFAULT generateUUIDv4(), {KEYS}) ENGINE = MergeTree ORDER BY n"
    )
    made.sql("CREATE TABLE {db}.dim (n UInt16, name String) ENGINE = MergeTree ORDER BY n")
    yield made
    made.sql("DROP DATABASE {db} SYNC")


def test_what_is_certain_of_a_views_rows(world: World):
    for number, select in enumerate(CASES):
        engine = "ENGINE = MergeTree ORDER BY tuple()"
        world.sql(f"CREATE MATERIALIZED VIEW {{db}}.v{number} {engine} AS SELECT {select}")
    found = read_table(world.client, world.database, "t")
    assert found is not None
    shapes = {
        one.view_tables[0].view: one.shape
        for one in view_table_shapes(world.client, found, derived=False).values()
    }
    seen = {}
    for number, select in enumerate(CASES):
        shape = shapes[f"{world.database}.v{number}"]
        unsure = {name: why.replace(world.database, "{db}") for name, why in shape.unsure.items()}
        merged = {name: role for name, role in shape.columns.items() if role}
        seen[select] = (shape.one_by_one, merged, unsure, shape.why.replace(world.database, "{db}"))
    assert seen == CASES


def test_a_view_of_a_view(world: World):
    """A block's sums are summed again; how many there are of them says nothing."""
    world.sql(f"CREATE TABLE {{db}}.sums (n UInt16, c UInt64, {KEYS}) ENGINE = MergeTree ORDER BY n")
    world.sql(
        f"CREATE MATERIALIZED VIEW {{db}}.one TO {{db}}.sums AS SELECT n, count() AS c, {FROM} GROUP BY ALL"
    )
    world.sql(
        "CREATE MATERIALIZED VIEW {db}.two ENGINE = MergeTree ORDER BY tuple() AS SELECT _slice, _cluster, "
        "sum(c) AS total, count() AS parts, max(c) AS most FROM {db}.sums GROUP BY ALL"
    )
    found = read_table(world.client, world.database, "t")
    shapes = {
        one.view_tables[0].view: one.shape
        for one in view_table_shapes(world.client, found, derived=False).values()
    }
    shape = shapes[f"{world.database}.two"]
    assert {name: role for name, role in shape.columns.items() if role} == {"total": "sum"}
    assert set(shape.unsure) == {"parts", "most"}


def test_a_column_that_cuts_what_blocks_add_up_to(world: World):
    world.sql(
        f"CREATE TABLE {{db}}.cut (whole UInt64, exact Float64, {KEYS}) ENGINE = MergeTree ORDER BY tuple()"
    )
    world.sql(
        "CREATE MATERIALIZED VIEW {db}.v TO {db}.cut AS SELECT sum(n / 3) AS whole, sum(n / 3) AS exact, "
        f"{FROM} GROUP BY ALL"
    )
    found = read_table(world.client, world.database, "t")
    shape = view_table_shapes(world.client, found, derived=False)[f"{world.database}.cut"].shape
    assert set(shape.unsure) == {"whole"}
    assert shape.columns["exact"] == "sum"
