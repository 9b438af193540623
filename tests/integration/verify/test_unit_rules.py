"""A load that isn't a change of rules fills the columns by the rules of the unit's last load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sluice import crash_points
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.lake import layout
from sluice.config.pipeline import Pipeline
from sluice.crash_points import TableLoad
from sluice.errors import TargetRefused
from sluice.flow.verify.read_tables import read_views
from sluice.manifest import encode
from sluice.state.rules import FOLDER
from tests.integration.landed import START, World, client_of, event, land, unit
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

OLD = [event(passenger=f"p{n}") for n in range(5)]
NAMED_OLD = [(f"p{n}",) for n in range(5)]
NAMED_NEW = [("",)] * 5


class Killed(BaseException):
    pass


@pytest.fixture
def world(name: str, tmp_path, clickhouse_server) -> Iterator[World]:
    client = client_of(clickhouse_server)
    client.run(f"CREATE DATABASE {name}")
    client.run(
        f"CREATE TABLE {name}.rides (rider String, _slice DateTime('UTC'), _cluster String) "
        "ENGINE = MergeTree ORDER BY rider"
    )
    yield World(tmp_path, client, name)
    client.run(f"DROP DATABASE {name} SYNC")


def by(world: World, field: str) -> Pipeline:
    return world.pipeline({"click": {"table": "rides", "columns": {"rider": field}}})


def rows(world: World) -> list[tuple]:
    return world.sql("SELECT rider FROM {db}.rides ORDER BY ALL")


def amended(world: World) -> None:
    """The next manifest of the unit, as an erasure writes it: another generation of the same rows."""
    before = land(world.lake, unit(), OLD)
    after = replace(before, generation=2, attempt="e", amends=(before.id,))
    world.lake.put(layout.manifest(unit().slice.id, "dc1"), encode(before))
    world.load(by(world, "passenger"), unit())
    world.lake.put(layout.manifest(unit().slice.id, "dc1"), encode(after))


def test_a_repair_keeps_the_rules_and_a_reload_changes_them(world: World):
    land(world.lake, unit(), OLD)
    world.load(by(world, "passenger"), unit())
    world.client.run(
        f"ALTER TABLE {world.database}.rides DELETE WHERE rider = 'p3' SETTINGS mutations_sync = 2"
    )
    world.load(by(world, "person"), unit(), mode="repair")
    assert rows(world) == NAMED_OLD
    world.load(by(world, "person"), unit(), mode="reload")
    assert rows(world) == NAMED_NEW
    world.load(by(world, "passenger"), unit(), mode="repair")
    assert rows(world) == NAMED_NEW


def test_a_fill_of_a_manifest_that_amends_the_loaded_one_keeps_the_rules(world: World):
    amended(world)
    [loaded] = world.load(by(world, "person"), unit()).loaded
    assert loaded.rows == 5
    assert rows(world) == NAMED_OLD


def test_a_fill_of_a_unit_that_was_landed_again_takes_the_file(world: World):
    land(world.lake, unit(), OLD)
    world.load(by(world, "passenger"), unit())
    land(world.lake, unit(), OLD, generation=2)
    world.load(by(world, "person"), unit())
    assert rows(world) == NAMED_NEW


@pytest.mark.parametrize(
    ("mode", "found"), per_commit([("reload", NAMED_NEW), ("repair", NAMED_OLD), ("fill", NAMED_OLD)])
)
def test_a_load_that_was_killed_after_its_revocation_goes_on_by_the_same_rules(
    world: World, monkeypatch: pytest.MonkeyPatch, mode: str, found: list
):
    amended(world)

    def kill(point) -> None:
        if point is TableLoad.DELETED:
            raise Killed

    monkeypatch.setattr(crash_points, "reached", kill)
    with pytest.raises(Killed):
        world.load(by(world, "person"), unit(), mode=mode)
    monkeypatch.undo()
    assert rows(world) == []
    world.load(by(world, "other"), unit())
    assert rows(world) == found


@pytest.mark.long
def test_a_column_that_the_table_lost_is_left_out(world: World):
    columns = {"rider": "passenger", "extra": "passenger"}
    world.client.run(f"ALTER TABLE {world.database}.rides ADD COLUMN extra String")
    land(world.lake, unit(), OLD)
    world.load(world.pipeline({"click": {"table": "rides", "columns": columns}}), unit())
    world.client.run(f"ALTER TABLE {world.database}.rides DROP COLUMN extra SETTINGS mutations_sync = 2")
    world.load(by(world, "person"), unit(), mode="repair")
    assert rows(world) == NAMED_OLD


def test_rules_that_the_lake_lost_are_not_guessed(world: World):
    land(world.lake, unit(), OLD)
    world.load(by(world, "passenger"), unit())
    for item in world.lake.list(FOLDER):
        world.lake.delete([item.key])
    with pytest.raises(TargetRefused, match="has no rules .* reload the hours"):
        world.load(by(world, "passenger"), unit(), mode="repair")
    assert rows(world) == NAMED_OLD
    world.load(by(world, "person"), unit(), mode="reload")
    assert rows(world) == NAMED_NEW


@pytest.mark.long
def test_a_column_that_the_table_got_later_stays_as_it_was(world: World):
    """A repair fills it no more than the load did; verify compares the hour as it was loaded."""
    land(world.lake, unit(), [event(passenger=f"p{n}", city=f"c{n}") for n in range(5)])
    pipeline = by(world, "passenger")
    world.load(pipeline, unit())
    world.sql("ALTER TABLE {db}.rides ADD COLUMN city String, ADD COLUMN told String DEFAULT upper(rider)")
    sql = "SELECT rider, city, told FROM {db}.rides ORDER BY ALL"
    before = [(f"p{n}", "", f"P{n}") for n in range(5)]
    assert world.sql(sql) == before
    world.load(pipeline, unit(), mode="repair")
    assert world.sql(sql) == before
    world.load(pipeline, unit(), mode="reload")
    assert world.sql(sql) == [(f"p{n}", f"c{n}", f"P{n}") for n in range(5)]


@pytest.mark.long
@pytest.mark.parametrize("mode", ["amend", "retry"])
@pytest.mark.parametrize("elements", per_commit([False, True]), ids=["records", "elements"])
def test_rows_of_records_that_stay_are_not_made_again(world: World, mode: str, elements: bool):
    """No DEFAULT gives their values twice. A record that went is gone, and one that came is made."""
    row = "_row UInt32, " if elements else ""
    world.client.run(
        f"CREATE OR REPLACE TABLE {world.database}.rides (rider String, id UUID DEFAULT generateUUIDv4(), "
        f"chance UInt64 MATERIALIZED rand64(), _topic String, _partition UInt32, _offset UInt64, {row}"
        "_slice DateTime('UTC'), _cluster String) ENGINE = MergeTree ORDER BY rider"
    )
    world.client.run(
        f"CREATE TABLE {world.database}.totals (rider String, chances UInt64, _slice DateTime('UTC'), "
        "_cluster String) ENGINE = MergeTree ORDER BY rider"
    )
    world.sql(
        "CREATE MATERIALIZED VIEW {db}.totalling TO {db}.totals AS SELECT rider, sum(chance) AS chances, "
        "_slice, _cluster FROM {db}.rides GROUP BY rider, _slice, _cluster"
    )
    before = land(world.lake, unit(), OLD)
    before = replace(before, rows=5 if elements else None)
    world.lake.put(layout.manifest(unit().slice.id, "dc1"), encode(before))
    pipeline = by(world, "passenger")
    world.load(pipeline, unit())
    sql = "SELECT rider, id, chance FROM {db}.rides ORDER BY ALL"
    kept = [row for row in world.sql(sql) if row[0] != "p1"]
    came = event(passenger="new")
    after = land(world.lake, unit(), [OLD[0], *OLD[2:], came], generation=2, offsets=[0, 2, 3, 4, 9])
    after = replace(after, amends=(before.id,), rows=before.rows)
    world.lake.put(layout.manifest(unit().slice.id, "dc1"), encode(after))
    [loaded] = world.load(pipeline, unit(), mode=mode).loaded
    assert (loaded.rows, loaded.rejected_rows) == (5, 0)
    found = world.sql(sql)
    assert [row for row in found if row[0] != "new"] == kept
    assert len(found) == 5
    assert world.sql("SELECT rider, sum(chances) FROM {db}.totals GROUP BY 1 ORDER BY ALL") == [
        (rider, chance) for rider, _, chance in found
    ]


@pytest.mark.long
@pytest.mark.parametrize("identity", per_commit(["_topic String, _partition UInt32, _offset UInt64, ", ""]))
def test_a_retry_takes_the_types_of_now_and_the_expressions_of_then(world: World, identity: str):
    world.client.run(
        f"CREATE OR REPLACE TABLE {world.database}.rides (rider String, n Int8, vip String DEFAULT 'no', "
        f"{identity}_slice DateTime('UTC'), _cluster String) ENGINE = MergeTree ORDER BY rider"
    )
    land(world.lake, unit(), [event(passenger="a", n=1), event(passenger="b", n=1000)])
    pipeline = by(world, "passenger")
    world.load(pipeline, unit())
    sql = "SELECT rider, n, vip FROM {db}.rides ORDER BY ALL"
    assert world.sql(sql) == [("a", 1, "no")]
    world.sql("ALTER TABLE {db}.rides MODIFY COLUMN n Int32, MODIFY COLUMN vip String DEFAULT 'yes'")
    world.load(pipeline, unit(), mode="amend")
    assert world.sql(sql) == [("a", 1, "no")]
    [loaded] = world.load(pipeline, unit(), mode="retry").loaded
    assert (loaded.rows, loaded.rejected_rows) == (2, 0)
    for mode in ("repair", "amend", "retry"):
        world.load(pipeline, unit(), mode=mode)
        assert world.sql(sql) == [("a", 1, "no"), ("b", 1000, "no")]
    world.load(pipeline, unit(), mode="reload")
    assert world.sql(sql) == [("a", 1, "yes"), ("b", 1000, "yes")]


@pytest.mark.long
def test_rows_that_are_damaged_are_made_of_the_lake(world: World):
    """As many rows as the commit has, but one of them twice."""
    world.client.run(
        f"CREATE OR REPLACE TABLE {world.database}.rides (rider String, _topic String, _partition UInt32, "
        "_offset UInt64, _slice DateTime('UTC'), _cluster String) ENGINE = MergeTree ORDER BY rider"
    )
    amended(world)
    world.sql("ALTER TABLE {db}.rides DELETE WHERE rider = 'p3' SETTINGS mutations_sync = 2")
    world.client.run(
        f"INSERT INTO {world.database}.rides SELECT * FROM {world.database}.rides WHERE rider = 'p1'"
    )
    world.load(by(world, "person"), unit(), mode="amend")
    assert rows(world) == NAMED_OLD


@pytest.mark.long
def test_a_missing_value_keeps_the_default_of_the_type_that_it_had(world: World):
    """Also when a retry has brought in a value that did not fit that type."""
    world.client.run(
        f"CREATE OR REPLACE TABLE {world.database}.rides (rider String, n Int32, _topic String, "
        "_partition UInt32, _offset UInt64, _slice DateTime('UTC'), _cluster String) "
        "ENGINE = MergeTree ORDER BY rider"
    )
    events = [event(passenger="a", n=7), event(passenger="b"), event(passenger="c", n=3_000_000_000)]
    land(world.lake, unit(), events)
    pipeline = by(world, "passenger")
    world.load(pipeline, unit())
    world.sql("ALTER TABLE {db}.rides MODIFY COLUMN n Nullable(Int64)")
    sql = "SELECT rider, n FROM {db}.rides ORDER BY ALL"
    for mode in ("retry", "repair", "amend", "repair"):
        world.load(pipeline, unit(), mode=mode)
        assert world.sql(sql) == [("a", 7), ("b", 0), ("c", 3_000_000_000)]
    world.load(pipeline, unit(), mode="reload")
    assert world.sql(sql) == [("a", 7), ("b", None), ("c", 3_000_000_000)]


def test_only_a_repair_puts_the_default_back_in_a_column_that_came_later(world: World):
    """An erasure leaves alone what it does not mention: without a way to tell rows apart it is refused."""
    before = land(world.lake, unit(), OLD)
    pipeline = by(world, "passenger")
    world.load(pipeline, unit())
    world.sql("ALTER TABLE {db}.rides ADD COLUMN note UInt8 DEFAULT 7")
    world.sql("ALTER TABLE {db}.rides UPDATE note = 9 WHERE rider = 'p3' SETTINGS mutations_sync = 2")
    sql = "SELECT rider, note FROM {db}.rides ORDER BY ALL"
    edited = [(f"p{n}", 9 if n == 3 else 7) for n in range(5)]
    after = replace(before, generation=2, attempt="e", amends=(before.id,))
    world.lake.put(layout.manifest(unit().slice.id, "dc1"), encode(after))
    with pytest.raises(TargetRefused, match="column note came after these hours were loaded, and 1 of"):
        world.load(pipeline, unit(), mode="amend")
    assert world.sql(sql) == edited
    said: list[str] = []
    world.load(pipeline, unit(), mode="repair", on_progress=said.append)
    assert world.sql(sql) == [(f"p{n}", 7) for n in range(5)]
    [line] = [line for line in said if "note" in line]
    assert line.endswith("loaded: 1 of their rows get its DEFAULT in place of other values")


@pytest.mark.parametrize("identity", per_commit(["_topic String, _partition UInt32, _offset UInt64, ", ""]))
def test_a_renamed_column_keeps_its_values(world: World, identity: str):
    """To Sluice it looks like one that came later, and whose values no rule explains."""
    world.client.run(
        f"CREATE OR REPLACE TABLE {world.database}.rides (rider String, n Int32, "
        f"{identity}_slice DateTime('UTC'), _cluster String) ENGINE = MergeTree ORDER BY rider"
    )
    before = land(world.lake, unit(), [event(passenger="a", n=7), event(passenger="b", n=8)])
    pipeline = by(world, "passenger")
    world.load(pipeline, unit())
    world.sql("ALTER TABLE {db}.rides RENAME COLUMN n TO number")
    sql = "SELECT rider, number FROM {db}.rides ORDER BY ALL"
    with pytest.raises(
        TargetRefused, match="column number came after these hours were loaded, and 2 of their"
    ):
        world.load(pipeline, unit(), mode="repair")
    assert world.sql(sql) == [("a", 7), ("b", 8)]
    after = replace(land(world.lake, unit(), [event(passenger="b", n=8)], offsets=[1]), amends=(before.id,))
    world.lake.put(layout.manifest(unit().slice.id, "dc1"), encode(after))
    if identity:
        world.load(pipeline, unit(), mode="amend")
        assert world.sql(sql) == [("b", 8)]
    else:
        with pytest.raises(TargetRefused, match="was it renamed"):
            world.load(pipeline, unit(), mode="amend")
        assert world.sql(sql) == [("a", 7), ("b", 8)]


@pytest.mark.long
def test_an_ephemeral_column_has_the_expression_of_then(world: World):
    world.client.run(
        f"CREATE OR REPLACE TABLE {world.database}.rides (rider String, e String EPHEMERAL 'one', "
        "d String DEFAULT concat(e, '-', rider), _slice DateTime('UTC'), _cluster String) "
        "ENGINE = MergeTree ORDER BY rider"
    )
    land(world.lake, unit(), [event(passenger="a"), event(passenger="b", e="given")])
    pipeline = by(world, "passenger")
    world.load(pipeline, unit())
    rows_before = world.sql("SELECT rider, d FROM {db}.rides ORDER BY ALL")
    assert rows_before == [("a", "one-a"), ("b", "given-b")]
    world.sql("ALTER TABLE {db}.rides MODIFY COLUMN e String EPHEMERAL 'other'")
    world.sql("ALTER TABLE {db}.rides MODIFY COLUMN d String DEFAULT concat('<', e, '>')")
    world.load(pipeline, unit(), mode="repair")
    assert world.sql("SELECT rider, d FROM {db}.rides ORDER BY ALL") == rows_before


@pytest.mark.long
def test_an_expression_that_no_longer_fits_its_column_is_refused_by_name(world: World):
    world.sql("ALTER TABLE {db}.rides ADD COLUMN s String DEFAULT 'old'")
    land(world.lake, unit(), OLD)
    pipeline = by(world, "passenger")
    world.load(pipeline, unit())
    world.sql("ALTER TABLE {db}.rides DROP COLUMN s")
    world.sql("ALTER TABLE {db}.rides ADD COLUMN s UInt32 DEFAULT 5")
    with pytest.raises(TargetRefused, match="that s had when these hours were loaded do not fit.*reload"):
        world.load(pipeline, unit(), mode="repair")
    assert world.sql("SELECT rider, s FROM {db}.rides ORDER BY ALL") == [(f"p{n}", 5) for n in range(5)]
    assert world.sql(
        f"SELECT count() FROM system.tables WHERE database = 'sluice' AND name LIKE 'tmp_%{world.database}%'"
    ) == [(0,)]


@pytest.mark.parametrize("mode", per_commit(["amend", "repair"]))
def test_no_column_is_added_by_what_changes_no_rules(world: World, mode: str):
    before = land(world.lake, unit(), [event(passenger="a", more=1), event(passenger="b", more=2)])
    world.load(by(world, "passenger"), unit())
    target = {"table": "rides", "columns": {"rider": "passenger"}, "evolve": "add", "evolve_rows": 1}
    after = replace(
        land(world.lake, unit(), [event(passenger="b", more=2)], offsets=[1]), amends=(before.id,)
    )
    world.lake.put(layout.manifest(unit().slice.id, "dc1"), encode(after))
    world.load(world.pipeline({"click": target}), unit(), mode=mode)
    assert world.sql("SELECT * FROM {db}.rides") == [("b", unit().slice.start.naive(), "dc1")]


@pytest.mark.parametrize(("mode", "added"), [("retry", False), ("fill", True)])
def test_no_column_is_added_to_a_table_that_is_new_to_the_unit(world: World, mode: str, added: bool):
    land(world.lake, unit(), [event(passenger="a", more=1), event(passenger="b", more=2)])
    target = {"table": "rides", "columns": {"rider": "passenger"}, "evolve": "add", "evolve_rows": 1}
    world.load(world.pipeline({"click": target}), unit(), mode=mode)
    names = [name for name, *_ in world.sql("SELECT name FROM system.columns WHERE database = '{db}'")]
    assert ("more" in names) is added
    assert rows(world) == [("a",), ("b",)]


@pytest.mark.long
def test_what_was_null_keeps_the_default_that_took_its_place(world: World):
    world.sql("ALTER TABLE {db}.rides ADD COLUMN n Nullable(Int32), ADD COLUMN e Nullable(Int32) DEFAULT 5")
    land(world.lake, unit(), [event(passenger="a", n=7, e=None), event(passenger="b")])
    pipeline = by(world, "passenger")
    world.load(pipeline, unit())
    sql = "SELECT rider, n, e FROM {db}.rides ORDER BY ALL"
    assert world.sql(sql) == [("a", 7, None), ("b", None, 5)]
    world.sql("ALTER TABLE {db}.rides MODIFY COLUMN n Int32 DEFAULT 77, MODIFY COLUMN e Int32 DEFAULT 88")
    altered = world.sql(sql)
    assert altered == [("a", 7, 88), ("b", 77, 5)]
    world.load(pipeline, unit(), mode="repair")
    assert world.sql(sql) == altered


VIEW = (
    "CREATE MATERIALIZED VIEW {db}.each TO {db}.riders "
    "AS SELECT %s AS rider, _slice, _cluster FROM {db}.rides"
)


@pytest.mark.parametrize("made_before", per_commit(["upper(rider)", ""]))
def test_verify_expects_of_a_view_what_the_unit_was_loaded_with(world: World, made_before: str):
    """A view that was made or changed since has nothing of the unit, or other rows, also after a repair."""
    target_columns = "(rider String, _slice DateTime('UTC'), _cluster String)"
    world.sql(f"CREATE TABLE {{db}}.riders {target_columns} ENGINE = MergeTree ORDER BY rider")
    if made_before:
        world.sql(VIEW % made_before)
    land(world.lake, unit(), OLD)
    pipeline = by(world, "passenger")
    world.load(pipeline, unit())
    first = world.sql("SELECT * FROM {db}.riders ORDER BY ALL")
    if made_before:
        world.sql("DROP VIEW {db}.each SYNC")
    world.sql(VIEW % "rider")

    def compared() -> list[bool]:
        table = read_table(world.client, world.database, "rides")
        assert table is not None
        span = {"start": int(START.timestamp()), "end": int(START.add(days=1).timestamp())}
        [seen] = read_views(world.client, pipeline, table, span)
        return [seen.rows.get(one, 0) == rows for one, rows in seen.committed.items()]

    assert compared() == []
    world.load(pipeline, unit(), mode="repair")
    assert (world.sql("SELECT * FROM {db}.riders ORDER BY ALL"), compared()) == (first, [])
    world.load(pipeline, unit(), mode="reload")
    assert compared() == [True]
