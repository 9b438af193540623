"""The newest row of each key on a real server: what its table holds with FINAL is what the log has."""

from __future__ import annotations

import json
import re

import pytest

from sluice import crash_points
from sluice.clients.clickhouse.tables import Column
from sluice.crash_points import Point, TableLoad
from sluice.doctor.check import Check, Level
from sluice.doctor.clickhouse import clickhouse_checks
from sluice.errors import TargetRefused
from sluice.state.newest_version import deleted, version
from sluice.state.unit_state import UnitState
from tests.integration.landed import Event, World, client_of, land, unit
from tests.integration.newest import Change, Newest
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

CLEANUP = "allow_experimental_replacing_merge_with_cleanup"
ENGINE = "ReplacingMergeTree(_version, _deleted)"
AGAIN = (
    "CREATE TABLE {db}.again AS {db}.customer ENGINE = Log; DROP TABLE {db}.customer SYNC; "
    "CREATE TABLE {db}.customer AS {db}.again ENGINE ="
)


@pytest.fixture
def newest(clickhouse_server, tmp_path, name) -> Newest:
    made = Newest(World(tmp_path, client_of(clickhouse_server), name))
    made.create()
    yield made
    made.world.sql("DROP DATABASE {db} SYNC")


def test_the_newest_row_follows_the_log(newest: Newest):
    newest.land(unit(0), [Change(1, "a", 10), Change(2, "b", 11), Change(3, "c", 12)])
    assert newest.fill(unit(0)) == {"log": 1, "customer": 1}
    assert [row[:3] for row in newest.seen()] == [(1, "a", 10), (2, "b", 11), (3, "c", 12)]

    # A newer change, one that came late, a deletion, and a change without a version.
    changes = [Change(1, "A", 20), Change(2, "old", 5), Change(3, "c", 30, gone=True), Change(4, "d")]
    newest.land(unit(1), changes)
    assert newest.fill(unit(1)) == {"log": 1, "customer": 1}
    assert [row[:3] for row in newest.seen()] == [(1, "A", 20), (2, "b", 11), (4, "d", None)]
    assert newest.seen() == newest.expected()
    assert newest.states(unit(0), unit(1)) == [UnitState.COMPLETE] * 2
    assert newest.fill(unit(0), unit(1)) == {"log": 0, "customer": 0}

    # The hour lands anew without the changes that had won: those before them are the newest again.
    newest.world.sql("OPTIMIZE TABLE {db}.customer FINAL")
    newest.land(unit(1), [Change(5, "e", 40)])
    assert newest.load(unit(1), table="log") == 1
    assert newest.states(unit(0), unit(1)) == [UnitState.COMPLETE, UnitState.STALE]
    assert newest.load(unit(1), table="customer") == 1
    assert [row[:3] for row in newest.seen()] == [(1, "a", 10), (2, "b", 11), (3, "c", 12), (5, "e", 40)]

    # An older hour comes later, and the file names another version.
    newest.land(unit(-1), [Change(1, "first", 15), Change(6, "f", 1)])
    assert newest.fill(unit(-1)) == {"log": 1, "customer": 1}
    assert newest.seen() == newest.expected()
    newest.version = ()
    units = (unit(-1), unit(0), unit(1))
    assert newest.states(*units) == [UnitState.STALE] * 3
    assert newest.fill(*units) == {"log": 0, "customer": 3}
    assert newest.seen() == newest.expected()
    assert [row[:2] for row in newest.seen()] == [(1, "a"), (2, "b"), (3, "c"), (5, "e"), (6, "f")]
    assert newest.fill(*units, mode="reload", token="t") == {"log": 3, "customer": 3}
    assert newest.seen() == newest.expected()


@pytest.mark.parametrize("step", per_commit([TableLoad.REVOKED, TableLoad.DELETED, TableLoad.MOVED]))
def test_a_kill_forgets_no_key(newest: Newest, monkeypatch, step: TableLoad):
    """Key 1 is only in rows that the next landing lacks, and merges have given up its older row."""
    newest.land(unit(0), [Change(1, "a", 10), Change(2, "b", 11)])
    newest.land(unit(1), [Change(1, "A", 20)])
    units = (unit(0), unit(1))
    newest.fill(*units)
    newest.world.sql("OPTIMIZE TABLE {db}.customer FINAL")
    assert newest.world.sql("SELECT id, name FROM {db}.customer ORDER BY id") == [(1, "A"), (2, "b")]
    newest.land(unit(1), [Change(3, "c", 5)])
    newest.load(*units, table="log")

    class Killed(BaseException):
        pass

    def reached(point: Point) -> None:
        if point is step:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(crash_points, "reached", reached)
        with pytest.raises(Killed):
            newest.load(*units, table="customer")
    assert newest.states(*units) == [UnitState.COMPLETE, UnitState.LANDED]
    assert newest.load(*units, table="customer") == 1
    assert [row[:2] for row in newest.seen()] == [(1, "a"), (2, "b"), (3, "c")]
    assert newest.differing() == []


