"""Columns that are added to a target on two shards: each has them, of one type, whoever decides first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from local.readiness import free_port
from sluice import crash_points
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Load
from sluice.errors import ShardsRefused, ShardsWait
from sluice.state.additions import read_additions
from tests.integration.landed import event, land, unit
from tests.support.long_form import per_commit
from tests.support.shards_world import Shards, made, point_at, shards

pytestmark = pytest.mark.integration

RECORD = "_partition Int32, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)"
ROWS = "SELECT n, code FROM {db}.clicks ORDER BY n"


@pytest.fixture
def two(clickhouse_servers, tmp_path, name, monkeypatch) -> Shards:
    found = made(tmp_path, name, clickhouse_servers, monkeypatch)
    found.everywhere(f"CREATE TABLE {{db}}.clicks (n UInt16, {RECORD}) ENGINE = MergeTree ORDER BY tuple()")
    return found


def evolving(two: Shards, rows: int = 1) -> Pipeline:
    target = {"table": "clicks", "evolve": "add", "evolve_rows": rows}
    return two.world.pipeline({"click": target}, clickhouse=shards("s1", "s2"))


def types(two: Shards) -> list[list[tuple]]:
    query = "SELECT type FROM system.columns WHERE database = '{db}' AND table = 'clicks' AND name = 'code'"
    return two.everywhere(query)


@contextmanager
def dying_at(monkeypatch: pytest.MonkeyPatch, point: Load) -> Iterator[None]:
    """A load within dies at the point."""

    def reached(here: object) -> None:
        if here is point:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(crash_points, "reached", reached)
        with pytest.raises(KeyboardInterrupt):
            yield


def test_each_shard_gets_the_column_whoever_has_the_rows(two: Shards):
    """All rows with the field lie in partition 0, which is the first shard's."""
    events = [event(n=n, code=n) if n % 2 == 0 else event(n=n) for n in range(6)]
    land(two.world.lake, unit(), events, partitions=2)
    assert two.load(evolving(two, rows=3), unit()).summary()["rows"] == 6
    assert types(two) == [[("Nullable(UInt64)",)]] * 2
    assert two.everywhere(ROWS) == [[(0, 0), (2, 2), (4, 4)], [(1, None), (3, None), (5, None)]]
    [one] = read_additions(two.world.lake)
    assert set(one.shards) == {"s1", "s2"}


def test_a_shard_that_was_away_gets_the_type_of_the_other(two: Shards, monkeypatch):
    """Of the slice that it has to load beside, it alone would choose another type."""
    land(two.world.lake, unit(), [event(n=n, code=n) for n in range(4)], partitions=2)
    point_at(monkeypatch, "s2", free_port())
    with pytest.raises(ShardsWait):
        two.load(evolving(two), unit())
    point_at(monkeypatch, "s2", two.servers[1].port)
    land(two.world.lake, unit(1), [event(n=10 + n, code="x" if n else 7) for n in range(2)], partitions=2)
    assert two.load(evolving(two), unit(), unit(1)).summary()["rejected_rows"] == 1
    assert types(two) == [[("Nullable(UInt64)",)]] * 2
    assert two.everywhere(ROWS) == [[(0, 0), (2, 2), (10, 7)], [(1, 1), (3, 3)]]


@pytest.mark.long
def test_a_column_of_the_other_shard_comes_with_the_next_load(two: Shards, monkeypatch):
    """Its own load has no row with the field: readers of both expect the column all the same."""
    land(two.world.lake, unit(), [event(n=n) for n in range(2)], partitions=2)
    two.load(evolving(two), unit())
    land(two.world.lake, unit(1), [event(n=2, code=2)], partitions=2)
    point_at(monkeypatch, "s2", free_port())
    with pytest.raises(ShardsWait):
        two.load(evolving(two), unit(1))
    assert types(two) == [[("Nullable(UInt64)",)], []]
    point_at(monkeypatch, "s2", two.servers[1].port)
    land(two.world.lake, unit(2), [event(n=4), event(n=5)], partitions=2)
    two.load(evolving(two), unit(2))
    assert types(two) == [[("Nullable(UInt64)",)]] * 2
    two.load(evolving(two), unit(), unit(1), unit(2))
    assert two.everywhere(ROWS) == [[(0, None), (2, 2), (4, None)], [(1, None), (5, None)]]


@pytest.mark.parametrize(
    "point", per_commit([Load.ANNOUNCED, Load.STATEMENT, Load.ALTERED, Load.EVOLVED]), ids=str
)
def test_both_die_and_are_done_by_the_next(two: Shards, point, monkeypatch):
    land(two.world.lake, unit(), [event(n=n, code=n) for n in range(4)], partitions=2)

    with dying_at(monkeypatch, point):
        two.load(evolving(two), unit())
    two.load(evolving(two), unit())
    assert types(two) == [[("Nullable(UInt64)",)]] * 2
    assert two.everywhere(ROWS) == [[(0, 0), (2, 2)], [(1, 1), (3, 3)]]
    [one] = read_additions(two.world.lake)
    assert set(one.shards) == {"s1", "s2"}


@pytest.mark.long
def test_a_column_that_somebody_has_dropped_gets_the_type_of_the_next_values(two: Shards):
    land(two.world.lake, unit(), [event(n=n, code=n) for n in range(4)], partitions=2)
    two.load(evolving(two), unit(), token="one")
    two.everywhere("ALTER TABLE {db}.clicks DROP COLUMN code")
    land(two.world.lake, unit(1), [event(n=10 + n, code=f"x{n}") for n in range(2)], partitions=2)
    assert two.load(evolving(two), unit(1), token="two").summary()["rejected_rows"] == 0
    assert types(two) == [[("Nullable(String)",)]] * 2
    assert two.everywhere(ROWS) == [[(0, None), (2, None), (10, "x0")], [(1, None), (3, None), (11, "x1")]]


