"""A lake as the landing leaves it, written with pyarrow: what the tests of the load start from."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pendulum
import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.connections import Connection
from sluice.clients.lake import layout
from sluice.clients.lake.folder import FolderLake
from sluice.config.pipeline import Pipeline
from sluice.flow.load.load import load
from sluice.flow.load.work import LoadResult
from sluice.manifest import LandedFile, Manifest, OffsetRange, PartitionCount, encode
from sluice.slices import Slice, Unit
from tests.support.clickhouse_at import at
from tests.support.manifests import made_manifest

START = pendulum.datetime(2026, 11, 20, 10)


def unit(hours: int = 0, cluster: str = "dc1") -> Unit:
    return Unit(Slice(START.add(hours=hours)), cluster)


def client_of(server: Any) -> Client:
    """Of a server, or of anything whose `port` leads to one of this session's."""
    place = server.at if hasattr(server, "at") else at(server.port)
    return open_client(Connection("clickhouse_test", **place.place))


@dataclass(frozen=True)
class Event:
    """One record: its type, and its payload's text. `overflow`: it lies in the folder of many types."""

    type: str
    payload: str
    hour: str = "2026-11-20T10"
    overflow: bool = False


def event(kind: str = "click", /, **fields: Any) -> Event:
    return Event(kind, json.dumps({"type": kind, **fields}))


def land(
    lake: FolderLake,
    place: Unit,
    events: list[Event],
    generation: int = 1,
    partitions: int = 1,
    offsets: Sequence[int] = (),
) -> Manifest:
    """Writes one unit's files and its manifest over any older one. The events go to the partitions in turn,
    and their offsets are their places there, or in one partition those of `offsets`."""
    at = offsets or range(len(events))
    folders: dict[tuple[str | None, str], list[int]] = defaultdict(list)
    for number, item in enumerate(events):
        folders[(None if item.overflow else item.type, item.hour)].append(number)
    files = tuple(
        _write(lake, place, generation, number, kind, hour, [(at[n], events[n]) for n in found], partitions)
        for number, ((kind, hour), found) in enumerate(folders.items())
    )
    manifest = made_manifest(
        pipeline=lake.pipeline,
        slice=place.slice.id,
        cluster=place.cluster,
        generation=generation,
        attempt=uuid.uuid4().hex,
        ranges=tuple(
            OffsetRange("events", "u", p, 0, len(range(p, len(events), partitions)))
            for p in range(partitions)
        ),
        files=files,
        rejected=(),
        read=len(events),
        rejected_records={},
        gaps=0,
        counts=tuple(
            PartitionCount("events", p, len(range(p, len(events), partitions)), 0) for p in range(partitions)
        ),
        long_numbers=True,
    )
    lake.put(layout.manifest(place.slice.id, place.cluster), encode(manifest))
    return manifest


def _write(lake, place, generation, number, kind, hour, rows, partitions) -> LandedFile:
    folder = layout.event_folder(kind, hour)
    key = layout.data_file(folder, place.slice.id, place.cluster, generation, number)
    types = [item.type for _, item in rows]
    table = pa.table(
        {
            "_payload": pa.array([item.payload for _, item in rows], pa.string()),
            "_type": pa.array(types).dictionary_encode(),
            "_cluster": pa.array([place.cluster] * len(rows)).dictionary_encode(),
            "_topic": pa.array(["events"] * len(rows)).dictionary_encode(),
            "_partition": pa.array([o % partitions for o, _ in rows], pa.int32()),
            "_offset": pa.array([o // partitions for o, _ in rows], pa.int64()),
            "_timestamp": pa.array([place.slice.start] * len(rows), pa.timestamp("ms", "UTC")),
            "_key": pa.array([None if o % 2 else b"k%d" % o for o, _ in rows], pa.binary()),
        }
    )
    table = table.append_column("_event_time", table["_timestamp"])
    begun = lake.begin(key)
    pq.write_table(table, begun.path, compression="zstd")
    data = begun.path.read_bytes()
    lake.finish(key, begun)
    by_type = {name: types.count(name) for name in set(types)}
    moved = f"{layout.attempt(place.slice.id, 'a')}{generation}-{number}.parquet"
    sha, by_type = hashlib.sha256(data).hexdigest(), {} if kind else by_type
    return LandedFile(key, moved, kind, hour, len(rows), len(data), sha, by_type)


@dataclass(frozen=True)
class World:
    """A lake folder, a server, and a database of the test's own."""

    root: Path
    client: Client
    database: str

    @property
    def lake(self) -> FolderLake:
        return FolderLake(self.root / "p")

    def with_root(self, root: Path) -> World:
        return replace(self, root=root)

    def pipeline(self, tables: dict[str, Any], **more: Any) -> Pipeline:
        named = {kind: {**(t if isinstance(t, dict) else {"table": t})} for kind, t in tables.items()}
        for target in named.values():
            target["table"] = f"{self.database}.{target['table']}"
        return Pipeline.model_validate(
            {
                "name": "p",
                "kafka": [{"cluster": "dc1", "bootstrap": "x:1", "topics": ["events"]}],
                "event": {"type": {"field": "type"}, "time": {"record": True}},
                "lake": f"file://{self.root}",
                "tables": named,
                **more,
            }
        )

    def load(self, pipeline: Pipeline, *units: Unit, table: str | None = None, **options: Any) -> LoadResult:
        name = f"{self.database}.{table}" if table else pipeline.targets[0].table
        target = next(t for t in pipeline.targets if t.table == name)
        return load(pipeline, target, units, self.lake, self.client, **{"mode": "fill", **options})

    def sql(self, text: str) -> list[tuple]:
        """Runs SQL with `{db}` replaced; a SELECT's rows."""
        text = text.replace("{db}", self.database)
        if text.lstrip().upper().startswith(("SELECT", "WITH", "SHOW")):
            return [tuple(row) for row in self.client.rows(text)]
        self.client.run(text)
        return []
