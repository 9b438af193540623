"""The load as a whole, on a real server: what is loaded, skipped, moved, refused."""

from __future__ import annotations

import json
import socket
import time
from collections import Counter
from copy import copy
from datetime import timedelta

import pytest

from sluice.clients.clickhouse.client import WRITE
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.connections import Connection
from sluice.errors import ClickHouseUnavailable, Conservation, Refused, TargetRefused
from sluice.flow.load.protocol import LoadRun
from sluice.flow.verify.read_tables import SliceSpan, read_target
from sluice.slices import Slice, SliceRange, Unit, floor
from sluice.state.ledger import committed
from tests.integration.landed import START, Event, World, client_of, event, land, unit
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"


@pytest.fixture
def world(clickhouse_server, tmp_path, name) -> World:
    made = World(tmp_path, client_of(clickhouse_server), name)
    made.sql("CREATE DATABASE {db}")
    yield made
    made.sql("DROP DATABASE {db} SYNC")


def make(
    world: World, table: str = "clicks", columns: str = "n UInt16", more: str = "ORDER BY tuple()"
) -> None:
    world.sql(f"CREATE TABLE {{db}}.{table} ({columns}, {KEYS}) ENGINE = MergeTree {more}")


def numbers(world: World, table: str = "clicks") -> list[int]:
    return [n for (n,) in world.sql(f"SELECT n FROM {{db}}.{table} ORDER BY n")]


def test_each_unit_once_whatever_is_repeated(world: World):
    make(world)
    pipeline = world.pipeline({"click": "clicks"})
    for hour in range(3):
        land(world.lake, unit(hour), [event(n=hour * 10 + k) for k in range(3)])
    assert world.load(pipeline, unit(0), unit(1)).summary() == {
        "loaded": 2,
        "skipped": 0,
        "rows": 6,
        "rejected_rows": 0,
    }
    again = world.load(pipeline, unit(0), unit(1), unit(2), unit(3))
    assert again.summary() == {"loaded": 1, "skipped": 2, "rows": 3, "rejected_rows": 0}
    assert world.load(pipeline, *map(unit, range(3)), mode="reload").summary()["loaded"] == 3
    assert numbers(world) == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    assert numbers(world) == [n for (n,) in world.sql("SELECT n FROM sluice.`{db}.clicks` ORDER BY n")]


def test_a_reload_of_the_same_token_is_done_once(world: World):
    make(world)
    pipeline = world.pipeline({"click": "clicks"})
    land(world.lake, unit(), [event(n=1)])
    loaded = [len(world.load(pipeline, unit(), mode="reload", token=t).loaded) for t in ("a", "a", "b", "")]
    assert loaded == [1, 0, 1, 1]


def test_equal_blocks_are_no_duplicates_to_the_server(world: World):
    """Whatever window the table has: statements of a load carry that, and not only for sorted SELECTs."""
    window = "SETTINGS non_replicated_deduplication_window = 100"
    world.sql(f"CREATE TABLE {{db}}.equal (n UInt8) ENGINE = MergeTree ORDER BY n {window}")
    for _ in range(2):
        world.client.run(
            f"INSERT INTO {world.database}.equal FORMAT JSONEachRow", settings=WRITE, body=b'{"n": 1}'
        )
    for _ in range(2):
        select = "SELECT arrayJoin([2, 3]) AS n ORDER BY ALL"
        world.client.run(f"INSERT INTO {world.database}.equal {select}", settings=WRITE)
    assert world.sql("SELECT n, count() FROM {db}.equal GROUP BY n ORDER BY n") == [(1, 2), (2, 2), (3, 2)]


def test_a_slice_landed_again_replaces_its_rows_and_rejected_rows(world: World):
    make(world)
    pipeline = world.pipeline({"click": "clicks"})
    land(world.lake, unit(), [event(n=1), event(n="x"), event(n=2)])
    land(world.lake, unit(1), [event(n=9)])
    world.load(pipeline, unit(), unit(1))
    land(world.lake, unit(), [event(n=3), event(n="y")], generation=2)
    assert world.load(pipeline, unit(), unit(1)).summary() == {
        "loaded": 1,
        "skipped": 1,
        "rows": 1,
        "rejected_rows": 1,
    }
    assert numbers(world) == [3, 9]
    assert world.sql("SELECT value FROM sluice.rejected WHERE target = '{db}.clicks'") == [("y",)]


