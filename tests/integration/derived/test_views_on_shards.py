"""Tables of materialized views on two shards: `verify --contents` and `verify` name what differs, with its
shard, and nothing of what is whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.config.pipeline import Pipeline
from sluice.flow.contents.compare import ContentsReport
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.audit import audit
from sluice.slices import SliceRange
from tests.integration.landed import START, event, land, unit
from tests.integration.verify.test_contents import compared
from tests.support.long_form import per_commit
from tests.support.shards_world import Shards, made, shards

pytestmark = pytest.mark.integration

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
BY_UNIT = "ORDER BY (_slice, _cluster"
CLICKS = f"n UInt16, tags Array(UInt8), _partition Int32, {KEYS}"
# By table: its columns (none: the view has a table of its own), its engine, and the SELECT of its view.
VIEWS = {
    "passed": ("n UInt16", "MergeTree ORDER BY n", "n, _slice, _cluster FROM {db}.clicks WHERE n > 1"),
    "own": ("", "MergeTree ORDER BY n", "n, n * 2 AS twice, _slice, _cluster FROM {db}.clicks"),
    "tags": (
        "tag UInt8",
        "MergeTree ORDER BY tuple()",
        "arrayJoin(tags) AS tag, _slice, _cluster FROM {db}.clicks",
    ),
    "sums": (
        "k UInt8, total UInt64",
        f"SummingMergeTree {BY_UNIT}, k)",
        "toUInt8(n % 2) AS k, sum(n) AS total, _slice, _cluster FROM {db}.clicks GROUP BY ALL",
    ),
    "states": (
        "k UInt8, users AggregateFunction(uniqExact, UInt16), most SimpleAggregateFunction(max, UInt16)",
        f"AggregatingMergeTree {BY_UNIT}, k)",
        "toUInt8(n % 2) AS k, uniqExactState(n) AS users, max(n) AS most, _slice, _cluster "
        "FROM {db}.clicks GROUP BY ALL",
    ),
    "chained": (
        "total UInt64",
        f"SummingMergeTree {BY_UNIT})",
        "sum(total) AS total, _slice, _cluster FROM {db}.sums GROUP BY ALL",
    ),
    "named": (
        "n UInt16, name String",
        "MergeTree ORDER BY tuple()",
        "c.n AS n, d.name AS name, c._slice AS _slice, c._cluster AS _cluster FROM {db}.clicks AS c "
        "LEFT JOIN {db}.dim AS d ON c.n = d.n",
    ),
    "clocked": ("n UInt16", "MergeTree ORDER BY n", "n, _slice, _cluster FROM {db}.clicks WHERE n < now()"),
}
HERE = f"_slice = toDateTime({int(START.timestamp())}, 'UTC')"
HOURS = SliceRange(START, START.add(hours=2))


@pytest.fixture
def two(clickhouse_servers, tmp_path, name, monkeypatch) -> Shards:
    found = made(tmp_path, name, clickhouse_servers, monkeypatch)
    found.everywhere(f"CREATE TABLE {{db}}.clicks ({CLICKS}) ENGINE = MergeTree ORDER BY n")
    found.everywhere("CREATE TABLE {db}.dim (n UInt16, name String) ENGINE = MergeTree ORDER BY n")
    found.everywhere("INSERT INTO {db}.dim VALUES (1, 'one')")
    for view, (columns, engine, select) in VIEWS.items():
        place = f"ENGINE = {engine}"
        if columns:
            found.everywhere(f"CREATE TABLE {{db}}.{view} ({columns}, {KEYS}) ENGINE = {engine}")
            place = f"TO {{db}}.{view}"
        called = f"{view}_view" if columns else view
        found.everywhere(f"CREATE MATERIALIZED VIEW {{db}}.{called} {place} AS SELECT {select}")
    for hour in range(2):
        events = [event(n=n, tags=[n, n + 1]) for n in range(9)]
        named = [replace(one, hour=f"2026-11-20T{10 + hour}") for one in events]
        land(found.world.lake, unit(hour), named, partitions=3)
    return found


def pipeline_of(two: Shards, by: str) -> Pipeline:
    return two.world.pipeline({"click": "clicks"}, clickhouse=shards("s1", "s2", shard_by=by))


def contents(two: Shards, pipeline: Pipeline) -> ContentsReport:
    return compared(two.world, pipeline, unit(0), unit(1))


def told(found: ContentsReport) -> set[tuple[str, str, str]]:
    """(table, shard, slice); every command repairs by loading again."""
    assert {a.kind for a in found.anomalies} <= {AnomalyKind.VALUES}
    assert all("--mode repair" in a.command for a in found.anomalies)
    return {(a.table.partition(".")[2], a.shard, a.slice) for a in found.anomalies}


def counted(pipeline: Pipeline) -> set[tuple[str, str, str]]:
    """The same of `sluice verify` without --contents."""
    anomalies = [a for a in audit(pipeline, HOURS).anomalies if a.kind is AnomalyKind.VIEW]
    return {(a.table.partition(".")[2], a.shard, a.slice) for a in anomalies}


def inner(two: Shards, number: int) -> str:
    [(found,)] = two.on(
        number, "SELECT toString(uuid) FROM system.tables WHERE database = '{db}' AND name = 'own'"
    )
    return f"`.inner_id.{found}`"


@pytest.mark.parametrize("by", per_commit(["partition", "intDiv(n, 4)"]))
@pytest.mark.long
def test_each_shards_views_are_compared_with_its_own_rows(two: Shards, by: str):
    pipeline = pipeline_of(two, by)
    two.load(pipeline, unit(0), unit(1))
    whole = contents(two, pipeline)
    assert (told(whole), counted(pipeline)) == (set(), set())
    assert whole.notes == []  # only where rows differ is it asked what else decides them
    for name in (*VIEWS, "clicks"):
        two.everywhere(f"OPTIMIZE TABLE {{db}}.{name} FINAL")
    assert told(contents(two, pipeline)) == set()

    slice_id = unit(0).slice.id
    [(on_second,)] = two.on(1, f"SELECT min(n) FROM {{db}}.clicks WHERE n > 1 AND {HERE}")
    own = inner(two, 1)
    changed = [
        f"ALTER TABLE {{db}}.tags UPDATE tag = 99 WHERE tag = {on_second + 1}",
        f"ALTER TABLE {{db}}.{own} UPDATE twice = twice + 1 WHERE n = {on_second}",
        f"ALTER TABLE {{db}}.sums UPDATE total = total + 1 WHERE k = {on_second % 2}",
        f"ALTER TABLE {{db}}.states UPDATE most = 99 WHERE k = {on_second % 2}",
        "ALTER TABLE {db}.chained UPDATE total = total + 1 WHERE 1",
        f"ALTER TABLE {{db}}.named UPDATE n = 99 WHERE n = {on_second}",
    ]
    for statement in changed:
        two.on(1, f"{statement} AND {HERE} SETTINGS mutations_sync = 2")
    names = {statement.split("{db}.")[1].split()[0] for statement in changed} - {own, "named"} | {"own"}
    other = contents(two, pipeline)
    assert told(other) == {(name, "s2", slice_id) for name in names}
    [note] = other.notes  # dim may have changed
    assert note.startswith(f"table {two.world.database}.named: its SELECT gives other rows of 1 slices now")
    two.load(pipeline, unit(0), mode="reload")
    assert told(contents(two, pipeline)) == set()


@pytest.mark.long
def test_a_row_that_is_on_the_wrong_shard_gone_or_there_twice(two: Shards):
    pipeline = pipeline_of(two, "intDiv(n, 4)")
    two.load(pipeline, unit(0), unit(1))
    slice_id, own = unit(0).slice.id, [inner(two, 0), inner(two, 1)]
    key = f"toDateTime({int(START.timestamp())}, 'UTC'), 'dc1'"
    # 4 to 7 are the second shard's.
    two.on(1, f"ALTER TABLE {{db}}.passed DELETE WHERE n = 5 AND {HERE} SETTINGS mutations_sync = 2")
    two.on(0, f"INSERT INTO {{db}}.passed SELECT 5, {key}")
    two.on(0, f"ALTER TABLE {{db}}.{own[0]} DELETE WHERE n = 2 AND {HERE} SETTINGS mutations_sync = 2")
    two.on(1, f"INSERT INTO {{db}}.{own[1]} SELECT * FROM {{db}}.{own[1]} WHERE n = 6 AND {HERE}")
    two.on(0, f"INSERT INTO {{db}}.sums SELECT 7, 1, {key}")
    expected = {
        (*place, slice_id)
        for place in (("passed", "s1"), ("passed", "s2"), ("own", "s1"), ("own", "s2"), ("sums", "s1"))
    }
    # The INSERT fires the view of sums, too: its table counts what is there, and not what the lake gives.
    assert told(contents(two, pipeline)) == {*expected, ("chained", "s1", slice_id)}
    assert counted(pipeline) == expected
    two.load(pipeline, unit(0), mode="reload")
    assert (told(contents(two, pipeline)), counted(pipeline)) == (set(), set())
