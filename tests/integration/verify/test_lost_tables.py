"""A table that somebody has dropped: what is printed makes it as it was, and then a fill brings its rows."""

from __future__ import annotations

import json

import pytest

from sluice.cli.commands import commands
from sluice.errors import SluiceError, TableMissing, TargetRefused, WrongUse
from sluice.flow.load.target_checks import inspect_target
from sluice.flow.verify.read_tables import SliceSpan, read_target
from sluice.init.init import statements_in
from sluice.state.departed_tables import creations, last_rules, lost_views, recreate
from tests.integration.landed import World, client_of, event, land, unit
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

COLUMNS = """n UInt16 DEFAULT 7 COMMENT 'a; "b"', `q x` Nullable(String) CODEC(ZSTD(3)),
tags Array(LowCardinality(String)), _partition Int32, _offset Int64, _slice DateTime('UTC'),
_cluster LowCardinality(String), INDEX i n TYPE minmax"""
ENGINE = "ENGINE = MergeTree PARTITION BY toDate(_slice) ORDER BY (_slice, n) TTL _slice + toIntervalYear(50)"
DEFINITIONS = """SELECT name, create_table_query FROM system.tables
WHERE database = '{db}' AND NOT startsWith(name, '.inner') ORDER BY name"""
ROWS = "SELECT n, `q x`, tags FROM {db}.clicks ORDER BY n"
SUMS = "SELECT sum(total) FROM {db}.sums"


@pytest.fixture
def world(clickhouse_server, tmp_path, name) -> World:
    found = World(tmp_path, client_of(clickhouse_server), name)
    found.sql("CREATE DATABASE {db} ENGINE = Atomic")
    found.sql(f"CREATE TABLE {{db}}.clicks ({COLUMNS}) {ENGINE}")
    found.sql(
        "CREATE TABLE {db}.sums (_slice DateTime('UTC'), _cluster LowCardinality(String), total UInt64) "
        "ENGINE = SummingMergeTree ORDER BY (_slice, _cluster)"
    )
    selected = "SELECT _slice, _cluster, sum(n) AS total FROM {db}.clicks GROUP BY _slice, _cluster"
    found.sql(f"CREATE MATERIALIZED VIEW {{db}}.to_sums TO {{db}}.sums AS {selected}")
    found.sql(f"CREATE MATERIALIZED VIEW {{db}}.own ENGINE = MergeTree ORDER BY _slice AS {selected}")
    land(found.lake, unit(), [event(n=n, **{"q x": "a", "tags": ["t"]}) for n in range(5)])
    return found


def printed(world: World, error: Exception) -> list[str]:
    """The statements of a remedy, as a client takes them."""
    return statements_in(str(error).partition("create it as it was: ")[2].partition("; or DROP")[0])


@pytest.mark.parametrize(
    "lost", per_commit([["clicks"], ["clicks", "to_sums", "sums"], ["clicks", "own", "to_sums"]])
)
@pytest.mark.parametrize("ledger", [True, False])
def test_a_dropped_table_is_made_as_it_was(world: World, lost: list[str], ledger: bool):
    pipeline = world.pipeline({"click": "clicks"})
    target = pipeline.targets[0]
    world.load(pipeline, unit())
    before, rows, sums = world.sql(DEFINITIONS), world.sql(ROWS), world.sql(SUMS)
    assert len(rows) == 5
    for name in lost:
        world.sql(f"DROP TABLE {{db}}.{name} SYNC")
    if not ledger:
        world.client.run(f"DELETE FROM sluice.ledger WHERE target = '{target.table}'")
    with pytest.raises(TableMissing) as raised:
        inspect_target(world.client, pipeline, target)
    facts = read_target(world.client, pipeline, target, {}, SliceSpan())
    assert facts.missing == raised.value.remedy
    for statement in printed(world, raised.value):
        world.client.run(statement)
    assert world.sql(DEFINITIONS) == before
    world.load(pipeline, unit())
    assert world.sql(ROWS) == rows
    if "sums" in lost:
        assert world.sql(SUMS) == sums


@pytest.fixture
def connected(clickhouse_server, monkeypatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)


@pytest.mark.usefixtures("connected")
def test_the_page_makes_a_dropped_table_as_it_was_and_nothing_else(world: World):
    pipeline = world.pipeline({"click": "clicks", "never": "never"})
    name = pipeline.targets[0].table
    world.load(pipeline, unit())
    before, rows, sums = world.sql(DEFINITIONS), world.sql(ROWS), world.sql(SUMS)
    assert recreate(pipeline, name) == 0
    assert (world.sql(DEFINITIONS), world.sql(ROWS)) == (before, rows)
    for lost in ("clicks", "to_sums", "sums"):
        world.sql(f"DROP TABLE {{db}}.{lost} SYNC")
    assert recreate(pipeline, name) == 1
    assert world.sql(DEFINITIONS) == before
    world.sql("DROP VIEW {db}.to_sums SYNC")  # as after a kill between two of the statements
    assert recreate(pipeline, name) == 1
    assert world.sql(DEFINITIONS) == before
    world.load(pipeline, unit())
    assert (world.sql(ROWS), world.sql(SUMS)) == (rows, sums)
    with pytest.raises(WrongUse, match="no load has kept how it was made; .*prints a CREATE TABLE"):
        recreate(pipeline, f"{world.database}.never")
    with pytest.raises(WrongUse, match="system.users is no table of p"):
        recreate(pipeline, "system.users")