def test_counts_and_ledger_as_verify_reads_them(world: World):
    make(world)
    pipeline = world.pipeline({"click": "clicks"})
    manifest = land(world.lake, unit(), [event(n=1), event(n="x"), event(n=2), event("view")])
    land(world.lake, unit(1), [])
    world.load(pipeline, unit(), unit(1))
    target = pipeline.targets[0]
    rows = committed(world.client, pipeline, world.lake.url, target)
    assert (rows[unit()].manifest, rows[unit()].types) == (manifest.id, ("click",))
    assert [(r.landed, r.rows, r.rejected_rows) for r in (rows[unit()], rows[unit(1)])] == [
        (3, 2, 1),
        (0, 0, 0),
    ]
    span = SliceSpan.of(SliceRange(START, START.add(hours=2)))
    held = read_target(world.client, pipeline, target, rows, span)
    assert (held.rows, held.rejected_rows) == ({unit(): {"": 2}}, {unit(): {"click": 1}})
    world.sql("DROP TABLE {db}.clicks SYNC")
    assert committed(world.client, pipeline, world.lake.url, target) == {}
    make(world)
    assert committed(world.client, pipeline, world.lake.url, target) == {}
    assert len(world.load(pipeline, unit(), unit(1)).loaded) == 2


def test_the_catch_all_gives_up_a_type_that_gets_its_own_table(world: World):
    make(world, "other", "_type LowCardinality(String), _payload String")
    make(world)
    rows = [
        event(n=1),
        event("view", n=2),
        Event("scroll", "[1]", overflow=True),
        Event("click", '{"n": 5}', overflow=True),
    ]
    land(world.lake, unit(), rows)
    before = world.pipeline({"*": "other"})
    world.load(before, unit())
    assert world.sql("SELECT count() FROM {db}.other") == [(4,)]
    after = world.pipeline({"click": "clicks", "*": "other"})
    for table in ("clicks", "other"):
        world.load(after, unit(), table=table)
    assert numbers(world) == [1, 5]
    assert Counter(t for (t,) in world.sql("SELECT _type FROM {db}.other")) == {"view": 1, "scroll": 1}
    assert world.sql("SELECT _payload FROM {db}.other WHERE _type = 'scroll'") == [("[1]",)]


@pytest.mark.parametrize("read", ["pull", "push"])
def test_pulled_and_pushed_rows_are_the_same(world: World, read: str):
    lake = "_type String, _topic String, _partition Int32, _offset Int64, _timestamp DateTime64(3, 'UTC'), "
    make(world, columns=lake + "_key Nullable(String), _payload String, n UInt16")
    events = [event("a,b {x}*", n=k) for k in range(5)] + [event("é/'", n=7)]
    events += [Event("late", '{"n": 9}', hour="2026-11-19T23")]
    manifests = [land(world.lake, unit(h), events) for h in (0, 1)]
    pipeline = world.pipeline(dict.fromkeys(("a,b {x}*", "é/'", "late"), "clicks"), clickhouse={"read": read})
    world.load(pipeline, unit(0), unit(1))
    found = world.sql(
        "SELECT toUnixTimestamp(_slice), _type, _topic, _partition, _offset, "
        "toUnixTimestamp64Milli(_timestamp), _key, _payload, n FROM {db}.clicks ORDER BY _slice, _offset"
    )
    expected = [
        (int(START.timestamp()) + h * 3600, e.type, "events", 0, o, int(START.timestamp() + h * 3600) * 1000,
         None if o % 2 else f"k{o}", e.payload, json.loads(e.payload)["n"])
        for h in (0, 1)
        for o, e in enumerate(events)
    ]  # fmt: skip
    assert found == expected
    assert sum(len(m.files) for m in manifests) == 6


@pytest.mark.parametrize("minutes", per_commit([15, 30, 60, 90, 120, 1440], 2))
def test_two_slices_of_any_length_in_one_load(world: World, minutes: int):
    """The server takes each row's slice from its file's name."""
    make(world)
    length = timedelta(minutes=minutes)
    first = Slice(floor(START, length), length)
    slices = [first, Slice(first.end, length)]
    pipeline = world.pipeline({"click": "clicks"}, slice=f"{minutes}m", clickhouse={"read": "pull"})
    for number, piece in enumerate(slices):
        land(world.lake, Unit(piece, "dc1"), [event(n=number * 10 + k) for k in range(2)])
    world.load(pipeline, *(Unit(piece, "dc1") for piece in slices))
    starts = [int(piece.start.timestamp()) for piece in slices]
    found = world.sql("SELECT toUnixTimestamp(_slice), n FROM {db}.clicks ORDER BY n")
    assert found == [(starts[0], 0), (starts[0], 1), (starts[1], 10), (starts[1], 11)]