@pytest.mark.long
def test_it_is_said_which_rows_are_wrong(newest: Newest):
    newest.land(unit(0), [Change(1, "a", 10), Change(2, "b", 11)])
    newest.land(unit(1), [Change(1, "A", 20)])
    newest.fill(unit(0), unit(1))
    assert newest.differing() == newest.wrong() == []
    newest.world.sql("OPTIMIZE TABLE {db}.customer FINAL")
    newest.world.sql("DELETE FROM {db}.customer WHERE name = 'A'")
    newest.world.sql(
        "INSERT INTO {db}.customer (id, name, _slice, _cluster) SELECT 9, 'x', _slice, _cluster "
        "FROM {db}.customer WHERE id = 2"
    )
    assert len(newest.differing()) == 2
    table = f"{newest.world.database}.customer"
    assert newest.wrong() == [
        f"{table} {unit(0).slice.id}: rows missing, keys without it: 1",
        f"{table} {unit(0).slice.id}: foreign rows, rows that the log lacks: 1",
        f"{table} {unit(1).slice.id}: rows missing, keys without it: 1",
    ]
    newest.load(unit(0), unit(1), table="customer", mode="repair")
    assert newest.differing() == newest.wrong() == []
    assert newest.seen() == newest.expected()


def test_an_empty_table_is_seen_and_filled_again(newest: Newest):
    newest.land(unit(0), [Change(1, "a", 10), Change(2, "b", 11)])
    newest.land(unit(1), [Change(1, "A", 20), Change(3, "c", 1, gone=True)])
    newest.fill(unit(0), unit(1))
    newest.world.sql("TRUNCATE TABLE {db}.customer")
    assert [one.partition(": ")[2] for one in newest.wrong()] == ["rows missing, keys without it: 2"] * 2
    newest.load(unit(0), unit(1), table="customer", mode="repair")
    assert newest.wrong() == []
    assert newest.seen() == newest.expected()


@pytest.mark.parametrize(
    ("change", "says"),
    per_commit(
        [
            ("ALTER TABLE {db}.log MODIFY TTL _slice + INTERVAL 9 YEAR", "a TTL of its log"),
            ("ALTER TABLE {db}.log DROP COLUMN _offset", "no column _offset"),
            ("ALTER TABLE {db}.log DROP COLUMN lsn", "`latest` names lsn"),
            (
                "ALTER TABLE {db}.log MODIFY COLUMN name LowCardinality(Nullable(String))",
                "column name has type",
            ),
            ("ALTER TABLE {db}.customer MODIFY TTL _slice + INTERVAL 9 YEAR", "its TTL takes"),
            ("ALTER TABLE {db}.customer ADD COLUMN more String", "is not one of"),
            (
                "ALTER TABLE {db}.customer MODIFY SETTING "
                "allow_experimental_replacing_merge_with_cleanup = 1",
                "forgets",
            ),
            (
                "CREATE MATERIALIZED VIEW {db}.v ENGINE = MergeTree ORDER BY id AS "
                "SELECT * FROM {db}.customer",
                "view .* reads it",
            ),
            ("DROP TABLE {db}.customer SYNC", "CREATE TABLE .* ReplacingMergeTree"),
            (f"{AGAIN} ReplacingMergeTree(_version) ORDER BY id", "its engine is ReplacingMergeTree"),
            (f"{AGAIN} MergeTree ORDER BY id", "its engine is MergeTree"),
            (f"{AGAIN} {ENGINE} ORDER BY (id, name)", "its ORDER BY is id, name"),
            (f"{AGAIN} {ENGINE} ORDER BY intDiv(id, 10)", "its ORDER BY is intDiv"),
            (f"{AGAIN} {ENGINE} PARTITION BY toYYYYMM(_slice) ORDER BY id", "it is partitioned by"),
        ],
        keep=4,
    ),
)
def test_tables_that_cannot_be_right_are_refused(newest: Newest, change: str, says: str):
    newest.land(unit(0), [Change(1, "a", 10)])
    newest.load(unit(0), table="log")
    for statement in change.split(";"):
        newest.world.sql(statement)
    with pytest.raises(TargetRefused, match=says):
        newest.load(unit(0), table="customer")


