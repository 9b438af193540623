"""Stores in the lake which shards a pipeline has written to: a removed one may still hold rows."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake, StoredObject
from sluice.config.clickhouse import ClickHouse
from sluice.stored_json import decode_stored

ShardsByTarget = Mapping[str, tuple[str, ...]]
"""Ids of connections, by the shard's name."""
_DECODER = msgspec.json.Decoder(dict[str, tuple[str, ...]])


def remember(lake: Lake, clickhouse: ClickHouse) -> None:
    """Adds the pipeline file's shards; repeatable, and safe beside others. Raises Unavailable."""
    shards = {shard.name: shard.connections for shard in clickhouse.shards}
    while shards:
        stored = lake.read(layout.SHARDS)
        remembered = _decoded(lake, stored)
        extended = {
            name: tuple(dict.fromkeys((*remembered.get(name, ()), *ids))) for name, ids in shards.items()
        }
        if {**remembered, **extended} == remembered or _write(lake, stored, {**remembered, **extended}):
            return


def left(lake: Lake, clickhouse: ClickHouse) -> dict[str, tuple[str, ...]]:
    """Returns the connections of earlier shards that the pipeline file does not use any more, by the shard's
    name."""
    used = {connection for shard in clickhouse.parts for connection in shard.connections}
    gone = {
        name: tuple(c for c in ids if c not in used)
        for name, ids in _decoded(lake, lake.read(layout.SHARDS)).items()
    }
    return {name: ids for name, ids in gone.items() if ids}


def _decoded(lake: Lake, stored: StoredObject | None) -> dict[str, tuple[str, ...]]:
    if stored is None:
        return {}
    place = f"{lake.url}/{layout.SHARDS}"
    return decode_stored(
        _DECODER,
        stored.data,
        lambda error: (
            f"{place} does not say which shards were written to ({error}): restore it from a copy, or delete "
            "it: `verify` does not inspect shards then that left the pipeline file before"
        ),
    )


def _write(lake: Lake, stored: StoredObject | None, shards: ShardsByTarget) -> bool:
    data = json.dumps(shards, sort_keys=True).encode()
    if stored is None:
        return lake.create(layout.SHARDS, data)
    return lake.replace(layout.SHARDS, data, stored.version)
