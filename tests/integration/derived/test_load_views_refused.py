"""Materialized views that a load refuses: their rows could not be taken back unit by unit."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.connect import open_client
from sluice.clients.connections import Connection
from sluice.errors import TargetRefused
from tests.integration.landed import World, client_of, event, land, unit
from tests.integration.load.test_rights import EXACT, PLAIN, user
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
COLUMNS = f"(n UInt16, {KEYS})"
ENGINE = "ENGINE = MergeTree ORDER BY n"


@pytest.fixture
def world(clickhouse_server, tmp_path, name) -> World:
    made = World(tmp_path, client_of(clickhouse_server), name)
    made.sql("CREATE DATABASE {db}")
    for table in ("clicks", "fed", "other", "dim"):
        made.sql(f"CREATE TABLE {{db}}.{table} {COLUMNS} {ENGINE}")
    land(made.lake, unit(), [event(n=n) for n in range(3)])
    yield made
    made.sql("DROP DATABASE {db} SYNC")


def refused(world: World, *words: str, tables: dict[str, str] | None = None) -> None:
    """Before anything is written."""
    with pytest.raises(TargetRefused) as refusal:
        world.load(world.pipeline(tables or {"click": "clicks"}), unit())
    for word in words:
        assert word.replace("{db}", world.database) in str(refusal.value)
    assert world.sql("SELECT count() FROM {db}.clicks") == [(0,)]


@pytest.mark.parametrize(
    ("select", "words"),
    per_commit(
        [
            (
                "n, toStartOfDay(_slice) AS _slice, _cluster FROM {db}.clicks",
                ["_slice of {db}.clicks as it is"],
            ),
            ("n, _slice, 'all' AS _cluster FROM {db}.clicks", ["_cluster of {db}.clicks as it is"]),
            ("n, max(_slice) AS _slice, _cluster FROM {db}.clicks GROUP BY n, _cluster", ["_slice of"]),
            (
                "* FROM (SELECT n, _slice + 3600 AS _slice, _cluster FROM {db}.clicks)",
                ["_slice of", "MODIFY QUERY"],
            ),
            (
                "* FROM (SELECT n, _slice, _cluster FROM {db}.clicks UNION ALL "
                "SELECT n, _slice + 1, _cluster FROM {db}.clicks)",
                ["_slice of"],
            ),
            (
                "c.n, d._slice AS _slice, c._cluster FROM {db}.clicks AS c JOIN {db}.dim AS d USING (n)",
                ["_slice of"],
            ),
            (
                "a.n, a._slice, a._cluster FROM {db}.clicks AS a JOIN {db}.clicks AS b ON a.n = b.n + 1",
                ["in more than one place"],
            ),
            ("n, _slice, _cluster FROM {db}.clicks WHERE n IN (SELECT n FROM {db}.clicks)", ["one place"]),
            ("n + (SELECT count() FROM {db}.clicks) AS n, _slice, _cluster FROM {db}.clicks", ["one place"]),
        ],
        2,
    ),
)
def test_a_view_that_does_not_keep_units_apart(world: World, select: str, words: list[str]):
    world.sql(f"CREATE MATERIALIZED VIEW {{db}}.v TO {{db}}.fed AS SELECT {select}")
    refused(world, "materialized view {db}.v", *words)


def test_a_view_behind_a_table_that_keeps_nothing(world: World):
    world.sql(f"CREATE TABLE {{db}}.through {COLUMNS} ENGINE = Null")
    world.sql(
        "CREATE MATERIALIZED VIEW {db}.first TO {db}.through AS SELECT n, toStartOfDay(_slice) AS _slice, "
        "_cluster FROM {db}.clicks"
    )
    world.load(world.pipeline({"click": "clicks"}), unit())
    world.sql("TRUNCATE TABLE {db}.clicks")
    world.sql("CREATE MATERIALIZED VIEW {db}.second TO {db}.fed AS SELECT * FROM {db}.through")
    refused(world, "materialized view {db}.first does not give _slice of {db}.clicks")


@pytest.mark.parametrize(
    "column", per_commit(["_slice Date, _cluster String", "_slice String, _cluster String"])
)
def test_a_view_whose_table_does_not_hold_the_unit(world: World, column: str):
    world.sql(f"CREATE TABLE {{db}}.days (n UInt16, {column}) {ENGINE}")
    world.sql("CREATE MATERIALIZED VIEW {db}.v TO {db}.days AS SELECT * FROM {db}.clicks")
    refused(world, "table {db}.days: its column _slice has type")


def test_two_targets_whose_views_feed_one_table(world: World):
    for source in ("clicks", "other"):
        world.sql(
            f"CREATE MATERIALIZED VIEW {{db}}.v_{source} TO {{db}}.fed AS SELECT * FROM {{db}}.{source}"
        )
    words = ["table {db}.fed: materialized view {db}.v_clicks", "so does {db}.v_other", "Merge table"]
    refused(world, *words, tables={"click": "clicks", "view": "other"})


def test_a_views_table_that_a_refreshable_view_writes_to(world: World):
    world.sql("CREATE MATERIALIZED VIEW {db}.v TO {db}.fed AS SELECT * FROM {db}.clicks")
    world.sql(
        "CREATE MATERIALIZED VIEW {db}.again REFRESH EVERY 1 YEAR APPEND TO {db}.fed EMPTY AS "
        "SELECT * FROM {db}.other"
    )
    refused(world, "{db}.v of {db}.clicks writes to it, and so does {db}.again")


def test_a_target_that_is_fed_by_another_tables_view(world: World):
    world.sql("CREATE MATERIALIZED VIEW {db}.v TO {db}.clicks AS SELECT * FROM {db}.other")
    refused(world, "table {db}.clicks: materialized view {db}.v writes to it, too", "a table of its own")


def test_a_views_table_that_is_a_target(world: World):
    world.sql("CREATE MATERIALIZED VIEW {db}.v TO {db}.fed AS SELECT * FROM {db}.clicks")
    words = ["table {db}.fed", "{db}.v of {db}.clicks", "pipeline 'p' loads it"]
    refused(world, *words, tables={"click": "clicks", "view": "fed"})


def test_a_views_table_that_another_pipeline_loads(world: World):
    land(world.lake, unit(), [event("view", n=7), event(n=1)])
    world.load(world.pipeline({"view": "fed"}, name="q"), unit())
    world.sql("CREATE MATERIALIZED VIEW {db}.v TO {db}.fed AS SELECT * FROM {db}.clicks")
    refused(
        world,
        "table {db}.fed",
        "pipeline 'q' loads it",
        "DELETE FROM sluice.targets WHERE target = '{db}.fed'",
    )


@pytest.fixture
def guarded(start_clickhouse_server):
    """`all` has production.md's rights on `events`; `seeing` also those of a view elsewhere."""
    there = [("SHOW COLUMNS", "other.v"), ("SELECT", "other.fed"), ("INSERT", "other.fed")]
    seeing = [*EXACT, *there, ("ALTER DELETE", "other.fed")]
    default = f"<default><password/><profile>default</profile>{PLAIN}</default>"
    users = f"<users>{default}{user('all', EXACT)}{user('seeing', seeing)}</users>"
    return start_clickhouse_server(
        users=f"<clickhouse><profiles><default/></profiles>{users}</clickhouse>",
        config="<clickhouse><access_control_improvements><table_engines_require_grant>false"
        "</table_engines_require_grant></access_control_improvements></clickhouse>",
    )


