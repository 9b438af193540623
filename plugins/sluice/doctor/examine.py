"""Runs all checks of what a pipeline needs, in the order in which the data flows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import pendulum

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.connections import find as connections
from sluice.clients.kafka.samples import newest
from sluice.clients.kafka.topic_facts import TopicInquiry, open_inquiry
from sluice.clients.lake.open import open_lake
from sluice.clients.lake.own_folder import check_above
from sluice.config.clickhouse import Shard
from sluice.config.kafka import Cluster
from sluice.config.pipeline import Pipeline, Target
from sluice.doctor.channels import channel_checks
from sluice.doctor.check import Area, Check, guarded, ok
from sluice.doctor.clickhouse import clickhouse_checks
from sluice.doctor.columns import fit_checks, sample_checks
from sluice.doctor.events import EventSample, format_checks, joined, masked, parse
from sluice.doctor.kafka import boundary_checks, topic_checks
from sluice.doctor.lake import lake_checks
from sluice.doctor.misfits import misfit_checks
from sluice.doctor.missing_table import missing
from sluice.doctor.pools import pool_checks
from sluice.doctor.spark import spark_checks
from sluice.errors import SluiceError, TableMissing
from sluice.flow.land.task.decoding import decoding_of
from sluice.flow.load.target_checks import inspect_target
from sluice.mask.mask_rules import mask_rules, said_by
from sluice.slices import SliceRange
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries
from sluice.state.shard_ledgers import check_different


@dataclass(frozen=True)
class Examination:
    """`slices` is the range to be filled, `sample` how many of the newest records of each partition are
    inspected. A server that does not answer is a failed check; the other checks are made nevertheless."""

    pipeline: Pipeline
    config: Path
    slices: SliceRange
    sample: int

    def checks(self) -> Iterator[Check]:
        """Yields every check, as soon as it is made."""
        for cluster in self.pipeline.kafka:
            yield from guarded(Area.KAFKA, cluster.cluster, partial(self._cluster, cluster))
        yield from guarded(Area.LAKE, self.pipeline.lake, self._lake)
        spark = partial(spark_checks, self.pipeline, self.config, self.slices)
        yield from guarded(Area.SPARK, self.pipeline.spark_connection, spark)
        yield from self.servers()
        if self.pipeline.event.format.decoded:
            yield from guarded(Area.SCHEMA, "format", partial(format_checks, self.pipeline.event))
        if self.pipeline.mask:
            yield from guarded(Area.SCHEMA, "mask", self._mask)
        yield from guarded(Area.SCHEMA, "sample", self._schema)
        for channel in (*self.pipeline.alarms.notify, *self.pipeline.airflow.on_failure):
            yield from guarded(Area.ALARMS, channel.name, partial(channel_checks, channel))
        yield from guarded(Area.AIRFLOW, "pools", partial(pool_checks, self.pipeline))

    def servers(self) -> Iterator[Check]:
        """Yields those of ClickHouse: every shard and replica by itself, then the shards together."""
        for shard in self.pipeline.clickhouse.parts:
            for conn_id in shard.connections:
                place = f"shard {shard.name}, {conn_id}" if shard.name else conn_id
                yield from guarded(Area.CLICKHOUSE, place, partial(self._clickhouse, shard, conn_id))
        if self.pipeline.clickhouse.shards:
            yield from guarded(Area.CLICKHOUSE, "shards", self._shards)

    def _lake(self) -> Iterator[Check]:
        """Raises LakeTaken."""
        lake = open_lake(self.pipeline)
        check_above(self.pipeline, lake)
        yield from lake_checks(lake)

    def _cluster(self, cluster: Cluster) -> Iterator[Check]:
        with open_inquiry(cluster) as inquiry:
            yield ok(Area.KAFKA, cluster.cluster, f"{inquiry.brokers()} brokers answer")
            for topic in cluster.topics:
                place = f"{cluster.cluster}/{topic}"
                yield from guarded(Area.KAFKA, place, partial(self._topic, inquiry, topic))

    def _topic(self, inquiry: TopicInquiry, topic: str) -> Iterator[Check]:
        facts = inquiry.facts(topic)
        yield from topic_checks(self.pipeline, facts, self.slices.start, pendulum.now("UTC"))
        yield from boundary_checks(self.pipeline, facts, self._boundaries)

    @cached_property
    def _boundaries(self) -> Boundaries:
        """Empty where the lake cannot be read: its own check says so."""
        try:
            return BoundaryLog(open_lake(self.pipeline)).read()
        except SluiceError:
            return Boundaries()

    def _clickhouse(self, shard: Shard, conn_id: str) -> Iterator[Check]:
        with closing(open_client(connections.find(conn_id))) as client:
            if shard.name:
                yield ok(Area.CLICKHOUSE, client.address, f"shard {shard.name}, connection {conn_id}")
            yield from clickhouse_checks(client, self.pipeline, open_lake(self.pipeline).url)

    def _shards(self) -> Iterator[Check]:
        with connect_shards(self.pipeline) as servers:
            for target in self.pipeline.targets:
                check_different(servers, target)
        places = {t.table: self.pipeline.clickhouse.placed_by(t.table) for t in self.pipeline.targets}
        placements = "; ".join(f"{name} by {by}" for name, by in places.items())
        yield ok(Area.CLICKHOUSE, "shards", f"{len(servers)} different servers; {placements}")

    @cached_property
    def _sampled(self) -> EventSample | SluiceError:
        """The sample, or why there is none; Kafka is read once."""
        try:
            return sampled(self.pipeline, self.sample)
        except SluiceError as error:
            return error

    def _mask(self) -> Iterator[Check]:
        """Raises WrongUse for a key that is missing."""
        mask_rules(self.pipeline)
        yield ok(Area.SCHEMA, "mask", "; ".join(f"{k}: {v}" for k, v in said_by(self.pipeline).items()))

    def _schema(self) -> Iterator[Check]:
        sample = self._sampled
        if isinstance(sample, SluiceError):
            raise sample
        yield from sample_checks(self.pipeline, sample, pendulum.now("UTC"))
        with connect_shards(self.pipeline) as servers:
            client = next(server.client for server in servers if server.client)
            for target in self.pipeline.targets:
                place = f"table {target.table}"
                yield from guarded(Area.SCHEMA, place, partial(self._table, client, target, sample))

    def _table(self, client: Client, target: Target, sample: EventSample) -> Iterator[Check]:
        types = set(self.pipeline.routed(target, sample.types()))
        events = [item for item in sample.events if item.type in types]
        if not events:
            yield ok(Area.SCHEMA, f"table {target.table}", "no event of the sample goes there")
            return
        try:
            target_table, filling = inspect_target(client, self.pipeline, target)
        except TableMissing as error:
            place = f"table {target.table}"
            yield missing(client, target, error, Area.SCHEMA, place)
            return
        yield from fit_checks(self.pipeline, target, target_table.columns, [item.event for item in events])
        yield from misfit_checks(client, target.table, filling, events)


def sampled(pipeline: Pipeline, count: int) -> EventSample:
    """Returns the newest events of every topic that answers, as they would land: masked. Raises
    KafkaUnavailable when none does."""
    samples: list[EventSample] = []
    silent: list[SluiceError] = []
    decoding, mask = decoding_of(pipeline.event), mask_rules(pipeline)
    for cluster in pipeline.kafka:
        for topic in cluster.topics:
            try:
                records = newest(cluster, topic, count, pipeline.max_record)
                samples.append(masked(parse(pipeline.event, records, decoding), mask))
            except SluiceError as error:  # its own check has said so
                silent.append(error)
    if silent and not samples:
        raise silent[0]
    return joined(samples)
