"""Two servers as shards of one pipeline, over a lake as the landing leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from local.services import ClickHouseServer
from sluice.clients.clickhouse.client import Client
from sluice.config.pipeline import Pipeline
from sluice.flow.load.shards import load_shards
from sluice.flow.load.work import LoadResult
from sluice.slices import Unit
from tests.integration.landed import World, client_of
from tests.support.clickhouse_at import at

NAMES = ("s1", "s2")


def connection(shard: str) -> str:
    return f"shard_{shard}"


def shards(*names: str, **more: Any) -> dict[str, Any]:
    """The pipeline file's `clickhouse` with these shards."""
    return {"shards": [{"name": name, "connection": connection(name)} for name in names], **more}


@dataclass(frozen=True)
class Shards:
    """`world` has the lake and the first server; its SQL runs on every server by `everywhere`."""

    world: World
    servers: Sequence[ClickHouseServer]
    clients: Sequence[Client]

    def everywhere(self, text: str) -> list[list[tuple]]:
        """What each server answers, in order."""
        return [self.on(number, text) for number in range(len(self.clients))]

    def on(self, number: int, text: str) -> list[tuple]:
        world = World(self.world.root, self.clients[number], self.world.database)
        return world.sql(text)

    def load(self, pipeline: Pipeline, *units: Unit, **options: Any) -> LoadResult:
        target = pipeline.targets[0]
        return load_shards(pipeline, target, units, self.world.lake, **{"mode": "fill", **options})


def point_at(patch: pytest.MonkeyPatch, shard: str, port: int) -> None:
    """Makes a shard's connection lead to a port of this machine."""
    patch.setenv(f"AIRFLOW_CONN_{connection(shard).upper()}", at(port).variable)


def made(root: Any, database: str, servers: Sequence[ClickHouseServer], patch: pytest.MonkeyPatch) -> Shards:
    """The shards s1, s2 … on the servers, each with the database."""
    clients = [client_of(server) for server in servers]
    for number, server in enumerate(servers, start=1):
        point_at(patch, f"s{number}", server.port)
    found = Shards(World(root, clients[0], database), servers, clients)
    found.everywhere("CREATE DATABASE {db} ENGINE = Atomic")
    return found