@pytest.mark.usefixtures("connected")
def test_the_page_runs_no_statement_that_the_ledger_does_not_vouch_for(world: World):
    """Whoever can write to the lake cannot have the page run a statement."""
    pipeline = world.pipeline({"click": "clicks"})
    name = pipeline.targets[0].table
    world.load(pipeline, unit())
    world.sql("DROP TABLE {db}.clicks SYNC")
    [kept] = [path for path in (world.root / "p/_rules").iterdir() if b"CREATE TABLE" in path.read_bytes()]
    sound = kept.read_bytes()
    kept.write_bytes(sound.replace(b"INDEX i n TYPE minmax", b"INDEX i n TYPE set(0)"))
    with pytest.raises(SluiceError, match="holds other rules than its name says"):
        recreate(pipeline, name)
    kept.write_bytes(sound)
    world.client.run(f"DELETE FROM sluice.ledger WHERE target = '{name}'")
    with pytest.raises(WrongUse, match="no load has kept how it was made"):
        recreate(pipeline, name)
    assert world.sql("SHOW TABLES FROM {db} LIKE 'clicks'") == []


def test_a_dropped_database_is_made_first(world: World):
    pipeline = world.pipeline({"click": "clicks"})
    world.load(pipeline, unit())
    before, rows = world.sql(DEFINITIONS), world.sql(ROWS)
    world.sql("DROP DATABASE {db} SYNC")
    with pytest.raises(TableMissing) as raised:
        inspect_target(world.client, pipeline, pipeline.targets[0])
    for statement in printed(world, raised.value):
        world.client.run(statement)
    assert world.sql(DEFINITIONS) == before
    world.load(pipeline, unit())
    assert world.sql(ROWS) == rows


def test_a_view_whose_table_is_gone_is_told_with_what_makes_it(world: World):
    pipeline = world.pipeline({"click": "clicks"})
    target = pipeline.targets[0]
    world.load(pipeline, unit())
    before, sums = world.sql(DEFINITIONS), world.sql(SUMS)
    world.sql("DROP TABLE {db}.sums SYNC")
    words = "materialized view .*to_sums writes to it, and it is not there"
    with pytest.raises(TargetRefused, match=words) as raised:
        inspect_target(world.client, pipeline, target)
    assert "ALTER" not in str(raised.value)
    with pytest.raises(TargetRefused, match=words):
        read_target(world.client, pipeline, target, {}, SliceSpan())
    [statement] = printed(world, raised.value)
    world.client.run(statement)
    assert world.sql(DEFINITIONS) == before
    world.load(pipeline, unit(), mode="reload")
    assert world.sql(SUMS) == sums


@pytest.mark.parametrize("lost", per_commit([["to_sums", "sums", "own"], ["to_sums"], ["own"]]))
def test_a_view_that_is_gone_is_told_with_what_makes_it_and_its_table(world: World, lost: list[str]):
    pipeline = world.pipeline({"click": "clicks"})
    world.load(pipeline, unit())
    before, sums = world.sql(DEFINITIONS), world.sql(SUMS)
    for name in lost:
        world.sql(f"DROP TABLE {{db}}.{name} SYNC")
    views = lost_views(world.client, pipeline, pipeline.targets[0].table)
    assert sorted(views) == [f"{world.database}.{name}" for name in sorted({*lost} - {"sums"})]
    for view, text in views.items():
        statements = statements_in(text)
        assert len(statements) == (2 if view.endswith("to_sums") and "sums" in lost else 1)
        for statement in statements:
            world.client.run(statement)
    assert world.sql(DEFINITIONS) == before
    world.load(pipeline, unit(), mode="reload")
    assert world.sql(SUMS) == sums


@pytest.mark.parametrize("lost", per_commit(["sums", "clicks"]))
def test_an_hour_whose_rows_went_with_a_table_is_not_complete(
    world: World, lost: str, clickhouse_server, monkeypatch, capsys
):
    """Of the table itself and of one that its view writes to. The statement that is printed makes it."""
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    pipeline = world.pipeline({"click": "clicks"})
    config = world.root / "p.yaml"
    config.write_text(
        "kafka: [{cluster: dc1, bootstrap: 'x:1', topics: [events]}]\n"
        "event: {type: {field: type}, time: {record: true}}\n"
        f"lake: file://{world.root}\ntables: {{click: {world.database}.clicks}}\n"
    )
    hour = ["--from", "2026-11-20T10:00Z", "--to", "2026-11-20T11:00Z"]
    world.load(pipeline, unit())
    before = world.sql(DEFINITIONS)
    world.sql(f"DROP TABLE {{db}}.{lost} SYNC")

    def status(*more: str) -> str:
        with pytest.raises(SystemExit):
            commands(["status", "p", "--config", str(config), *hour, *more])
        return capsys.readouterr().out

    told = json.loads(status("--json"))
    assert [one["state"] for one in told["units"]] == ["landed"]
    assert list(told["missing_tables"]) == [f"{world.database}.{lost}"]
    shown = status()
    assert "complete" not in shown.replace("none of the newest slices is complete", "")
    [line] = [line for line in shown.splitlines() if "create it as it was: " in line]
    assert line.startswith(f"{world.database}.{lost}: ")
    assert "to_sums writes to it" in line if lost == "sums" else "there is no such table" in line
    for statement in statements_in(line.partition("create it as it was: ")[2].partition("; or DROP")[0]):
        world.client.run(statement)
    assert world.sql(DEFINITIONS) == before


def test_a_table_that_was_never_loaded_has_no_guessed_columns(world: World):
    pipeline = world.pipeline({"never": {"table": "never", "columns": {"a": "b.c"}}})
    table = pipeline.targets[0].table
    assert last_rules(world.client, pipeline, world.lake, [table]) == {}
    assert creations(world.client, pipeline, [table]) == {
        table: f"create it: `sluice doctor {pipeline.name} --ddl never` prints a CREATE TABLE for its events"
    }
