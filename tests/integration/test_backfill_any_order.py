"""Backfills of any range in any order and mode, again and again: every event is there, and none twice.

Kafka and Spark are in this process (tests/support/landing_world.py), lake and ClickHouse are real.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.flow.load.load import load
from sluice.slices import SliceRange
from sluice.state.manifests import read_manifests
from sluice.state.units import units_of
from tests.integration.landed import client_of
from tests.support.landing_world import World, event, hours, pipeline, rows_in
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

HOURS, PARTITIONS, OPERATIONS = 36, 3, 8
SYSTEM = "_slice DateTime('UTC'), _cluster LowCardinality(String), _type String"


def make_events(seed: int) -> World:
    """Records in the order of their arrival; some happened hours before, and some hours have none."""
    chance = random.Random(seed)
    logs: list[list[tuple[bytes, int]]] = [[] for _ in range(PARTITIONS)]
    for number in range(400):
        minute = number * HOURS * 60 / 400
        if int(minute / 60) % 7 == 3:
            continue
        late = chance.choice((0, 0, 0, 200, 900))
        value, _ = event(chance.choice("abc"), minute - late, id=number)
        _, recorded = event("a", minute)
        logs[chance.randrange(PARTITIONS)].append((value, recorded))
    return World({("dc1", "bids"): logs})


class Backfilled:
    def __init__(self, folder: Path, server, name: str, seed: int) -> None:
        self.world = make_events(seed)
        self.lake = FolderLake(folder / "demo")
        self.client = client_of(server)
        self.client.run(f"CREATE DATABASE {name}")
        for table, order in (("a", "PARTITION BY toDate(_slice) ORDER BY id"), ("rest", "ORDER BY _slice")):
            self.client.run(f"CREATE TABLE {name}.{table} (id String, {SYSTEM}) ENGINE = MergeTree {order}")
        self.pipeline = pipeline(
            lake=f"file://{folder}", tables={"a": f"{name}.a", "*": f"{name}.rest"}, max_early="2h"
        )
        self.name = name

    def run(self, slices: SliceRange, mode: str, token: str) -> None:
        self.world.resolve(self.pipeline, self.lake, slices)
        self.world.land(self.pipeline, self.lake, slices, mode=mode, token=token)
        for target in self.pipeline.targets:
            units = units_of(self.pipeline, slices)
            load(self.pipeline, target, units, self.lake, self.client, mode=mode, token=token)

    def published(self, slices: SliceRange) -> list[str]:
        """Ids of the records of those hours, by the records' own times."""
        first, last = (edge.timestamp() * 1000 for edge in (slices.start, slices.end))
        every = (pair for log in self.world.logs["dc1", "bids"] for pair in log)
        return sorted(value.split(b'"')[-2].decode() for value, at in every if first <= at < last)

    def loaded(self) -> list[str]:
        both = f"SELECT id FROM {self.name}.a UNION ALL SELECT id FROM {self.name}.rest"
        return sorted(row[0] for row in self.client.rows(both))


@pytest.mark.parametrize("seed", per_commit([1, 2]))
def test_ranges_in_any_order_and_mode(tmp_path, clickhouse_server, name, seed):
    there = Backfilled(tmp_path, clickhouse_server, name, seed)
    chance = random.Random(seed)
    done: set[int] = set()
    for number in range(OPERATIONS):
        first = chance.randrange(HOURS)
        count = chance.randint(1, HOURS - first)
        mode = chance.choice(("fill", "fill", "reload", "reland"))
        there.run(hours(count, first), mode, f"token{number}")
        done |= set(range(first, first + count))
        expected = [i for hour in sorted(done) for i in there.published(hours(1, hour))]
        assert there.loaded() == sorted(expected), (number, first, count, mode)
    there.run(hours(HOURS), "fill", "last")
    assert there.loaded() == there.published(hours(HOURS))
    again = there.world.land(there.pipeline, there.lake, hours(HOURS), token="none")
    assert again.summary()["landed"] == 0


@pytest.mark.long
def test_hour_by_hour_backwards_is_the_same_as_one_batch(tmp_path, clickhouse_server, name):
    backwards = Backfilled(tmp_path / "backwards", clickhouse_server, f"{name}_b", seed=5)
    for hour in reversed(range(12, 18)):
        backwards.run(hours(1, hour), "fill", "t")
    at_once = Backfilled(tmp_path / "at_once", clickhouse_server, f"{name}_o", seed=5)
    at_once.run(hours(6, 12), "fill", "t")
    assert backwards.loaded() == at_once.loaded() == at_once.published(hours(6, 12))
    slices = hours(6, 12)
    assert rows_of(backwards, slices) == rows_of(at_once, slices)


def rows_of(there: Backfilled, slices: SliceRange) -> list[tuple]:
    return rows_in(there.lake, list(read_manifests(there.lake, units_of(there.pipeline, slices)).values()))
