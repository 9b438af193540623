"""Materialized views that read a target through a table above it, which loaded rows do not pass through."""

from __future__ import annotations

import pytest

from local import services
from sluice.clients.clickhouse.inspect_tables import read_passing
from sluice.errors import TargetRefused
from tests.integration.landed import World, client_of, event, land, unit
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
ENGINE = "ENGINE = MergeTree ORDER BY n"
NODES = "<shard><replica><host>127.0.0.1</host><port>1</port></replica></shard>"
BUFFER = "1, 10, 100, 10000, 1000000, 10000000, 100000000"
# What stands over {db}.clicks, by the statements that make it; `above` is what a view reads.
ABOVE = {
    "Distributed": ["CREATE TABLE {db}.above AS {db}.clicks ENGINE = Distributed(one, {db}, clicks)"],
    "Distributed, its database that of each server": [
        "CREATE TABLE {db}.above AS {db}.clicks ENGINE = Distributed('one', '', 'clicks', n)",
    ],
    "Buffer": [f"CREATE TABLE {{db}}.above ENGINE = Buffer({{db}}, clicks, {BUFFER})"],
    "Buffer over Distributed": [
        "CREATE TABLE {db}.middle AS {db}.clicks ENGINE = Distributed(one, {db}, clicks)",
        f"CREATE TABLE {{db}}.above ENGINE = Buffer({{db}}, middle, {BUFFER})",
    ],
    "Merge": ["CREATE TABLE {db}.above AS {db}.clicks ENGINE = Merge({db}, '^cl[i]\\\\w+$')"],
    "Merge over databases": [
        "CREATE TABLE {db}.above AS {db}.clicks ENGINE = Merge(REGEXP('^{db}$'), '^clicks$')"
    ],
    "Alias": ["CREATE TABLE {db}.above ENGINE = Alias({db}, clicks)"],
    "a view": ["CREATE VIEW {db}.above AS SELECT n, _slice, _cluster FROM {db}.clicks AS c"],
    "a view over a view": [
        "CREATE VIEW {db}.middle AS SELECT * FROM {db}.clicks",
        "CREATE VIEW {db}.above AS SELECT * FROM {db}.middle",
    ],
    "remote()": [
        "CREATE TABLE {db}.above (n UInt16) "
        "AS remote('127.0.0.1:{port}', {db}, clicks, '{user}', '{password}')"
    ],
}
# What only looks as if it did.
BESIDE = [
    "CREATE TABLE {db}.clicks_old AS {db}.clicks ENGINE = MergeTree ORDER BY n",
    "CREATE TABLE {db}.d AS {db}.clicks ENGINE = Distributed(one, {db}, clicks_old)",
    "CREATE TABLE {db}.e AS {db}.clicks ENGINE = Distributed(one, elsewhere, clicks)",
    "CREATE TABLE {db}.g AS {db}.clicks ENGINE = Merge(REGEXP('^else'), '^clicks$')",
    "CREATE TABLE {db}.m AS {db}.clicks ENGINE = Merge({db}, '^clicks_')",
    "CREATE VIEW {db}.v AS SELECT {db}, clicks, _slice, _cluster FROM "
    "(SELECT n AS {db}, n AS clicks, _slice, _cluster FROM {db}.clicks_old)",
    *(
        f"CREATE MATERIALIZED VIEW {{db}}.of_{name} TO {{db}}.fed AS SELECT _slice FROM {{db}}.{name}"
        for name in ("d", "e", "g", "m", "v")
    ),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    config = f"<clickhouse><remote_servers><one>{NODES}</one></remote_servers></clickhouse>"
    started = services.clickhouse_server(tmp_path_factory.mktemp("above"), config=config)
    yield started
    started.kill()


@pytest.fixture
def world(server, tmp_path, name) -> World:
    made = World(tmp_path, client_of(server), name)
    made.sql("CREATE DATABASE {db}")
    for table in ("clicks", "fed", "other"):
        made.sql(f"CREATE TABLE {{db}}.{table} (n UInt16, {KEYS}) {ENGINE}")
    land(made.lake, unit(), [event(n=n) for n in range(3)])
    yield made
    made.sql("DROP DATABASE {db} SYNC")


def make(world: World, server: services.ClickHouseServer, statements: list[str]) -> None:
    login = {"{port}": str(server.port), "{user}": server.user, "{password}": server.password}
    for statement in statements:
        for mark, value in login.items():
            statement = statement.replace(mark, value)
        world.sql(statement)


def refused(world: World, *words: str) -> None:
    """Before anything is written."""
    with pytest.raises(TargetRefused) as refusal:
        world.load(world.pipeline({"click": "clicks"}), unit())
    for word in words:
        assert word.replace("{db}", world.database) in str(refusal.value)
    assert world.sql("SELECT count() FROM {db}.clicks") == [(0,)]


@pytest.mark.parametrize("case", per_commit(ABOVE, 2))
def test_a_view_that_reads_the_target_through_another_table(world: World, server, case: str):
    make(world, server, ABOVE[case])
    world.load(world.pipeline({"click": "clicks"}), unit())  # nobody waits for rows there
    world.sql("TRUNCATE TABLE {db}.clicks")
    world.sql("CREATE MATERIALIZED VIEW {db}.v TO {db}.fed AS SELECT n FROM {db}.above")
    refused(world, "table {db}.clicks: {db}.v reads {db}.above, a ", "let it read {db}.clicks, or DROP VIEW")


def test_a_view_over_the_readers_view(world: World):
    world.load(world.pipeline({"click": "clicks"}), unit())
    world.sql("TRUNCATE TABLE {db}.clicks")
    world.sql("CREATE MATERIALIZED VIEW {db}.v TO {db}.fed AS SELECT * FROM sluice.`{db}.clicks`")
    refused(world, "{db}.v reads sluice.{db}.clicks, a View over it", "let it read {db}.clicks")


def test_a_view_that_reads_a_views_table_through_another(world: World):
    world.sql("CREATE MATERIALIZED VIEW {db}.v TO {db}.fed AS SELECT * FROM {db}.clicks")
    world.sql("CREATE TABLE {db}.above AS {db}.fed ENGINE = Distributed(one, {db}, fed)")
    world.sql("CREATE MATERIALIZED VIEW {db}.w TO {db}.other AS SELECT * FROM {db}.above")
    refused(world, "table {db}.fed: {db}.w reads {db}.above, a Distributed over it", "let it read {db}.fed")


@pytest.mark.parametrize("written", ["clicks", "fed"])
def test_a_view_that_writes_through_another_table(world: World, written: str):
    world.sql("CREATE MATERIALIZED VIEW {db}.v TO {db}.fed AS SELECT * FROM {db}.clicks")
    world.sql(f"CREATE TABLE {{db}}.above AS {{db}}.fed ENGINE = Distributed(one, {{db}}, {written})")
    world.sql("CREATE MATERIALIZED VIEW {db}.w TO {db}.above AS SELECT * FROM {db}.other")
    refused(world, f"table {{db}}.{written}: ", "{db}.w")


@pytest.mark.long
def test_views_of_other_tables_and_what_refreshes_by_itself(world: World, server):
    make(world, server, BESIDE)
    world.sql("CREATE TABLE {db}.above AS {db}.clicks ENGINE = Distributed(one, {db}, clicks)")
    world.sql(
        "CREATE MATERIALIZED VIEW {db}.again REFRESH EVERY 1 YEAR TO {db}.fed EMPTY "
        "AS SELECT * FROM {db}.above"
    )
    world.load(world.pipeline({"click": "clicks"}), unit())
    assert world.sql("SELECT n FROM {db}.clicks ORDER BY n") == [(0,), (1,), (2,)]
    assert world.sql("SELECT count() FROM {db}.fed") == [(0,)]


@pytest.mark.long
def test_names_that_need_quotes(world: World):
    """Of the tables, and of what stands over them."""
    name = "cl`i'c\\\\ks.x"  # as it is written in SQL
    world.sql(f"CREATE TABLE {{db}}.`{name.replace('`', '``')}` (n UInt16, {KEYS}) {ENGINE}")
    quoted = name.replace("'", "\\'")
    for above, engine in (
        ("a`` '", f"Distributed(one, {{db}}, '{quoted}')"),
        ("b.c", "Merge({db}, '^cl.i\\'c')"),
        ("d", f"Alias({{db}}, '{quoted}')"),
    ):
        columns = "" if engine.startswith("Alias") else f"(n UInt16, {KEYS})"
        world.sql(f"CREATE TABLE {{db}}.`{above}` {columns} ENGINE = {engine}")
    world.sql(f"CREATE VIEW {{db}}.`e\\`` AS SELECT * FROM {{db}}.`{name.replace('`', '``')}`")
    base = f"{world.database}.cl`i'c\\ks.x"
    found = read_passing(world.client, [base])
    expected = {"a` '": "Distributed", "b.c": "Merge", "d": "Alias", "e`": "View"}
    assert {one.place: (one.engine, one.base) for one in found} == {
        f"{world.database}.{place}": (engine, base) for place, engine in expected.items()
    }