@pytest.mark.parametrize("read", per_commit(["pull", "push"]))
def test_a_file_that_is_missing_or_short_is_noticed(world: World, read: str):
    make(world)
    pipeline = world.pipeline({"click": "clicks", "view": "clicks"}, clickhouse={"read": read})
    manifest = land(world.lake, unit(), [event(n=1), event("view", n=2)])
    world.lake.delete([manifest.files[1].key])
    with pytest.raises((Conservation, FileNotFoundError), match=r"2 rows landed|view"):
        world.load(pipeline, unit())
    assert numbers(world) == []


def test_views_and_chains_of_views_are_emptied_with_their_target(world: World):
    make(world)
    world.sql(
        f"CREATE TABLE {{db}}.sums (k UInt8, total UInt64, {KEYS}) ENGINE = SummingMergeTree "
        "ORDER BY (k, _slice, _cluster)"
    )
    world.sql(
        "CREATE MATERIALIZED VIEW {db}.to_sums TO {db}.sums AS "
        "SELECT n % 2 AS k, toUInt64(1) AS total, _slice, _cluster FROM {db}.clicks"
    )
    world.sql(
        "CREATE MATERIALIZED VIEW {db}.inner_one ENGINE = MergeTree ORDER BY k AS "
        "SELECT k, total, _slice, _cluster FROM {db}.sums"
    )
    pipeline = world.pipeline({"click": "clicks"})
    land(world.lake, unit(), [event(n=n) for n in range(10)])
    for mode in ("fill", "reload", "reload"):
        world.load(pipeline, unit(), mode=mode)
    totals = "SELECT k, sum(total) FROM {db}.%s GROUP BY k ORDER BY k"
    assert world.sql(totals % "sums") == [(0, 5), (1, 5)]
    assert world.sql(totals % "inner_one") == [(0, 5), (1, 5)]


@pytest.mark.parametrize(("limit", "view"), per_commit([(3, True), (3, False), (100, True)]))
def test_more_partitions_than_one_insert_may_touch(clickhouse_server, world: World, limit: int, view: bool):
    make(world, more="PARTITION BY n ORDER BY n")
    if view:
        world.sql(
            "CREATE MATERIALIZED VIEW {db}.v ENGINE = MergeTree ORDER BY n AS "
            "SELECT n, _slice, _cluster FROM {db}.clicks"
        )
    limited = Limited(world.client, limit)
    pipeline = world.pipeline({"click": "clicks"})
    land(world.lake, unit(), [event(n=n) for n in range(10)])
    World(world.root, limited, world.database).load(pipeline, unit())
    assert numbers(world) == list(range(10))


class Limited:
    """A client whose user may touch only so many partitions with one INSERT."""

    def __init__(self, client, limit: int):
        self._client, self.address, self._limit = client, client.address, limit

    def reading(self, settings):
        made = copy(self)
        made._client = self._client.reading(settings)
        return made

    def rows(self, sql, parameters=None, settings=None):
        return self._client.rows(
            sql, parameters, {"max_partitions_per_insert_block": self._limit, **(settings or {})}
        )

    def run(self, sql, parameters=None, settings=None, body=None):
        more = {"max_partitions_per_insert_block": self._limit, **(settings or {})}
        self._client.run(sql, parameters, more, body)


def test_projections_and_ttl(world: World):
    make(world, columns="n UInt16, PROJECTION p (SELECT n ORDER BY n)")
    make(
        world,
        "short",
        columns="n UInt16, d Date DEFAULT '2020-01-01'",
        more="ORDER BY n TTL d + INTERVAL 1 DAY",
    )
    pipeline = world.pipeline({"click": "clicks", "view": "short"})
    land(world.lake, unit(), [event(n=1), event(n=2), event("view", n=3)])
    for mode in ("fill", "reload"):
        world.load(pipeline, unit(), mode=mode)
        assert world.load(pipeline, unit(), table="short", mode=mode).summary()["rows"] == 1
    assert numbers(world) == [1, 2]
    assert numbers(world, "short") in ([3], [])


