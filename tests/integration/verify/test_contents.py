"""Values in real tables against those that the lake gives: every type, shards, rollups, TTLs."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pendulum
import pytest

from sluice.clients.clickhouse.client import STEADY, WRITE
from sluice.clients.clickhouse.shards import ALONE, connect_shards
from sluice.config.pipeline import Pipeline
from sluice.errors import Busy
from sluice.flow.contents.compare import ContentsReport, auditor
from sluice.flow.contents.staged_load import Stage
from sluice.flow.load.fencing import fence_off
from sluice.flow.load.work import work_for
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.notes import with_what_works
from sluice.flow.verify.read_tables import SliceSpan, read_target
from sluice.slices import SliceRange, Unit
from sluice.state.boundaries.model import Boundaries
from sluice.state.manifests import read_manifests
from sluice.state.shard_ledgers import ledgers_of
from sluice.state.status import UnitStatus, statuses
from tests.integration.landed import Event, World, client_of, event, land, unit
from tests.integration.rolled import Rolled, clicks
from tests.integration.summed import Summed
from tests.support.any_floats import floats
from tests.support.long_form import per_commit
from tests.support.shards_world import made, shards

pytestmark = pytest.mark.integration

KEYS = "_topic String, _partition Int32, _offset Int64, _slice DateTime('UTC'), _cluster String"
TYPES = {
    "u": ("UInt16", 7, "8"),
    "f": ("Float64", 0.1, "0.2"),
    "d": ("Decimal(18, 4)", "1.25", "1.26"),
    "s": ("String", "a", "'b'"),
    "fs": ("FixedString(4)", "abcd", "'abce'"),
    "t": ("DateTime64(3, 'UTC')", "2026-11-20T10:00:00.001Z", "t + toIntervalMillisecond(1)"),
    "day": ("Date", "2026-11-20", "day + 1"),
    "id": ("UUID", "61f0c404-5cb3-11e7-907b-a6006ad3dba0", "generateUUIDv4()"),
    "e": ("Enum8('x' = 1, 'y' = 2)", "x", "'y'"),
    "b": ("Bool", True, "false"),
    "n": ("Nullable(Int32)", 5, "NULL"),
    "zero": ("Nullable(Int32)", None, "0"),
    "lc": ("LowCardinality(Nullable(String))", "x", "'y'"),
    "a": ("Array(Nullable(Int32))", [1, None], "[1, 0]"),
    "m": ("Map(String, UInt8)", {"k": 1}, "map('k', 2)"),
    "j": ("JSON", {"x": {"y": 1}}, '\'{"x": {"y": 2}}\''),
    "wide": ("Int256", 12, "13"),
    "ip": ("IPv6", "::1", "'::2'"),
    "tu": ("Tuple(id UInt64, `it's` String)", {"id": 1, "it's": "x"}, "(1, 'y')"),
    "tn": ("Tuple(a Nullable(UInt8), b UInt8)", {"b": 1}, "(0, 1)"),
    "at": (
        "Array(Tuple(a UInt8, b Map(String, Float64)))",
        [{"a": 1, "b": {"x": 1.5}}],
        "[(1, map('x', 2.5))]",
    ),
    "v": ("Variant(String, UInt64)", 1, "CAST('x', 'Variant(String, UInt64)')"),
    "dy": ("Dynamic", 1, "CAST('1', 'Dynamic')"),
    "ad": ("Array(Dynamic)", [1, "1"], "[CAST('1', 'Dynamic'), CAST('1', 'Dynamic')]"),
    "p": ("Point", [1.5, 2], "(1.5, 3)"),
    "ti": ("Time64(3)", "10:11:12.013", "CAST('10:11:12.014', 'Time64(3)')"),
    "bf": ("BFloat16", 1.5, "CAST(2.5, 'BFloat16')"),
    "iv": ("IntervalSecond", 5, "toIntervalSecond(6)"),
    "agg": ("SimpleAggregateFunction(max, UInt64)", 5, "6"),
}


@pytest.fixture
def world(clickhouse_server, tmp_path, name: str, monkeypatch) -> World:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    found = World(tmp_path, client_of(clickhouse_server), name)
    found.sql("CREATE DATABASE {db}")
    return found


def found_of(world: World, pipeline: Pipeline, units: Sequence[Unit]) -> list[UnitStatus]:
    manifests = read_manifests(world.lake, units)
    with connect_shards(pipeline) as servers:
        ledgers = ledgers_of(servers, pipeline, world.lake.url)
    return statuses(pipeline, units, Boundaries(), manifests, ledgers, pendulum.now("UTC"))


def compared(world: World, pipeline: Pipeline, *units: Unit) -> ContentsReport:
    found = auditor(pipeline).whole(found_of(world, pipeline, units or [unit()]))
    assert found.busy == []
    return found


def told(contents: ContentsReport) -> list[tuple]:
    return [(a.kind, a.table.partition(".")[2], a.shard, a.seen) for a in contents.anomalies]


def change(world: World, what: str) -> None:
    world.sql(f"ALTER TABLE {{db}}.{what} SETTINGS mutations_sync = 2")


@pytest.mark.long
@pytest.mark.parametrize("read", per_commit(["auto", "push"]))
def test_a_value_of_every_type(world: World, read: str):
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in TYPES.items())
    world.sql(f"CREATE TABLE {{db}}.clicks ({columns}, {KEYS}) ENGINE = MergeTree ORDER BY _offset")
    fields = {name: value for name, (_, value, _) in TYPES.items()}
    land(world.lake, unit(), [event(**fields) for _ in range(5)])
    pipeline = world.pipeline({"click": "clicks"}, clickhouse={"read": read})
    world.load(pipeline, unit())
    whole = compared(world, pipeline)
    assert (told(whole), whole.notes, whole.rows) == ([], [], 10)
    for name, (_, _, other) in TYPES.items():
        world.sql("CREATE TABLE {db}.kept AS {db}.clicks")
        world.sql("ALTER TABLE {db}.kept ATTACH PARTITION tuple() FROM {db}.clicks")
        change(world, f"clicks UPDATE {name} = {other} WHERE _offset = 3")
        found = compared(world, pipeline)
        assert told(found) == [
            (AnomalyKind.VALUES, "clicks", "", f"5 rows, other values in {name}; records 3")
        ], name
        world.sql("ALTER TABLE {db}.clicks DROP PARTITION tuple()")
        world.sql("ALTER TABLE {db}.clicks ATTACH PARTITION tuple() FROM {db}.kept")
        world.sql("DROP TABLE {db}.kept SYNC")
    assert told(compared(world, pipeline)) == []


@pytest.mark.long
@pytest.mark.parametrize("whole", per_commit([True, False]))
def test_a_number_that_clickhouse_itself_reads_otherwise(world: World, monkeypatch, whole: bool):
    """Its other parser of JSON is a digit off in one double of ten, in the table and in what is staged."""
    columns = f"f Float64, k Float32, j JSON, {KEYS}"
    world.sql(f"CREATE TABLE {{db}}.clicks ({columns}) ENGINE = MergeTree ORDER BY _offset")
    values = floats(400)
    land(world.lake, unit(), [event(f=value, k=0.1, j={"a": [{"b": value}]}) for value in values])
    pipeline = world.pipeline({"click": "clicks"})
    with monkeypatch.context() as bent:
        bent.setitem(STEADY, "allow_simdjson", 0)
        bent.setitem(WRITE, "allow_simdjson", 0)
        world.load(pipeline, unit())
        loaded = world.sql("SELECT f FROM {db}.clicks ORDER BY _offset")
        first = next(
            n for n, ((read,), value) in enumerate(zip(loaded, values, strict=True)) if read != value
        )
        audit = auditor(pipeline)
        found = (audit.whole if whole else audit.sample)(found_of(world, pipeline, [unit()]))
    assert [
        (a.kind, a.offsets, a.expected.split(" = ")[0].split(":")[0], a.command) for a in found.anomalies
    ] == [
        (AnomalyKind.VALUES, (first, first + 1), "f", ""),
        (AnomalyKind.VALUES, (first, first + 1), "j", ""),
    ]
    assert f"f: {values[first]!r}, as it is written" in found.anomalies[0].expected
    assert all("another version or build of the server" in a.advice for a in found.anomalies)
    # With the settings of a load it is the table alone that is wrong, and a reload mends it.
    [wrong] = compared(world, pipeline).anomalies
    assert ("f, j" in wrong.seen, "--mode repair" in wrong.command) == (True, True)
    world.load(pipeline, unit(), mode="reload")
    assert told(compared(world, pipeline)) == []


def test_records_of_two_clusters_with_the_same_offsets_are_two(world: World):
    world.sql(f"CREATE TABLE {{db}}.clicks (f Float64, {KEYS}) ENGINE = MergeTree ORDER BY _offset")
    units = [unit(cluster=cluster) for cluster in ("dc1", "dc2")]
    for number, one in enumerate(units, start=1):
        land(world.lake, one, [event(f=number + n / 8) for n in range(5)])
    kafka = [{"cluster": one.cluster, "bootstrap": "x:1", "topics": ["events"]} for one in units]
    pipeline = world.pipeline({"click": "clicks"}, kafka=kafka)
    world.load(pipeline, *units)
    assert told(auditor(pipeline).whole(found_of(world, pipeline, units))) == []


def test_columns_that_cannot_be_compared_are_said(world: World):
    world.sql(
        "CREATE TABLE {db}.clicks (n UInt16, at DateTime DEFAULT now(), id UUID DEFAULT generateUUIDv4(), "
        "text String DEFAULT concat('x', toString(id)), twice UInt32 DEFAULT n * 2, part UInt8 DEFAULT "
        "if(n IN (1, 2), 1, 0), m UInt32 MATERIALIZED n + 1, gone String TTL _slice + INTERVAL 50 YEAR, "
        f"{KEYS}) ENGINE = MergeTree ORDER BY _offset"
    )
    land(world.lake, unit(), [event(n=n) for n in range(5)])
    pipeline = world.pipeline({"click": "clicks"})
    world.load(pipeline, unit())
    found = compared(world, pipeline)
    assert told(found) == []
    table = f"table {world.database}.clicks: column"
    assert found.notes == [
        f"{table} at is not compared: its DEFAULT may give another value each time",
        f"{table} id is not compared: its DEFAULT may give another value each time",
        f"{table} text is not compared: its DEFAULT may give another value each time",
        f"{table} m is not compared: it is MATERIALIZED",
        f"{table} gone is not compared: its TTL takes values away",
    ]
    change(world, "clicks UPDATE twice = 0, part = 9 WHERE _offset = 2")
    assert told(compared(world, pipeline)) == [
        (AnomalyKind.VALUES, "clicks", "", "5 rows, other values in twice, part; records 2")
    ]


@pytest.mark.parametrize(("kind", "year"), [("DateTime('UTC')", 2090), ("DateTime64(3, 'UTC')", 2250)])
@pytest.mark.long
def test_rows_that_have_expired_are_not_missed_and_others_are(world: World, kind: str, year: int):
    world.sql(
        f"CREATE TABLE {{db}}.clicks (n UInt16, at {kind}, {KEYS}) ENGINE = MergeTree "
        "ORDER BY _offset TTL at + INTERVAL 1 DAY SETTINGS merge_with_ttl_timeout = 0"
    )
    times = ["2020-01-01T00:00:00Z", f"{year}-01-01T00:00:00Z"]
    land(world.lake, unit(), [event(n=n, at=times[n % 2]) for n in range(6)])
    pipeline = world.pipeline({"click": "clicks"})
    world.load(pipeline, unit())
    world.sql("OPTIMIZE TABLE {db}.clicks FINAL")
    assert world.sql("SELECT count() FROM {db}.clicks") == [(3,)]
    assert told(compared(world, pipeline)) == []
    world.sql("DELETE FROM {db}.clicks WHERE n = 3 SETTINGS lightweight_deletes_sync = 2")
    assert told(compared(world, pipeline)) == [(AnomalyKind.VALUES, "clicks", "", "2 rows; records 3")]


@pytest.mark.parametrize("by", per_commit(["partition", "intDiv(n, 4)"]))
def test_each_shard_holds_its_own_share(clickhouse_servers, tmp_path, name: str, monkeypatch, by: str):
    two = made(tmp_path, name, clickhouse_servers, monkeypatch)
    two.everywhere(f"CREATE TABLE {{db}}.clicks (n UInt16, {KEYS}) ENGINE = MergeTree ORDER BY _offset")
    land(two.world.lake, unit(), [event(n=n) for n in range(7)] + [event(n="x")], partitions=4)
    pipeline = two.world.pipeline({"click": "clicks"}, clickhouse=shards("s1", "s2", shard_by=by))
    two.load(pipeline, unit())
    assert told(compared(two.world, pipeline)) == []
    two.on(1, "ALTER TABLE {db}.clicks UPDATE n = n + 8 WHERE n = 5 SETTINGS mutations_sync = 2")
    [(kind, table, shard, seen)] = told(compared(two.world, pipeline))
    assert (kind, table, shard) == (AnomalyKind.VALUES, "clicks", "s2")
    assert "other values in n; records 1" in seen


@pytest.mark.long
def test_rollups(world: World):
    """By user the SELECT joins a table that may change, and takes any row's page."""
    rolled = Rolled(world)
    world.sql("DROP DATABASE {db}")
    rolled.create()
    keys = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
    world.sql(f"CREATE TABLE {{db}}.seen ({keys}) ENGINE = MergeTree ORDER BY tuple()")
    world.sql("CREATE MATERIALIZED VIEW {db}.v TO {db}.seen AS SELECT _slice, _cluster FROM {db}.by_user")
    world.sql("ALTER TABLE {db}.by_hour ADD COLUMN some String, ADD COLUMN pages Array(String)")
    file = world.root / "by_hour.sql"
    more = "any(page) AS some, groupArray(page) AS pages"
    file.write_text(file.read_text().replace("count() AS clicks", f"count() AS clicks, {more}"))
    pipeline = rolled.pipeline()
    land(world.lake, unit(), clicks(50))
    for table in ("clicks", "by_user", "by_hour"):
        world.load(pipeline, unit(), table=table)
    found = compared(world, pipeline)
    assert (told(found), found.notes) == ([], [])

    # Another order of the same rows, as a merge may leave it: the SELECT gives the same by other values.
    change(world, "by_hour UPDATE some = 'p0', pages = arrayReverse(pages) WHERE 1")
    found = compared(world, pipeline)
    why = "another evaluation of its SELECT over the same rows gives other values"
    assert told(found) == []
    assert sorted(found.notes) == [
        f"table {world.database}.by_hour: column {name} is not compared: {why}" for name in ("pages", "some")
    ]
    change(world, "by_hour UPDATE users = users + 1 WHERE 1")
    assert told(compared(world, pipeline)) == [
        (AnomalyKind.VALUES, "by_hour", "", "1 rows, other values in users")
    ]

    # A joined table has changed: that is no anomaly, and what brings it is said.
    world.load(pipeline, unit(), table="by_hour", mode="reload")
    world.sql("ALTER TABLE {db}.users UPDATE plan = 'gone' WHERE 1 SETTINGS mutations_sync = 2")
    found = compared(world, pipeline)
    assert told(found) == []
    db = world.database
    assert found.notes == [
        f"table {db}.by_user: its SELECT gives other rows of 1 slices now: it reads more than {db}.clicks; "
        "if that has changed: sluice run p --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --mode reload "
        f"--table {db}.by_user",
        f"table {db}.seen is not compared: {db}.by_user differs",
    ]


