"""A pipeline whose hours are backfilled range by range, and the records that have to be there then.

Kafka and Spark are in this process (tests/support/landing_world.py), lake and ClickHouse are real.
"""

from __future__ import annotations

import random
from pathlib import Path

from sluice.clients.lake.folder import FolderLake
from sluice.flow.load.load import load
from sluice.slices import SliceRange
from sluice.state.units import units_of
from tests.integration.landed import client_of
from tests.support.landing_world import World, event, pipeline

HOURS, PARTITIONS = 36, 3
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

    def loaded(self) -> list[str]:
        both = f"SELECT id FROM {self.name}.a UNION ALL SELECT id FROM {self.name}.rest"
        return sorted(row[0] for row in self.client.rows(both))