def test_a_view_that_the_user_may_not_see(guarded, tmp_path):

    root = World(tmp_path, client_of(guarded), "events")
    for statement in (
        "CREATE DATABASE events",
        "CREATE DATABASE other",
        f"CREATE TABLE events.clicks {COLUMNS} {ENGINE}",
        f"CREATE TABLE other.fed {COLUMNS} {ENGINE}",
        "CREATE MATERIALIZED VIEW other.v TO other.fed AS SELECT * FROM events.clicks",
    ):
        root.sql(statement)
    land(root.lake, unit(), [event(n=n) for n in range(3)])

    def world(login: str) -> World:
        place = Connection("x", host=guarded.host, port=guarded.port, login=login)
        return World(tmp_path, open_client(place), "events")

    pipeline = root.pipeline({"click": "clicks"}, clickhouse={"read": "push"})
    with pytest.raises(TargetRefused, match="GRANT SHOW COLUMNS ON `other`.`v`"):
        world("all").load(pipeline, unit())
    assert root.sql("SELECT count() FROM events.clicks") == [(0,)]
    for mode in ("fill", "reload"):
        world("seeing").load(pipeline, unit(), mode=mode)
        for table in ("events.clicks", "other.fed"):
            assert root.sql(f"SELECT n FROM {table} ORDER BY n") == [(0,), (1,), (2,)]