@pytest.mark.long
def test_a_rollup_whose_input_is_gone_is_not_compared(world: World):
    summed = Summed(world)
    world.sql("DROP DATABASE {db}")
    summed.create()
    summed.land(unit(), *range(30))
    summed.fill(unit())
    pipeline, db = summed.pipeline(), world.database
    assert told(compared(world, pipeline)) == []
    change(world, "sums UPDATE s = 1 WHERE 1")
    summed.expire("x < 3")
    [(kind, table, _, seen)] = [one for one in told(compared(world, pipeline)) if one[1] == "sums"]
    assert (kind, table, seen) == (AnomalyKind.VALUES, "sums", "1 rows, other values in s")
    summed.forget(unit())
    found = compared(world, pipeline)
    assert told(found) == []
    assert (
        f"table {db}.sums: 1 slices are not compared ({unit()} to {unit()}): rows of {db}.clicks that they "
        "were made from have expired, and the lake has forgotten the files"
    ) in found.notes


@pytest.mark.long
def test_a_load_that_begins_meanwhile_takes_the_tables_away(world: World):
    world.sql(f"CREATE TABLE {{db}}.clicks (n UInt16, {KEYS}) ENGINE = MergeTree ORDER BY n")
    manifest = land(world.lake, unit(), [event(n=n) for n in range(5)])
    pipeline = world.pipeline({"click": "clicks"})
    world.load(pipeline, unit())
    [target] = pipeline.targets
    stage = Stage(world.client, pipeline, target, world.lake, ALONE)
    works = [work_for(pipeline, target, unit(), manifest, True)]

    def compare() -> None:
        with stage.staged(works) as staged:
            assert world.client.rows(f"SELECT count() FROM {staged.rows}") == [(5,)]
            fence_off(world.client, target.table, lambda: None)
            world.client.rows(f"SELECT count() FROM {staged.rows}")

    with pytest.raises(Busy, match="a load has begun"):
        compare()
    names = "SELECT count() FROM system.tables WHERE database = 'sluice' AND name LIKE '%\\_{}\\_%'"
    assert world.sql(names.replace("{}", "tmp")) == [(0,)]