@pytest.mark.long
def test_an_announcement_of_a_run_that_died_binds_no_other(two: Shards, monkeypatch):
    """The run that died before its ALTER saw numbers only, and the next one sees a text, too."""
    land(two.world.lake, unit(), [event(n=n, code=n) for n in range(4)], partitions=2)

    with dying_at(monkeypatch, Load.ANNOUNCED):
        two.load(evolving(two), unit(), token="one")
    land(two.world.lake, unit(1), [event(n=10 + n, code=f"x{n}") for n in range(2)], partitions=2)
    assert two.load(evolving(two), unit(), unit(1), token="two").summary()["rejected_rows"] == 0
    assert types(two) == [[("Nullable(String)",)]] * 2
    assert two.everywhere(ROWS) == [[(0, "0"), (2, "2"), (10, "x0")], [(1, "1"), (3, "3"), (11, "x1")]]


@pytest.mark.long
def test_a_column_that_a_run_added_before_it_died_decides_for_the_other_shard(two: Shards, monkeypatch):
    """The first shard has the column, and nobody has noted it; the other alone would choose another type."""
    land(two.world.lake, unit(), [event(n=n, code=n) for n in range(4)], partitions=2)
    point_at(monkeypatch, "s2", free_port())
    with dying_at(monkeypatch, Load.ALTERED):
        two.load(evolving(two), unit(), token="one")
    point_at(monkeypatch, "s2", two.servers[1].port)
    assert types(two) == [[("Nullable(UInt64)",)], []]
    land(two.world.lake, unit(1), [event(n=10 + n, code=f"x{n}" if n else 7) for n in range(2)], partitions=2)
    assert two.load(evolving(two), unit(), unit(1), token="two").summary()["rejected_rows"] == 1
    assert types(two) == [[("Nullable(UInt64)",)]] * 2
    assert two.everywhere(ROWS) == [[(0, 0), (2, 2), (10, 7)], [(1, 1), (3, 3)]]
    [one] = read_additions(two.world.lake)
    assert (set(one.shards), one.run) == ({"s1", "s2"}, "one")


def test_two_runs_at_once_add_one_type(two: Shards, monkeypatch):
    """Each loads another hour on another shard; the second has announced and added its own before the first,
    which saw numbers only, comes to its ALTER."""
    land(two.world.lake, unit(), [event(n=n, code=n) for n in range(4)], partitions=2)
    land(two.world.lake, unit(1), [event(n=10 + n, code=f"x{n}") for n in range(2)], partitions=2)
    waiting = [True]

    def reached(point: object) -> None:
        if point is Load.ANNOUNCED and waiting:
            waiting.clear()
            point_at(monkeypatch, "s1", free_port())
            point_at(monkeypatch, "s2", two.servers[1].port)
            with pytest.raises(ShardsWait):
                two.load(evolving(two), unit(1), token="two")
            point_at(monkeypatch, "s1", two.servers[0].port)

    point_at(monkeypatch, "s2", free_port())
    monkeypatch.setattr(crash_points, "reached", reached)
    with pytest.raises(ShardsWait):
        two.load(evolving(two), unit(), token="one")
    assert types(two) == [[("Nullable(String)",)]] * 2
    assert two.load(evolving(two), unit(), unit(1), token="three").summary()["rejected_rows"] == 0
    assert two.everywhere(ROWS) == [[(0, "0"), (2, "2"), (10, "x0")], [(1, "1"), (3, "3"), (11, "x1")]]


@pytest.mark.long
@pytest.mark.parametrize("by", per_commit(["partition", "n"]))
def test_a_refill_takes_no_row_out_of_any_shard(two: Shards, by: str):
    """By `n` the rejected row would be rejected by another shard than the one whose row it is."""
    pipeline = two.world.pipeline(
        {"click": {"table": "clicks", "evolve": "add", "evolve_rows": 3}},
        clickhouse=shards("s1", "s2", shard_by=by),
    )
    old = [event(n=n, code="x" if n == 1 else n) for n in (1, 0, 3, 2)]  # n = 1 is of partition 0
    for hour, events in enumerate([old[:2], old[2:], [event(n=10 + n, code=n) for n in range(4)]]):
        land(two.world.lake, unit(hour), events, partitions=2)
        two.load(pipeline, unit(hour))
    assert types(two) == [[("Nullable(UInt64)",)]] * 2
    query = "SELECT n, code FROM {db}.clicks WHERE toHour(_slice) = 10 ORDER BY n"
    before = two.everywhere(query)
    assert sorted(row for rows in before for row in rows) == [(0, None), (1, None)]
    with pytest.raises(ShardsRefused, match=r"the value of record \S+ does not fit Nullable"):
        two.load(pipeline, *map(unit, range(3)), mode="reload --missing-columns")
    found = two.everywhere(query)
    assert [[n for n, _ in rows] for rows in found] == [[n for n, _ in rows] for rows in before]
    assert two.everywhere("SELECT count() FROM sluice.rejected WHERE target = '{db}.clicks'") == [[(0,)]] * 2
    filled = two.everywhere("SELECT n, code FROM {db}.clicks WHERE toHour(_slice) = 11 ORDER BY n")
    assert sorted(row for rows in filled for row in rows) == [(2, 2), (3, 3)]
