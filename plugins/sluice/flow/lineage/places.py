"""The names of a pipeline's topics, lake and tables, and what reading about them needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sluice.clients.clickhouse.connect import port_of
from sluice.clients.connections.connection import Connection
from sluice.clients.connections.find import find
from sluice.clients.kafka.settings import settings_of
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.clients.openlineage.values import DatasetName
from sluice.config.pipeline import Pipeline

TopicKey = tuple[str, str]
"""A cluster's name and one of its topics."""


@dataclass(frozen=True)
class Places:
    """`servers` are a table's namespaces: one for each shard, by the first of its replicas. `first` are the
    connections of the first shard."""

    topics: Mapping[TopicKey, DatasetName]
    lake: DatasetName
    servers: tuple[str, ...]
    opened: Lake
    first: tuple[Connection, ...] = ()

    def tables(self, table: str) -> tuple[DatasetName, ...]:
        return tuple(DatasetName(server, table) for server in self.servers)


def places_of(pipeline: Pipeline) -> Places:
    """Looks connections up, so it belongs into the thread of the task. Raises what the look-ups raise."""
    topics = {
        (cluster.cluster, topic): DatasetName(_kafka(settings_of(cluster).bootstrap), topic)
        for cluster in pipeline.kafka
        for topic in cluster.topics
    }
    shards = [tuple(map(find, shard.connections)) for shard in pipeline.clickhouse.parts]
    servers = tuple(_clickhouse(shard[0]) for shard in shards)
    lake = open_lake(pipeline)
    return Places(topics, lake_name(lake.url), servers, lake, shards[0])


def _kafka(bootstrap: str) -> str:
    """Of several brokers the first, as OpenLineage's integrations of Spark and Flink name a cluster."""
    return f"kafka://{bootstrap.split(',')[0].strip()}"


def _clickhouse(connection: Connection) -> str:
    return f"clickhouse://{connection.host}:{port_of(connection)}"


def lake_name(url: str) -> DatasetName:
    """Of the folder of all types, which with date and hour are its Hive partitions."""
    scheme, _, place = url.rstrip("/").partition("://")
    if scheme == "file":
        return DatasetName("file", place)
    bucket, _, prefix = place.partition("/")
    return DatasetName(f"{scheme}://{bucket}", prefix)