def printed(newest: Newest) -> list[str]:
    """The statements of the refusal of a load."""
    with pytest.raises(TargetRefused) as raised:
        newest.load(*newest.landed, table="customer")
    remedy = raised.value.remedy.removeprefix("create it: ").removeprefix("create it as it was: ")
    return remedy.split("; ")


@pytest.mark.long
@pytest.mark.parametrize(
    ("key", "change", "found"),
    [
        (("id", "name"), "", [(1, "a"), (1, "b")]),
        (("id",), "ALTER TABLE {db}.log MODIFY COLUMN id UInt64", [(1, "b")]),
        (("id",), "ALTER TABLE {db}.log RENAME COLUMN name TO called", [(1, "b")]),
    ],
)
def test_a_table_that_is_made_by_what_is_printed_is_loaded(newest: Newest, key, change, found):
    """Whether the old one is dropped before anybody asks or after. The statements that it was made by would
    make one that is refused."""
    newest.land(unit(0), [Change(1, "a", 10), Change(1, "b", 11)])
    newest.fill(unit(0))
    newest.key = key
    if change:
        newest.world.sql(change)
    statements = printed(newest)
    if not statements[0].startswith("ALTER"):
        assert [one.partition(" TABLE ")[0] for one in statements] == ["DROP", "CREATE"]
        newest.world.client.run(statements[0])
        assert printed(newest) == statements[1:]
    else:
        newest.world.sql("DROP TABLE {db}.customer SYNC")
    [create] = printed(newest)
    newest.world.client.run(create)
    assert newest.load(unit(0), table="customer") == 1
    name = "called" if "called" in change else "name"
    assert newest.world.sql(f"SELECT id, {name} FROM {{db}}.customer FINAL ORDER BY ALL") == found
    assert newest.states(unit(0)) == [UnitState.COMPLETE]


def test_a_dropped_table_is_made_as_it_was_while_that_fits(newest: Newest):
    newest.land(unit(0), [Change(1, "a", 10)])
    newest.world.sql("ALTER TABLE {db}.customer MODIFY COLUMN name CODEC(ZSTD(7))")
    newest.fill(unit(0))
    newest.world.sql("DROP TABLE {db}.customer SYNC")
    [create] = printed(newest)
    assert "ZSTD(7)" in create
    newest.world.client.run(create)
    assert newest.fill(unit(0)) == {"log": 0, "customer": 1}


@pytest.mark.long
@pytest.mark.parametrize("dropped", [False, True])
def test_a_key_that_the_log_lacks_is_refused_before_any_advice_to_drop(newest: Newest, dropped: bool):
    newest.land(unit(0), [Change(1, "a", 10)])
    newest.fill(unit(0))
    newest.key = ("di",)
    assert newest.wrong() == [], "no comparison is possible"
    if dropped:
        newest.world.sql("DROP TABLE {db}.customer SYNC")
    [remedy] = printed(newest)
    assert remedy == f"ALTER TABLE `{newest.world.database}`.`log` ADD COLUMN `di` …, or name another one"


def warned(newest: Newest) -> list[Check]:
    """What doctor says of the table, apart from what is fine."""
    world, name = newest.world, f"{newest.world.database}.customer"
    checks = clickhouse_checks(world.client, newest.pipeline(), world.lake.url)
    return [check for check in checks if check.place == name and check.level is not Level.OK]


def test_what_evolve_adds_to_the_log_is_said_with_what_adds_it_to_the_table(newest: Newest):
    newest.log = {"evolve": "add", "evolve_rows": 1}
    event = {"type": "customer", "id": 1, "name": "a", "city": "Bonn"}
    land(newest.world.lake, unit(0), [Event("customer", json.dumps(event))])
    said: list[str] = []
    newest.load(unit(0), table="log", on_progress=lambda one: said.append(str(one)))
    [line] = [line for line in said if f"{newest.world.database}.customer gets" in line]
    statement = re.search(r"ALTER TABLE .*?(?=, and is)", line)[0]
    newest.world.client.run(statement)
    assert newest.load(unit(0), table="customer") == 1
    assert newest.world.sql("SELECT id, city FROM {db}.customer FINAL") == [(1, "Bonn")]


