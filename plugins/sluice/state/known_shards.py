"""Remembers in the lake which shards a pipeline has written to: one that has left may still hold rows."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake, StoredObject
from sluice.config.clickhouse import ClickHouse

ShardsByTarget = Mapping[str, tuple[str, ...]]
"""Ids of connections, by the shard's name."""


def remember(lake: Lake, clickhouse: ClickHouse) -> None:
    """Adds the pipeline file's shards; repeatable, and safe beside others. Raises Unavailable."""
    mine = {shard.name: shard.connections for shard in clickhouse.shards}
    while mine:
        stored = lake.read(layout.SHARDS)
        known = _decoded(stored)
        wanted = {name: tuple(dict.fromkeys((*known.get(name, ()), *ids))) for name, ids in mine.items()}
        if {**known, **wanted} == known or _write(lake, stored, {**known, **wanted}):
            return


def left(lake: Lake, clickhouse: ClickHouse) -> dict[str, tuple[str, ...]]:
    """Returns the connections of earlier shards that the pipeline file does not use any more, by the shard's
    name."""
    used = {connection for shard in clickhouse.parts for connection in shard.connections}
    gone = {
        name: tuple(c for c in ids if c not in used)
        for name, ids in _decoded(lake.read(layout.SHARDS)).items()
    }
    return {name: ids for name, ids in gone.items() if ids}


def _decoded(stored: StoredObject | None) -> dict[str, tuple[str, ...]]:
    return {} if stored is None else {name: tuple(ids) for name, ids in json.loads(stored.data).items()}


def _write(lake: Lake, stored: StoredObject | None, known: ShardsByTarget) -> bool:
    data = json.dumps(known, sort_keys=True).encode()
    if stored is None:
        return lake.create(layout.SHARDS, data)
    return lake.replace(layout.SHARDS, data, stored.version)
