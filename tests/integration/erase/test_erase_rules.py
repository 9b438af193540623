"""The pipeline file has changed since an hour landed: an erasure of it changes nobody else's rows."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sluice.crash_points import TableLoad
from sluice.errors import TargetRefused
from sluice.flow.contents.compare import auditor
from sluice.flow.steps import load_table
from sluice.flow.verify.audit import AuditScope, audit
from sluice.state.manifests import read_manifests, units_in
from tests.integration.erase.test_erase import Killed, of_person
from tests.integration.landed import client_of
from tests.support.erase_world import OWN, PERSON, PLAIN, SLICES, EraseWorld
from tests.support.landing_world import START, hours
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration
TABLES = ("clicks", "other", "traffic")


@pytest.fixture
def world(start_clickhouse_server, name: str, tmp_path, monkeypatch) -> EraseWorld:
    server = start_clickhouse_server()
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", server.at.variable)
    found = EraseWorld.made(tmp_path, client_of(server), name)
    found.variable = server.at.variable
    return found


def rows(world: EraseWorld) -> dict[str, list[tuple]]:
    return {table: world.rows(table) for table in TABLES}


def without_person(before: dict[str, list[tuple]]) -> dict[str, list[tuple]]:
    return {table: [row for row in rows if row not in of_person(rows)] for table, rows in before.items()}


def sound(world: EraseWorld) -> None:
    found, anomalies, *_ = audit(world.pipeline(), SLICES, AuditScope(whole=True, checksums=True))
    compared = auditor(world.pipeline()).whole(found)
    assert (anomalies, compared.anomalies, compared.busy) == ([], [], [])


def test_the_time_field_was_renamed_since(world: EraseWorld) -> None:
    """A remake would reject everybody: no event of an older hour has the field of now."""
    world.begin()
    before, rejected_rows = rows(world), world.rejected_rows()
    world.more["event"] = {"type": {"field": "type"}, "time": {"field": "happened_at"}}
    receipt = world.erase(f"uid={PERSON}")
    assert rows(world) == without_person(before)
    assert world.rejected_rows() == [row for row in rejected_rows if row not in of_person(rejected_rows)]
    assert receipt["erased"]["rows"] > 20 and receipt["left"] == []
    assert {m.generation for m in read_manifests(world.lake, units_in(world.lake, SLICES)).values()} == {2}
    sound(world)


def killed_at(one: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def reached(point: Any) -> None:
        if point is one:
            raise Killed

    monkeypatch.setattr("sluice.crash_points.reached", reached)


def killed_and_again(world: EraseWorld, killed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Erases the person, after an erasure that is killed at `killed`, if any."""
    if killed is not None:
        killed_at(killed, monkeypatch)
        with pytest.raises(Killed):
            world.erase(f"uid={PERSON}")
        monkeypatch.undo()
        monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", world.variable)
    world.erase(f"uid={PERSON}")


KILLS = pytest.mark.parametrize("killed", per_commit([TableLoad.DELETED, None, TableLoad.REVOKED]), ids=str)


@pytest.mark.long
@KILLS
def test_columns_have_other_defaults_and_types_since(killed: Any, world: EraseWorld, monkeypatch) -> None:
    """What a DEFAULT or a MATERIALIZED column gave stays, and what did not fit then stays rejected."""
    clicks = f"`{world.database}`.clicks"
    world.client.run(
        f"ALTER TABLE {clicks} ADD COLUMN small Int8, ADD COLUMN vip String DEFAULT concat('no ', uid), "
        "ADD COLUMN plain String, ADD COLUMN fixed String DEFAULT 'then', ADD COLUMN maybe Int32, "
        "ADD COLUMN twice UInt64 MATERIALIZED n * 2"
    )
    routes = {"click": {"table": f"{world.database}.clicks", "columns": {"small": "n"}}}
    world.more["tables"] = {**routes, "*": f"{world.database}.other"}
    world.begin()
    world.client.run(
        f"ALTER TABLE {clicks} MODIFY COLUMN small Int32, MODIFY COLUMN vip String DEFAULT upper(uid), "
        "MODIFY COLUMN plain String DEFAULT 'some', MODIFY COLUMN fixed REMOVE DEFAULT, "
        "MODIFY COLUMN maybe Nullable(Int32), MODIFY COLUMN twice UInt64 MATERIALIZED n * 100 "
        "SETTINGS mutations_sync = 2"
    )
    named = "small, vip, plain, fixed, maybe, twice, uid"
    before, rejected_rows = world.rows("clicks", named), world.rejected_rows()
    assert before and len([row for row in rejected_rows if "clicks" in row[0]]) > 5
    killed_and_again(world, killed, monkeypatch)
    assert world.rows("clicks", named) == [row for row in before if row not in of_person(before)]
    assert world.rejected_rows() == [row for row in rejected_rows if row not in of_person(rejected_rows)]
    sound(world)
    left = world.rows("clicks", named)
    load_table(world.pipeline(), f"{world.database}.clicks", SLICES, "repair", "", lambda _: None)
    assert world.rows("clicks", named) == left
    load_table(world.pipeline(), f"{world.database}.clicks", SLICES, "reload", "", lambda _: None)
    news = world.rows("clicks", named)
    assert len(news) > len(left)
    assert {(row[4], row[5], row[6]) for row in news} == {(row[9].upper(), "some", "") for row in news}
    assert all(row[8] == row[3] * 100 and row[7] is None for row in news)
    sound(world)


