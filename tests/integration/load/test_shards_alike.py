"""Two shards whose tables differ: refused before anything is changed, or every record is in one place."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from local.readiness import free_port
from sluice.config.pipeline import Pipeline
from sluice.doctor.check import Level
from sluice.doctor.examine import Examination
from sluice.errors import ShardsWait, TargetRefused
from sluice.flow.steps import check_targets
from sluice.slices import SliceRange
from tests.integration.landed import START, event, land, unit
from tests.support.long_form import per_commit
from tests.support.shards_world import Shards, made, point_at, shards

pytestmark = pytest.mark.integration

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
RECORD = f"n UInt16, _topic String, _partition Int32, _offset Int64, {KEYS}"
BY_TEXT = "cityHash64(toString(id))"
HOUR = SliceRange(START, START.add(hours=1))
# Each of them is another text, or another number, or fits only one of the two types.
IDS: list[Any] = ["007", "7", 7, "x", "42", "042", 70000, -1, "", None, 1.5, "abc", "1e2", 100, "100", 8]


@pytest.fixture
def two(clickhouse_servers, tmp_path, name, monkeypatch) -> Shards:
    return made(tmp_path, name, clickhouse_servers, monkeypatch)


def make(two: Shards, *columns: str) -> None:
    """Makes the table with the first of the columns on s1, and the last on s2."""
    for number, own in enumerate((columns[0], columns[-1])):
        two.on(number, f"CREATE TABLE {{db}}.clicks ({own}, {RECORD}) ENGINE = MergeTree ORDER BY n")


def pipeline_of(two: Shards, by: str = BY_TEXT, **target: Any) -> Pipeline:
    return two.world.pipeline(
        {"click": {"table": "clicks", **target}}, clickhouse=shards("s1", "s2", shard_by=by)
    )


def landed(two: Shards, ids: list[Any] = IDS, hour: int = 0) -> None:
    land(two.world.lake, unit(hour), [event(n=n, id=one) for n, one in enumerate(ids)], partitions=2)


def places(two: Shards, hour: int = 0) -> Counter[tuple[int, int]]:
    """How often each record, by partition and offset, is a row or a rejected row on some shard."""
    start = int(unit(hour).slice.start.timestamp())
    rows = f"SELECT _partition, _offset FROM {{db}}.clicks WHERE _slice = toDateTime({start}, 'UTC')"
    rejected_rows = (
        "SELECT partition, offset FROM sluice.rejected "
        f"WHERE target = '{{db}}.clicks' AND slice = toDateTime({start}, 'UTC')"
    )
    there = two.everywhere(
        "SELECT count() FROM system.tables WHERE database = 'sluice' AND name = 'rejected'"
    )
    found = [*two.everywhere(rows), *(two.everywhere(rejected_rows) if there == [[(1,)]] * 2 else [])]
    return Counter((int(p), int(o)) for shard in found for p, o in shard)


def once(count: int) -> Counter[tuple[int, int]]:
    return Counter({(n % 2, n // 2): 1 for n in range(count)})


DIFFERENT = {
    "type": ("id String", "id UInt32", "id is UInt32 on s2 and String on s1"),
    "nullability": ("id Nullable(String)", "id String", r"id is String on s2 and Nullable\(String\) on s1"),
    "default": ("id String DEFAULT 'a'", "id String DEFAULT 'b'", "id is String DEFAULT 'b' on s2 and"),
    "no default": ("id String", "id String DEFAULT 'b'", "id is String DEFAULT 'b' on s2 and String on s1"),
    "kind": ("id String, b String DEFAULT id", "id String, b String MATERIALIZED id", "b is String MAT"),
    "lacking": ("id String, code UInt8", "id String", "code is missing on s2 and UInt8 on s1"),
    "type, no default": ("id String", "id UInt32 DEFAULT 3", "id is UInt32 DEFAULT 3 on s2"),
    "ephemeral": (
        "id String DEFAULT raw, raw String EPHEMERAL 'a'",
        "id String DEFAULT raw, raw String EPHEMERAL 'b'",
        "raw is String EPHEMERAL 'b' on s2",
    ),
}


@pytest.mark.parametrize("case", per_commit(list(DIFFERENT)))
def test_tables_that_differ_are_refused_and_the_remedy_makes_them_alike(two: Shards, case: str):
    first, second, words = DIFFERENT[case]
    make(two, first, second)
    landed(two)
    pipeline = pipeline_of(two)
    with pytest.raises(TargetRefused, match=words) as raised:
        two.load(pipeline, unit())
    assert "\n" not in str(raised.value)
    assert places(two) == Counter()
    with pytest.raises(TargetRefused, match=words):
        check_targets(pipeline)
    failed = {c.finding: c.remedy for c in doctor(two, pipeline) if c.level is Level.FAIL}
    assert failed[raised.value.reason] == raised.value.remedy
    for statement in raised.value.remedy.partition("on s2: ")[2].split("; "):
        two.on(1, statement)
    two.load(pipeline, unit())
    assert places(two) == once(len(IDS))


def doctor(two: Shards, pipeline: Pipeline) -> list[Any]:
    return list(Examination(pipeline, two.world.root / "x.yaml", HOUR, 0).servers())


def test_one_that_differs_of_an_hour_that_is_loaded_leaves_the_hour_as_it_is(two: Shards):
    make(two, "id String")
    landed(two)
    pipeline = pipeline_of(two)
    two.load(pipeline, unit())
    before = places(two)
    two.on(1, "ALTER TABLE {db}.clicks MODIFY COLUMN id Nullable(String)")
    for mode in ("reload", "repair"):
        with pytest.raises(TargetRefused, match="id is Nullable"):
            two.load(pipeline, unit(), mode=mode)
    assert places(two) == before == once(len(IDS))


def test_a_column_that_one_shard_has_lost_comes_back_as_the_others_have_it(two: Shards):
    """By the values of its own load alone, it would be a text."""
    make(two, "id String")
    pipeline = pipeline_of(two, by="cityHash64(n)", evolve="add", evolve_rows=1)
    land(two.world.lake, unit(), [event(n=n, code=n) for n in range(8)], partitions=2)
    two.load(pipeline, unit(), token="one")
    two.on(0, "ALTER TABLE {db}.clicks DROP COLUMN code")
    land(two.world.lake, unit(1), [event(n=n, code=f"x{n}") for n in range(8)], partitions=2)
    two.load(pipeline, unit(1), token="two")
    kinds = "SELECT type FROM system.columns WHERE database = '{db}' AND table = 'clicks' AND name = 'code'"
    assert two.everywhere(kinds) == [[("Nullable(UInt64)",)]] * 2
    assert places(two, 1) == once(8)
    two.load(pipeline, unit(), mode="repair")
    assert places(two) == once(8)


def test_a_column_that_one_shard_has_lost_while_the_other_is_away(two: Shards, monkeypatch):
    make(two, "id String")
    pipeline = pipeline_of(two, by="cityHash64(n)", evolve="add", evolve_rows=1)
    land(two.world.lake, unit(), [event(n=n, code=n) for n in range(8)], partitions=2)
    two.load(pipeline, unit(), token="one")
    two.on(0, "ALTER TABLE {db}.clicks DROP COLUMN code")
    land(two.world.lake, unit(1), [event(n=n, code=f"x{n}") for n in range(8)], partitions=2)
    point_at(monkeypatch, "s2", free_port())
    with pytest.raises(ShardsWait):
        two.load(pipeline, unit(1), token="two")
    point_at(monkeypatch, "s2", two.servers[1].port)
    two.load(pipeline, unit(1), token="three")
    assert places(two, 1) == once(8)


@pytest.mark.parametrize("changed", per_commit(["type", "default", "required"]))
def test_a_shard_that_was_away_makes_its_part_as_the_other_has(two: Shards, changed: str, monkeypatch):
    """What has changed meanwhile, on both of them, would make a rejected row of the first a row on the
    second."""
    make(two, "id Nullable(UInt8)" if changed == "type" else "id String DEFAULT concat('a', toString(n))")
    ids = [None if n % 3 else str(n * 50) for n in range(40)]
    landed(two, ids)
    pipeline = pipeline_of(two)
    point_at(monkeypatch, "s2", free_port())
    with pytest.raises(ShardsWait):
        two.load(pipeline, unit())
    point_at(monkeypatch, "s2", two.servers[1].port)
    if changed == "type":
        two.everywhere("ALTER TABLE {db}.clicks MODIFY COLUMN id Nullable(UInt16)")
    elif changed == "default":
        two.everywhere("ALTER TABLE {db}.clicks MODIFY COLUMN id String DEFAULT concat('b', toString(n))")
    else:
        pipeline = pipeline_of(two, missing={"id": "reject"})
    two.load(pipeline, unit())
    assert places(two) == once(len(ids))
    two.load(pipeline, unit(), mode="reload")
    assert places(two) == once(len(ids))