def test_a_file_of_many_types_and_nested_payloads(world: World):
    """One is as deep as an event may be."""
    world.sql(
        f"CREATE TABLE {{db}}.other (_type String, _payload String, {KEYS}) "
        "ENGINE = MergeTree ORDER BY _offset"
    )
    deep = Event("a", f'{{"type": "a", "x": {"[" * 899}{"]" * 899}}}', overflow=True)
    land(world.lake, unit(), [Event("a", json.dumps({"type": "a"}), overflow=True), event("b"), deep])
    pipeline = world.pipeline({"*": "other"})
    world.load(pipeline, unit())
    found = compared(world, pipeline)
    assert (told(found), found.notes) == ([], [])


LATER = {
    "note UInt32 DEFAULT 7": ("note", "999"),
    "empty Nullable(String)": ("empty", "'x'"),
    "told String DEFAULT concat('<', name, '>')": ("told", "'x'"),
    "size Float64": ("size", "0.5"),
    "seen JSON": ("seen", "'{\"a\": 1}'"),
}


@pytest.mark.parametrize("column", per_commit(list(LATER)))
def test_a_column_that_came_after_the_load_has_its_default(world: World, column: str):
    """Whether the lake has its field or not: no load has put it there. A repair puts the DEFAULT back, also
    in rows that were lost."""
    name, other = LATER[column]
    world.sql(f"CREATE TABLE {{db}}.clicks (name String, {KEYS}) ENGINE = MergeTree ORDER BY _offset")
    land(world.lake, unit(), [event(name=f"n{n}", size=n, note=n) for n in range(5)])
    pipeline = world.pipeline({"click": "clicks"})
    world.load(pipeline, unit())
    world.sql(f"ALTER TABLE {{db}}.clicks ADD COLUMN {column}")
    found = compared(world, pipeline)
    assert (told(found), found.blocked) == ([], [])
    assert not any("empty there" in note for note in found.notes)
    before = world.sql(f"SELECT name, toString({name}) FROM {{db}}.clicks ORDER BY name")
    change(world, f"clicks UPDATE {name} = {other} WHERE _offset = 3")
    found = compared(world, pipeline)
    assert told(found) == [(AnomalyKind.VALUES, "clicks", "", f"5 rows, other values in {name}; records 3")]
    assert [a.command.partition(" --mode ")[2] for a in found.anomalies] == [
        f"repair --table {world.database}.clicks"
    ]
    change(world, "clicks DELETE WHERE _offset = 2")
    world.load(pipeline, unit(), mode="repair")
    assert world.sql(f"SELECT name, toString({name}) FROM {{db}}.clicks ORDER BY name") == before
    assert told(compared(world, pipeline)) == []