@pytest.mark.long
def test_values_that_no_default_gives_twice_stay(world: EraseWorld) -> None:
    """In a table that tells its records apart."""
    clicks = f"`{world.database}`.clicks"
    world.client.run(
        f"ALTER TABLE {clicks} ADD COLUMN _topic String, ADD COLUMN id UUID DEFAULT generateUUIDv4(), "
        "ADD COLUMN loaded DateTime64(6) DEFAULT now64(6), ADD COLUMN chance UInt64 MATERIALIZED rand64()"
    )
    world.begin()
    world.client.run(f"ALTER TABLE {clicks} MODIFY COLUMN chance UInt64 MATERIALIZED 7")
    before, rejected_rows = world.rows("clicks", "*, chance"), world.rejected_rows()
    world.erase(f"uid={PERSON}")
    assert world.rows("clicks", "*, chance") == [row for row in before if row not in of_person(before)]
    assert world.rejected_rows() == [row for row in rejected_rows if row not in of_person(rejected_rows)]
    assert len({row[-1] for row in before}) == len(before)
    sound(world)


@pytest.mark.long
@KILLS
def test_types_go_to_another_table_since(killed: Any, world: EraseWorld, monkeypatch) -> None:
    """A fill moves them, and nothing else does."""
    db = world.database
    world.client.run(f"CREATE TABLE `{db}`.bids AS `{db}`.other")
    world.begin()
    before = rows(world)
    world.more["tables"] = {"click": f"{db}.other", "bid": f"{db}.bids", "*": f"{db}.clicks"}
    killed_and_again(world, killed, monkeypatch)
    assert rows(world) == without_person(before)
    assert world.rows("bids") == []
    for target in world.pipeline().targets:
        load_table(world.pipeline(), target.table, SLICES, "repair", "", lambda _: None)
    assert (rows(world), world.rows("bids")) == (without_person(before), [])
    world.load(SLICES)
    moved = [row for row in before["other"] if row not in of_person(before["other"])]
    assert world.rows("bids") == moved
    assert PERSON not in str((rows(world), world.rows("bids")))
    sound(world)


@pytest.mark.long
def test_types_go_to_another_table_and_the_one_that_has_them_left_the_file(world: EraseWorld) -> None:
    """The rows stay there; the receipt names it, and no other table gets them."""
    db = world.database
    world.client.run(f"CREATE TABLE `{db}`.news AS `{db}`.clicks")
    world.begin()
    before = rows(world)
    world.more["tables"] = {"click": f"{db}.news", "*": f"{db}.other"}
    receipt = world.erase(f"uid={PERSON}")
    assert world.rows("news") == []
    assert world.rows("clicks") == before["clicks"]
    assert world.rows("other") == without_person(before)["other"]
    assert any(
        line.startswith(f"table {db}.clicks is no longer in the pipeline file") for line in receipt["left"]
    )


@pytest.mark.long
def test_a_rollup_is_made_from_another_table_since(world: EraseWorld) -> None:
    db = world.database
    own = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
    world.client.run(
        f"CREATE TABLE `{db}`.by_user (uid String, total UInt64, {own}) ENGINE = MergeTree ORDER BY uid"
    )
    file = world.folder / "by_user.sql"
    file.write_text("SELECT uid, toUInt64(sum(n)) AS total FROM {source} GROUP BY uid")
    world.more["rollups"] = {f"{db}.by_user": {"from": f"{db}.clicks", "sql": str(file)}}
    world.begin()
    sql = f"SELECT _slice, uid, total FROM `{db}`.by_user ORDER BY ALL"
    before = [tuple(row) for row in world.client.rows(sql)]
    file.write_text("SELECT uid, count() AS total FROM {source} GROUP BY uid")
    world.more["rollups"] = {f"{db}.by_user": {"from": f"{db}.other", "sql": str(file)}}
    world.erase(f"uid={PERSON}")
    assert [tuple(row) for row in world.client.rows(sql)] == [row for row in before if row[1] != PERSON]
    world.load(SLICES)
    made = f"SELECT _slice, uid, count() FROM `{db}`.other GROUP BY ALL ORDER BY ALL"
    assert world.client.rows(sql) == world.client.rows(made)
    sound(world)