@pytest.mark.long
def test_a_column_that_the_table_gets_is_filled_in_all_hours(newest: Newest):
    newest.land(unit(0), [Change(1, "a", 10), Change(2, "b", 11)])
    newest.land(unit(1), [Change(1, "A", 20)])
    units = (unit(0), unit(1))
    newest.fill(*units)
    assert warned(newest) == []
    newest.world.sql("ALTER TABLE {db}.log ADD COLUMN more String DEFAULT upper(name)")
    assert newest.states(*units) == [UnitState.COMPLETE] * 2, "its own columns decide its rows"
    [check] = warned(newest)
    assert check.finding == f"lacks more, which its log {newest.world.database}.log has"
    newest.world.client.run(check.remedy.partition("; ")[0])
    assert newest.states(*units) == [UnitState.STALE] * 2
    assert newest.fill(*units) == {"log": 0, "customer": 2}
    assert newest.world.sql("SELECT id, more FROM {db}.customer FINAL ORDER BY id") == [(1, "A"), (2, "B")]
    assert newest.states(*units) == [UnitState.COMPLETE] * 2
    # One of its own, and one that goes, change none of the log's.
    newest.world.sql("ALTER TABLE {db}.customer ADD COLUMN own UInt8 DEFAULT 7, DROP COLUMN more")
    assert newest.states(*units) == [UnitState.COMPLETE] * 2


def test_rows_that_the_log_has_lost_are_loaded_first(newest: Newest):
    newest.land(unit(0), [Change(1, "a", 10), Change(2, "b", 11)])
    newest.load(unit(0), table="log")
    newest.world.sql("DELETE FROM {db}.log WHERE id = 2")
    with pytest.raises(TargetRefused, match="has 1 of the 2 rows .* --mode repair` loads"):
        newest.load(unit(0), table="customer")
    newest.load(unit(0), table="log", mode="repair")
    newest.load(unit(0), table="customer")
    assert newest.seen() == newest.expected()


ASCENDING = {
    "Nullable(Int64)": ("NULL", "-9223372036854775808", "-5", "-1", "0", "1", "9223372036854775807"),
    "Nullable(UInt64)": ("NULL", "0", "1", "9223372036854775808", "18446744073709551615"),
    "Int8": ("-128", "-1", "0", "127"),
    "Bool": ("false", "true"),
    "Enum8('z' = -3, 'a' = 4)": ("'z'", "'a'"),
    "Date": ("'1970-01-01'", "'2026-11-20'", "'2149-06-06'"),
    "Date32": ("'1900-01-01'", "'1969-12-31'", "'2026-11-20'"),
    "DateTime('UTC')": ("0", "1", "4294967295"),
    "Nullable(DateTime64(6, 'UTC'))": ("NULL", "'1901-01-01 00:00:00.000001'", "'1970-01-01 00:00:00'"),
    "Nullable(UInt32)": ("NULL", "0", "4294967295"),
}
PLACE = "_offset, _offset AS _partition, _offset AS _row, 'c' AS _cluster, 't' AS _topic"


def test_versions_are_in_the_order_of_their_values(newest: Newest):
    """Whatever is below them: of the greater value all else is less."""
    for kind, values in ASCENDING.items():
        sql, found = version([Column("v", kind)], by_row=True), []
        for number, value in enumerate(values):
            place = f"toDateTime({900 * (9 - number)}, 'UTC') AS _slice, {9 - number} AS {PLACE}"
            row = f"SELECT CAST({value}, '{kind.replace(chr(39), chr(92) + chr(39))}') AS v, {place}"
            found.append(int(newest.world.sql(f"SELECT toString({sql}) FROM ({row})")[0][0]))
        assert found == sorted(set(found)), kind


def test_what_says_deleted(newest: Newest):
    cases = {
        "Nullable(Bool)": {"true": 1, "false": 0, "NULL": 0},
        "Int32": {"0": 0, "1": 1, "-7": 1},
        "Nullable(String)": {"'true'": 1, "'d'": 1, "'false'": 0, "'u'": 0, "''": 0, "NULL": 0},
    }
    for kind, values in cases.items():
        for value, expected in values.items():
            sql = deleted(Column("v", kind))
            found = newest.world.sql(f"SELECT {sql} FROM (SELECT CAST({value}, '{kind}') AS v)")
            assert found == [(expected,)], (kind, value)
