"""Views that are made, changed or dropped while a load runs: their tables hold all of the load, or nothing is
said of its slice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sluice import crash_points
from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.crash_points import TableLoad
from sluice.errors import Changed
from sluice.flow.verify.read_tables import read_views
from sluice.slices import Unit
from tests.integration.landed import START, World, client_of, event, land, unit
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
COLUMNS = f"(n UInt16, {KEYS}) ENGINE = MergeTree ORDER BY n"
CREATE = (
    "CREATE MATERIALIZED VIEW {db}.v TO {db}.fed AS SELECT n + 100 AS n, _slice, _cluster FROM {db}.clicks"
)
CHANGE = "ALTER TABLE {db}.v MODIFY QUERY SELECT n + 200 AS n, _slice, _cluster FROM {db}.clicks"
# Where the load has read the views, and its rows are not committed.
INSIDE = [TableLoad.FENCED, TableLoad.REHEARSED, TableLoad.REVOKED, TableLoad.COUNTED]


@pytest.fixture
def world(clickhouse_server, tmp_path, name) -> World:
    made = World(tmp_path, client_of(clickhouse_server), name)
    made.sql("CREATE DATABASE {db}")
    for table in ("clicks", "fed"):
        made.sql(f"CREATE TABLE {{db}}.{table} {COLUMNS}")
    land(made.lake, unit(), [event(n=n) for n in range(3)])
    yield made
    made.sql("DROP DATABASE {db} SYNC")


@pytest.fixture
def at_point(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], None]], None]:
    """Does something once, when a load comes to a point."""

    def arrange(point: str, do: Callable[[], None]) -> None:
        waiting = [do]

        def reached(here: str) -> None:
            if here == point and waiting:
                waiting.pop()()

        monkeypatch.setattr(crash_points, "reached", reached)

    return arrange


def fed(world: World) -> list[int]:
    return [n for (n,) in world.sql("SELECT n FROM {db}.fed ORDER BY n")]


def clicks(world: World) -> list[int]:
    return [n for (n,) in world.sql("SELECT n FROM {db}.clicks ORDER BY n")]


def compared(world: World) -> dict[Unit, bool]:
    """Of each unit that verify judges, whether the view's table holds as many rows as were committed."""
    pipeline = world.pipeline({"click": "clicks"})
    found = read_table(world.client, world.database, "clicks")
    span = {"start": int(START.timestamp()), "end": int(START.add(days=1).timestamp())}
    seen = read_views(world.client, pipeline, found, span)
    return {u: one.rows.get(u, 0) == rows for one in seen for u, rows in one.committed.items()}


@pytest.mark.parametrize("point", per_commit(INSIDE, 2))
def test_a_view_that_is_made_while_a_load_runs(world: World, at_point, point: TableLoad):
    pipeline = world.pipeline({"click": "clicks"})
    at_point(point, lambda: world.sql(CREATE))
    with pytest.raises(Changed, match="load it again"):
        world.load(pipeline, unit())
    assert world.load(pipeline, unit()).loaded
    assert (clicks(world), fed(world)) == ([0, 1, 2], [100, 101, 102])
    assert compared(world) == {unit(): True}


def test_a_view_that_is_made_before_anything_is_removed(world: World, at_point):
    """A `reload` leaves all as it was."""
    pipeline = world.pipeline({"click": "clicks"})
    world.load(pipeline, unit())
    land(world.lake, unit(), [event(n=7)], generation=2)
    at_point(TableLoad.REVIEWED, lambda: world.sql(CREATE))
    with pytest.raises(Changed):
        world.load(pipeline, unit(), mode="reload")
    assert (clicks(world), fed(world)) == ([0, 1, 2], [])
    [(state,)] = world.sql(
        "SELECT argMax(state, (generation, attempt, state)) FROM sluice.ledger WHERE target = '{db}.clicks'"
    )
    assert state == "committed"


@pytest.mark.parametrize(
    ("point", "statement"),
    [(TableLoad.STAGED, CHANGE), (TableLoad.MOVED, CHANGE), (TableLoad.MOVED, "DROP VIEW {db}.v")],
)
@pytest.mark.long
def test_a_view_that_changes_while_a_load_runs(world: World, at_point, point: TableLoad, statement: str):
    pipeline = world.pipeline({"click": "clicks"})
    world.sql(CREATE)
    at_point(point, lambda: world.sql(statement))
    with pytest.raises(Changed):
        world.load(pipeline, unit())
    world.load(pipeline, unit())
    if statement == CHANGE:
        assert fed(world) == [200, 201, 202]
        assert compared(world) == {unit(): True}


def before(patch: pytest.MonkeyPatch, wanted: str, do: Callable[[], None]) -> None:
    """Does something once, right before a statement that holds `wanted`."""
    run, waiting = Client.run, [do]

    def first(self: Client, sql, *rest, **options):
        if wanted in sql and waiting:
            waiting.pop()()
        return run(self, sql, *rest, **options)

    patch.setattr(Client, "run", first)


def test_a_view_that_is_made_in_the_moment_of_the_commit(world: World, monkeypatch: pytest.MonkeyPatch):
    """It has nothing of the slice, as one that is made a moment later, and verify knows that it has not."""
    pipeline = world.pipeline({"click": "clicks"})
    before(monkeypatch, "{attempt:UInt32}, 'committed'", lambda: world.sql(CREATE))
    assert world.load(pipeline, unit()).loaded
    assert (clicks(world), fed(world)) == ([0, 1, 2], [])
    assert compared(world) == {}
    world.load(pipeline, unit(), mode="reload")
    assert fed(world) == [100, 101, 102]
    assert compared(world) == {unit(): True}


@pytest.mark.long
def test_a_view_that_is_made_in_the_second_after_a_load(world: World):
    pipeline = world.pipeline({"click": "clicks"})
    world.load(pipeline, unit())
    world.sql(CREATE)
    assert compared(world) == {}


@pytest.mark.long
def test_one_views_table_does_not_change_what_is_known_of_another(world: World):
    pipeline = world.pipeline({"click": "clicks"})
    world.sql(CREATE)
    world.load(pipeline, unit())
    world.sql(f"CREATE TABLE {{db}}.more {COLUMNS}")
    world.sql("CREATE MATERIALIZED VIEW {db}.w TO {db}.more AS SELECT * FROM {db}.clicks")
    world.sql("CREATE MATERIALIZED VIEW {db}.x TO {db}.more AS SELECT * FROM {db}.fed")
    assert compared(world) == {unit(): True}
    world.sql("TRUNCATE TABLE {db}.fed")
    assert compared(world) == {unit(): False}