@pytest.mark.long
def test_a_column_of_a_rollup_was_altered_since(world: EraseWorld) -> None:
    """Rows that are made again by the SELECT of then come into the type of now as ALTER TABLE brought them,
    and once more after that. An earlier SELECT gives the type that the column had."""
    db = world.database
    own = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
    world.client.run(
        f"CREATE TABLE `{db}`.by_user (uid String, total UInt64, {own}) ENGINE = MergeTree ORDER BY uid"
    )
    file = world.folder / "by_user.sql"
    file.write_text("SELECT uid, toUInt64(sum(n)) AS total FROM {source} GROUP BY uid")
    world.more["rollups"] = {f"{db}.by_user": {"from": f"{db}.clicks", "sql": str(file)}}
    world.begin()
    sql = f"SELECT _slice, uid, total, toTypeName(total) FROM `{db}`.by_user ORDER BY ALL"
    before = [tuple(row) for row in world.client.rows(sql)]
    world.client.run(f"ALTER TABLE `{db}`.by_user MODIFY COLUMN total String")
    with pytest.raises(TargetRefused, match="gives column total as UInt64, the table has String"):
        world.erase(f"uid={PERSON}")
    file.write_text("SELECT uid, concat('n', toString(sum(n))) AS total FROM {source} GROUP BY uid")
    left = [(*row[:2], str(row[2]), "String") for row in before]
    for person in (PERSON, "user-1"):
        world.erase(f"uid={person}")
        left = [row for row in left if row[1] != person]
        assert sorted(map(tuple, world.client.rows(sql))) == sorted(left)
    world.load(SLICES)
    now = [(*row[:2], f"n{row[2]}", "String") for row in left]
    assert sorted(map(tuple, world.client.rows(sql))) == sorted(now)
    sound(world)


@pytest.mark.long
def test_one_table_that_is_refused_holds_up_no_other(world: EraseWorld) -> None:
    db = world.database
    world.client.run(f"ALTER TABLE `{db}`.clicks ADD COLUMN s String DEFAULT 'old'")
    world.begin()
    before = rows(world)
    for change in ("DROP COLUMN s", "ADD COLUMN s UInt32 DEFAULT 5"):
        world.client.run(f"ALTER TABLE `{db}`.clicks {change}")
    with pytest.raises(TargetRefused, match="that s had when these hours were loaded"):
        world.erase(f"uid={PERSON}")
    assert world.rows("other") == without_person(before)["other"]
    for target in world.pipeline().targets:
        load_table(world.pipeline(), target.table, SLICES, "reload", "", lambda _: None)
    world.erase(f"uid={PERSON}")
    assert PERSON not in str(rows(world))


@pytest.mark.long
@KILLS
def test_a_derived_table_has_another_select_since(killed: Any, world: EraseWorld, monkeypatch) -> None:
    db = world.database
    for name in ("by_user", "seen"):
        own = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
        world.client.run(
            f"CREATE TABLE `{db}`.{name} (uid String, total UInt64, {own}) ENGINE = MergeTree ORDER BY uid"
        )

    def select(factor: int) -> str:
        return f"SELECT uid, toUInt64(sum(n * {factor})) AS total"

    def view(factor: int) -> None:
        world.client.run(f"DROP VIEW IF EXISTS `{db}`.seeing")
        world.client.run(
            f"CREATE MATERIALIZED VIEW `{db}`.seeing TO `{db}`.seen AS {select(factor)}, _slice, _cluster "
            f"FROM `{db}`.clicks GROUP BY uid, _slice, _cluster"
        )

    def derived() -> list[list[tuple]]:
        sql = f"SELECT _slice, uid, sum(total) FROM `{db}`.%s GROUP BY ALL ORDER BY ALL"
        return [[tuple(row) for row in world.client.rows(sql % name)] for name in ("by_user", "seen")]

    file = world.folder / "by_user.sql"
    file.write_text(f"{select(1)} FROM {{source}} GROUP BY uid")
    world.more["rollups"] = {f"{db}.by_user": {"from": f"{db}.clicks", "sql": str(file)}}
    view(1)
    world.begin()
    before = derived()
    assert before[0] and before[0] == before[1]
    file.write_text(f"{select(10)} FROM {{source}} GROUP BY uid")
    view(10)
    killed_and_again(world, killed, monkeypatch)
    assert derived() == [[row for row in some if row[1] != PERSON] for some in before]
    world.load(SLICES)
    tenfold = [(row[0], row[1], row[2] * 10) for row in before[0] if row[1] != PERSON]
    assert derived()[0] == tenfold
    for target in world.pipeline().targets:
        load_table(world.pipeline(), target.table, SLICES, "reload", "", lambda _: None)
    assert derived() == [tenfold, tenfold]
    sound(world)