@pytest.mark.parametrize(
    ("definition", "words"),
    per_commit([
        ("(n UInt8) ENGINE = MergeTree ORDER BY n", ["_slice and _cluster", "ALTER TABLE"]),
        (f"(n UInt8, {KEYS}) ENGINE = ReplacingMergeTree ORDER BY n", ["ReplacingMergeTree"]),
        (f"(n UInt8, {KEYS}) ENGINE = Log", ["engine is Log"]),
        (
            f"(p AggregateFunction(sum, UInt8), {KEYS}) ENGINE = MergeTree ORDER BY tuple()",
            ["column p", "AggregateFunction", "CREATE MATERIALIZED VIEW"],
        ),
        (f"(`null` String, {KEYS}) ENGINE = MergeTree ORDER BY tuple()", ["reserves the name null"]),
        (f"(_offset UInt8, {KEYS}) ENGINE = MergeTree ORDER BY tuple()", ["_offset"]),
        (
                f"(b String, `n.a` Array(String) DEFAULT [b], {KEYS}) ENGINE = MergeTree ORDER BY b",
                ["DEFAULT of"],
            ),
        ("", ["no such table", "`sluice doctor p --ddl click` prints a CREATE TABLE"]),
    ], 3),
)  # fmt: skip
def test_tables_that_cannot_be_loaded_are_refused(world: World, definition: str, words: list[str]):
    if definition:
        world.sql(f"CREATE TABLE {{db}}.clicks {definition}")
    with pytest.raises(TargetRefused) as refusal:
        world.load(world.pipeline({"click": "clicks"}), unit())
    for word in words:
        assert word in str(refusal.value)


def test_the_remedies_can_be_pasted(world: World):
    pipeline = world.pipeline({"click": "clicks"})
    with pytest.raises(TargetRefused) as refusal:
        world.load(pipeline, unit())
    assert "`sluice doctor p --ddl click` prints a CREATE TABLE" in refusal.value.remedy
    world.sql(
        "CREATE TABLE {db}.clicks (n UInt8, _slice DateTime('UTC'), _cluster LowCardinality(String)) "
        "ENGINE = MergeTree ORDER BY n"
    )
    world.sql("CREATE TABLE {db}.old (n UInt8) ENGINE = MergeTree ORDER BY n")
    with pytest.raises(TargetRefused) as refusal:
        world.load(world.pipeline({"click": "old"}), unit())
    world.sql(refusal.value.remedy)
    for table in ("clicks", "old"):
        assert world.load(world.pipeline({"click": table}), unit()).units == ()


@pytest.mark.parametrize(
    ("table", "select", "words"),
    per_commit(
        [
            (
                "(n UInt8) ENGINE = MergeTree ORDER BY n",
                "n",
                ["no column _slice and _cluster", "ALTER TABLE"],
            ),
            (
                f"(n UInt8, {KEYS}) ENGINE = MergeTree ORDER BY n",
                "n",
                ["does not select _slice and _cluster"],
            ),
            (f"(n UInt8, {KEYS}) ENGINE = SummingMergeTree ORDER BY n", "n, _slice, _cluster", ["ORDER BY"]),
            (f"(n UInt8, {KEYS}) ENGINE = Log", "n, _slice, _cluster", ["engine is Log"]),
        ],
        2,
    ),
)
def test_views_whose_tables_cannot_be_emptied_are_refused(
    world: World, table: str, select: str, words: list[str]
):
    make(world)
    world.sql(f"CREATE TABLE {{db}}.fed {table}")
    world.sql(f"CREATE MATERIALIZED VIEW {{db}}.v TO {{db}}.fed AS SELECT {select} FROM {{db}}.clicks")
    with pytest.raises(TargetRefused) as refusal:
        world.load(world.pipeline({"click": "clicks"}), unit())
    for word in words:
        assert word in str(refusal.value)


def test_a_target_belongs_to_one_pipeline_and_lake(world: World, tmp_path_factory):
    make(world)
    land(world.lake, unit(), [event(n=1)])
    world.load(world.pipeline({"click": "clicks"}), unit())
    other = world.with_root(tmp_path_factory.mktemp("other"))
    land(other.lake, unit(), [event(n=2)])
    with pytest.raises(TargetRefused, match="belongs to pipeline 'p'"):
        other.load(other.pipeline({"click": "clicks"}), unit())
    assert numbers(world) == [1]


def give_to_the_next(world: World) -> None:
    """What the refusal tells to do where the other pipeline is gone."""
    world.sql("DELETE FROM sluice.targets WHERE target = '{db}.clicks'")


