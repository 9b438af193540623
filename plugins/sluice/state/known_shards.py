"""Stores in the lake which shards a pipeline has written to: a removed one may still hold rows."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec

from sluice.clients.clickhouse.shards import Servers
from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.config.clickhouse import ClickHouse
from sluice.state.server_identity import identify_server
from sluice.state.update_object import update_object
from sluice.stored_json import decode_stored

Known = Mapping[str, tuple[str, ...]]
"""Ids of connections, by the shard's name; UUIDs of servers, by the id of the connection."""
_DECODER = msgspec.json.Decoder(dict[str, tuple[str, ...]])


def remember(lake: Lake, clickhouse: ClickHouse, servers: Servers = ()) -> None:
    """Adds the pipeline file's shards, and which servers they are; repeatable, and safe beside others. Raises
    Unavailable."""
    if not clickhouse.shards:
        return
    _extend(lake, layout.SHARDS, {shard.name: shard.connections for shard in clickhouse.shards})
    # Of replicas it is not known which one has answered.
    answering = [server for server in servers if server.client and server.shard.connection]
    ids = {str(server.shard.connection): (identify_server(server.reached),) for server in answering}
    if ids:
        _extend(lake, layout.SERVERS, ids)


def left(lake: Lake, clickhouse: ClickHouse) -> dict[str, tuple[str, ...]]:
    """Returns the connections of earlier shards that the pipeline file does not use any more, by the shard's
    name."""
    used = {connection for shard in clickhouse.parts for connection in shard.connections}
    gone = {name: tuple(c for c in ids if c not in used) for name, ids in _read(lake, layout.SHARDS).items()}
    return {name: ids for name, ids in gone.items() if ids}


def servers_of(lake: Lake, connection: str) -> set[str]:
    """Returns the UUIDs of the servers that a shard's connection has led to."""
    return set(_read(lake, layout.SERVERS).get(connection, ()))


def _extend(lake: Lake, key: str, more: Known) -> None:
    def extended(data: bytes | None) -> bytes:
        known = _decoded(lake, key, data)
        merged = {name: tuple(dict.fromkeys((*known.get(name, ()), *ids))) for name, ids in more.items()}
        return json.dumps({**known, **merged}, sort_keys=True).encode()

    update_object(lake, key, extended)


def _read(lake: Lake, key: str) -> dict[str, tuple[str, ...]]:
    stored = lake.read(key)
    return _decoded(lake, key, None if stored is None else stored.data)


def _decoded(lake: Lake, key: str, data: bytes | None) -> dict[str, tuple[str, ...]]:
    if data is None:
        return {}
    place = f"{lake.url}/{key}"
    return decode_stored(
        _DECODER,
        data,
        lambda error: (
            f"{place} does not say which shards were written to ({error}): restore it from a copy, or delete "
            "it: `verify` does not inspect shards then that left the pipeline file before"
        ),
    )