@pytest.mark.long
@KILLS
def test_a_column_has_another_field_from_a_later_hour_on(killed: Any, world: EraseWorld, monkeypatch) -> None:
    """The documented way to follow a renamed field: the new name under `columns`, and a reload from then on.
    Also where the load after the erasure is killed when the rows of before are gone."""
    world.client.run(f"ALTER TABLE `{world.database}`.clicks ADD COLUMN rider String")
    clicks = {"table": f"{world.database}.clicks", "columns": {"rider": "uid"}}
    world.more["tables"] = {"click": clicks, "*": f"{world.database}.other"}
    world.begin()
    before = rows(world)
    clicks["columns"] = {"rider": "passenger"}
    load_table(world.pipeline(), clicks["table"], hours(1, first=2), "reload", "later", lambda _: None)
    older = [row for row in world.rows("clicks") if row[0] < START.add(hours=2).naive()]
    assert older and older == [row for row in before["clicks"] if row in older]
    assert all("user" in str(row) or PERSON in str(row) for row in older)

    if killed is not None:
        killed_at(killed, monkeypatch)
        with pytest.raises(Killed):
            world.erase("uid=user-1")
        monkeypatch.undo()
        monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", world.variable)
    world.erase("uid=user-1")
    left = [row for row in world.rows("clicks") if row[0] < START.add(hours=2).naive()]
    assert left == [row for row in older if "user-1" not in row]
    assert 0 < len(left) < len(older)


@pytest.mark.long
def test_the_table_of_a_view_that_refreshes_by_itself_is_named_until_it_does(world: EraseWorld) -> None:
    """No load reaches it: of a target, of a view's table through what stands over it, and of such a table."""
    db = world.database
    for text in (
        f"CREATE TABLE {{db}}.seen (uid String, {OWN}) {PLAIN}",
        "CREATE MATERIALIZED VIEW {db}.seeing TO {db}.seen AS "
        "SELECT uid, _slice, _cluster, _offset, _partition FROM {db}.clicks",
        "CREATE VIEW {db}.shown AS SELECT * FROM {db}.seen",
        "CREATE TABLE {db}.fresh (uid String, c UInt64) ENGINE = MergeTree ORDER BY uid",
        "CREATE MATERIALIZED VIEW {db}.freshening REFRESH EVERY 1 YEAR TO {db}.fresh AS "
        "SELECT uid, count() AS c FROM {db}.clicks GROUP BY uid",
        "CREATE MATERIALIZED VIEW {db}.`own one` REFRESH EVERY 1 YEAR ENGINE = MergeTree ORDER BY uid AS "
        "SELECT uid FROM {db}.shown",
        "CREATE MATERIALIZED VIEW {db}.above REFRESH EVERY 1 YEAR ENGINE = MergeTree ORDER BY uid AS "
        "SELECT uid FROM {db}.fresh",
        "CREATE MATERIALIZED VIEW {db}.other_one REFRESH EVERY 1 YEAR ENGINE = MergeTree ORDER BY tuple() AS "
        "SELECT number FROM numbers(3)",
    ):
        world.client.run(text.replace("{db}", f"`{db}`"))
    names = ("freshening", "own one", "above")
    world.begin()

    def refresh(*views: str) -> None:
        """In a later second than all loads: the server notes no more of when it refreshed."""
        deadline = time.monotonic() + 30
        later = "SELECT now() > max(at) FROM sluice.ledger"
        while not world.client.rows(later)[0][0]:
            assert time.monotonic() < deadline
        for view in views:
            world.client.run(f"SYSTEM REFRESH VIEW `{db}`.`{view}`")
            world.client.run(f"SYSTEM WAIT VIEW `{db}`.`{view}`")

    def left() -> list[str]:
        return world.erase(f"uid={PERSON}")["left"]

    def held(view: str) -> bool:
        rows = world.client.rows(f"SELECT uid FROM `{db}`.`{view}`")
        return any(PERSON in row for row in rows)

    refresh(*names)
    assert all(map(held, names)) and of_person(world.rows("clicks"))
    lines = left()
    assert not of_person(world.rows("clicks")) and all(map(held, names))
    assert {line.partition(" may hold")[0] for line in lines} == {
        f"table {db}.{name}" for name in ("fresh", "own one", "above")
    }
    for name in names:  # what is printed is what cures it
        [line] = [line for line in lines if f"view {db}.{name} " in line]
        assert f": SYSTEM REFRESH VIEW `{db}`.`{name}`, and" in line
    refresh("own one", "above")
    assert (held("own one"), held("above")) == (False, True)
    assert {line.split(" ")[1] for line in left()} == {f"{db}.fresh", f"{db}.above"}
    refresh("freshening")
    [line] = left()
    assert line.startswith(f"table {db}.above ")
    refresh("above")
    assert left() == [] and not any(map(held, names))
    world.client.run(
        f"CREATE MATERIALIZED VIEW `{db}`.adding REFRESH EVERY 1 YEAR APPEND TO `{db}`.fresh EMPTY AS "
        f"SELECT uid, count() AS c FROM `{db}`.clicks GROUP BY uid"
    )
    refresh("adding")
    assert any("(APPEND): delete the person's rows there" in line for line in left())