def test_a_table_that_comes_back_to_a_lake_is_loaded_again(world: World, tmp_path_factory):
    make(world)
    other = world.with_root(tmp_path_factory.mktemp("other"))
    land(world.lake, unit(), [event(n=1), event(n="x")])
    land(world.lake, unit(1), [event(n=2)])
    land(other.lake, unit(), [event(n=3)])
    pipeline, theirs = world.pipeline({"click": "clicks"}), other.pipeline({"click": "clicks"})
    world.load(pipeline, unit(), unit(1))
    give_to_the_next(world)
    with pytest.raises(TargetRefused, match="2 rows of slice .*, and the lake has only 1"):
        other.load(theirs, unit())  # it may be the same lake, and lost
    assert numbers(world) == [1, 2]
    land(other.lake, unit(), [event(n=3), event(n=4)])
    other.load(theirs, unit())
    assert numbers(world) == [2, 3, 4]
    give_to_the_next(world)
    before = committed(world.client, pipeline, world.lake.url, pipeline.targets[0])
    assert (set(before), set(before.others)) == ({unit(1)}, {unit()})
    assert [u.unit for u in world.load(pipeline, unit(), unit(1)).loaded] == [unit()]
    assert numbers(world) == [1, 2]
    assert world.sql("SELECT value FROM sluice.rejected WHERE target = '{db}.clicks'") == [("x",)]


def test_rows_that_another_lake_has_committed_are_revoked_before_they_go(
    world: World, tmp_path_factory, monkeypatch
):
    make(world)
    other = world.with_root(tmp_path_factory.mktemp("other"))
    land(world.lake, unit(), [event(n=1)])
    land(other.lake, unit(), [event(n=3)])
    theirs = other.pipeline({"click": "clicks"})
    other.load(theirs, unit())
    give_to_the_next(world)

    def broken(run: LoadRun) -> None:
        raise ConnectionError("the loader dies here")

    monkeypatch.setattr(LoadRun, "_reject", lambda run, rejected_rows: broken(run))
    with pytest.raises(ConnectionError):
        world.load(world.pipeline({"click": "clicks"}), unit())
    assert numbers(world) == []
    assert committed(world.client, theirs, other.lake.url, theirs.targets[0]) == {}
    assert world.sql("SELECT n FROM sluice.`{db}.clicks`") == []


@pytest.mark.long
def test_many_small_files(world: World):
    make(world)
    hours, per_hour = 120, 5
    for hour in range(hours):
        late = [Event("click", f'{{"n": {hour}}}', hour=f"2026-11-19T{k:02}") for k in range(per_hour)]
        land(world.lake, unit(hour), late)
    pipeline = world.pipeline({"click": "clicks"})
    result = world.load(pipeline, *map(unit, range(hours)))
    assert result.summary() == {"loaded": hours, "skipped": 0, "rows": hours * per_hour, "rejected_rows": 0}
    assert Counter(numbers(world)) == dict.fromkeys(range(hours), per_hour)


def test_pull_is_refused_where_the_server_sees_no_files(world: World):
    make(world)
    manifest = land(world.lake, unit(), [event(n=1)])
    assert manifest.files
    blind = Blind(world.client)
    seen_by = World(world.root, blind, world.database)
    with pytest.raises(Refused, match="read: push"):
        seen_by.load(world.pipeline({"click": "clicks"}, clickhouse={"read": "pull"}), unit())
    seen_by.load(world.pipeline({"click": "clicks"}), unit())
    assert numbers(world) == [1]


class Blind(Limited):
    """A client of a server on another machine: the lake's paths name nothing there."""

    def __init__(self, client):
        super().__init__(client, 100)

    def rows(self, sql, parameters=None, settings=None):
        return super().rows(sql.replace("file('/", "file('/elsewhere/"), parameters, settings)


def test_unavailable_is_told_soon():
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        begun = time.monotonic()
        with pytest.raises(ClickHouseUnavailable, match=r"127\.0\.0\.1"):
            open_client(Connection("c", host="127.0.0.1", port=busy.getsockname()[1]))
        with pytest.raises(ClickHouseUnavailable):
            open_client(Connection("c", host="192.0.2.1", port=8123))
        assert time.monotonic() - begun < 10


def test_a_wrong_password_is_one_clear_line(clickhouse_server):
    place = {"host": clickhouse_server.host, "port": clickhouse_server.port}
    with pytest.raises(ServerError, match="correct user and password") as refusal:
        open_client(Connection("c", **place, login="nobody", password="x"))
    assert (refusal.value.code, refusal.value.retryable) == (516, False)
    assert "\n" not in str(refusal.value)