def test_a_column_that_may_have_been_renamed_is_not_compared_and_what_works_is_told(world: World):
    """A repair would be refused. The rows stay as they are, and once the file names the field a reload gives
    what the lake has."""
    world.sql(f"CREATE TABLE {{db}}.clicks (n Int32, m Int32, {KEYS}) ENGINE = MergeTree ORDER BY _offset")
    land(world.lake, unit(), [event(n=n + 1, m=n + 1) for n in range(5)])
    pipeline = world.pipeline({"click": "clicks"})
    world.load(pipeline, unit())
    world.sql("ALTER TABLE {db}.clicks RENAME COLUMN n TO number")
    change(world, "clicks UPDATE m = 9 WHERE _offset = 3")
    reload = (
        "sluice run p --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --mode reload --table "
        f"{world.database}.clicks"
    )
    advice = f"was it renamed? Rename it back, or name its field under `columns`; then `{reload}`"
    found = compared(world, pipeline)
    assert told(found) == [(AnomalyKind.VALUES, "clicks", "", "5 rows, other values in m; records 3")]
    assert [(a.command, a.advice) for a in found.anomalies] == [("", advice)]
    [line] = found.blocked
    assert f"table {world.database}.clicks: column number came after" in line
    assert line.endswith(advice)
    # The file names it: the command alone does it.
    target = {"table": "clicks", "columns": {"number": "n"}}
    named = world.pipeline({"click": target})
    [anomaly] = compared(world, named).anomalies
    assert anomaly.command == reload
    world.load(named, unit(), mode="reload")
    assert world.sql("SELECT number, m FROM {db}.clicks ORDER BY _offset") == [(n, n) for n in range(1, 6)]
    found = compared(world, named)
    assert (told(found), found.blocked) == ([], [])