@pytest.mark.long
@pytest.mark.parametrize("again", per_commit(["upper(uid)", ""]), ids=["another SELECT", "the same"])
def test_the_table_of_a_view_that_was_dropped_is_named(again: str, world: EraseWorld) -> None:
    """Every place that a load wrote to is in the receipt, also after the view is made again: no later load
    has replaced the rows of the units that were loaded without it."""
    db = world.database
    world.client.run(f"CREATE TABLE `{db}`.seen (uid String, {OWN}) {PLAIN}")

    def view(uid: str) -> None:
        columns = f"{uid} AS uid, _slice, _cluster, _offset, _partition"
        world.client.run(
            f"CREATE MATERIALIZED VIEW `{db}`.seeing TO `{db}`.seen AS SELECT {columns} FROM `{db}`.clicks"
        )

    def left(wheres: str = f"uid={PERSON}") -> list[str]:
        return world.erase(wheres)["left"]

    view("uid")
    world.begin()
    assert left("uid=user-1") == []
    before = world.rows("seen", "uid")
    world.client.run(f"DROP VIEW `{db}`.seeing")
    units = {row[0] for row in before if row in of_person(before)}
    held = len([row for row in before if row[0] in units])
    [line] = left()
    assert world.rows("seen", "uid") == before and of_person(before)
    assert line.startswith(f"table {db}.seen has {held} rows of {len(units)} units, 2026-01-01T00Z/dc1 … ")
    assert f"view {db}.seeing of {db}.clicks" in line and "may hold the person" in line
    view(again or "uid")
    assert left() == [line]
    found, *_ = audit(world.pipeline(), SLICES, AuditScope(whole=True, checksums=True))
    notes = auditor(world.pipeline()).whole(found).notes
    assert [
        note for note in notes if note.startswith(f"table {db}.seen: {len(units)} slices are not compared")
    ]
    world.client.run(f"ALTER TABLE `{db}`.seen DELETE WHERE uid = '{PERSON}' SETTINGS mutations_sync = 2")
    load_table(world.pipeline(), f"{db}.clicks", SLICES, "reload", "later", lambda _: None)
    assert left() == []
    sound(world)


def test_what_cannot_be_searched_is_said_and_a_table_that_left_the_file_is_named(world: EraseWorld) -> None:
    """0 rows matched is not erased: the value was hashed with a key that nobody has any more."""
    world.more["mask"] = {"uid": {"hash": "a key of long ago, 32 bytes long"}}
    world.begin()
    world.more["mask"] = {"uid": {"hash": "a key of now, also 32 bytes long"}}
    world.more["tables"] = {"click": f"{world.database}.clicks"}
    receipt = world.erase(f"uid={PERSON}")
    assert receipt["erased"]["rows"] == 0
    [line] = receipt["not_searchable"]
    assert line.startswith(
        "uid cannot be searched in 3 units, 2026-01-01T00Z/dc1 … 2026-01-01T02Z/dc1: it was"
    )
    assert f"not searchable: {line}" in receipt["left"]
    [table] = [line for line in receipt["left"] if line.startswith("table ")]
    rows = len(world.rows("other"))
    assert (
        f"table {world.database}.other is no longer in the pipeline file" in table and f"{rows} rows" in table
    )
    places = {place["place"]: place["searched"] for place in receipt["places"]}
    assert {"lake: events", "lake: _rejected", "lake: _counts", "lake: state", "tables"} <= places.keys()
    del world.more["mask"]
    assert world.erase("uid=user-1")["not_searchable"]