def test_lost_rows_of_a_renamed_column_are_told_with_what_works(world: World):
    world.sql(f"CREATE TABLE {{db}}.clicks (n Int32, {KEYS}) ENGINE = MergeTree ORDER BY _offset")
    world.sql(f"CREATE TABLE {{db}}.views (n Int32, {KEYS}) ENGINE = MergeTree ORDER BY _offset")
    land(world.lake, unit(), [event(kind, n=n + 1) for n in range(5) for kind in ("click", "view")])
    pipeline = world.pipeline({"click": "clicks", "view": "views"})
    for name in ("clicks", "views"):
        world.load(pipeline, unit(), table=name)
    world.sql("ALTER TABLE {db}.clicks RENAME COLUMN n TO number")
    statuses = found_of(world, pipeline, [unit()])
    hour = SliceRange(unit().slice.start, unit().slice.end)
    clicks, views = (f"{world.database}.{name}" for name in ("clicks", "views"))
    repair = "sluice run p --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --mode repair"
    place = {"slice": unit().slice.id, "cluster": "dc1", "command": repair}
    anomalies = [Anomaly(AnomalyKind.ROWS_MISSING, "5", "4", table=name, **place) for name in (clicks, views)]
    with connect_shards(pipeline) as servers:
        ledgers = ledgers_of(servers, pipeline, world.lake.url)
        tables = tuple(
            read_target(world.client, pipeline, target, ledgers[target.table], SliceSpan())
            for target in pipeline.targets
        )
        facts = VerifyFacts(pipeline, hour, hour.end, Boundaries(), tuple(statuses), tables=tables)
        told_now = with_what_works(facts, servers, world.lake, anomalies)
    assert [(a.command, "Rename it back" in a.advice) for a in told_now] == [
        ("", True),
        (f"{repair} --table {views}", False),
    ]
    assert told_now[0].advice.endswith(f"--mode reload --table {clicks}`")
