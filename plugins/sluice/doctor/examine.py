"""Runs all checks of what a pipeline needs, in the order in which the data flows."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shlex import quote

import pendulum

from sluice.clients import connections
from sluice.clients.airflow_rest.session import named_access
from sluice.clients.clickhouse.client import STEADY, Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.shards import Servers, connect_shards
from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, render
from sluice.clients.kafka.topic_facts import TopicInquiry, open_inquiry
from sluice.clients.kafka.topics import newest
from sluice.clients.lake.base import Lake
from sluice.clients.lake.layout import PROBES
from sluice.clients.lake.open import check_above, delete_own, open_lake
from sluice.config.airflow import Channel
from sluice.config.clickhouse import BY_PARTITION, Shard
from sluice.config.pipeline import Cluster, Pipeline, Target
from sluice.doctor.check import Area, Check, Level, fail, guarded, ok, warn
from sluice.doctor.clickhouse import clickhouse_checks, missing
from sluice.doctor.events import (
    EventSample,
    Sampled,
    fit_checks,
    format_checks,
    joined,
    masked,
    parse,
    sample_checks,
    time_checks,
)
from sluice.doctor.kafka import boundary_checks, matching_check, topic_checks
from sluice.errors import SluiceError, TableMissing, WrongUse
from sluice.flow.land.submit import spark_submit_arguments
from sluice.flow.land.task.decode import decoding_of
from sluice.flow.load.casts.columns import LAKE, Filling
from sluice.flow.load.casts.judged import MISSING
from sluice.flow.load.source.pull_or_push import filled, structure, with_places
from sluice.flow.load.target_checks import inspect_target
from sluice.flow.rejected.rejections import fix_of, no_type_takes
from sluice.mask.mask_rules import mask_rules, said_by
from sluice.safe_text import line
from sluice.slices import SliceRange
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries
from sluice.state.shard_definitions import check_alike
from sluice.state.shard_ledgers import check_different
from sluice.state.units import known_topics
from sluice.topic_patterns import TopicPatterns
from sluice.watch.notify import notifier_class

# Can the landing application be submitted: connection, master, Java and jars?

_NEWEST_NEEDED = 17  # Spark 4: https://spark.apache.org/docs/latest/#downloading
_SECONDS = 10
_STANDALONE = re.compile(r"spark://(\[[^]]+\]|[^:,]+):(\d+)", re.ASCII)
_HIGHEST_PORT = 65_535
_MOST_SAMPLED = 20
"""Of the topics that match a pattern."""


def spark_checks(
    pipeline: Pipeline, config: Path, slices: SliceRange, environment: Mapping[str, str] = os.environ
) -> Iterator[Check]:
    """Raises WrongUse for a missing Spark connection or missing jars."""
    spec = spark_submit_arguments(pipeline, config, slices, "fill", "doctor", environment)
    yield ok(Area.SPARK, "jars", ", ".join(Path(jar).name for jar in spec.jars))
    yield from spark_packages(_version("pyspark"), _version("pyspark-client"))
    yield _java(environment)
    yield _master(spec.master, environment)


def spark_packages(spark: str | None, client: str | None) -> Iterator[Check]:
    """Are the two packages with a `pyspark` folder of one version? The one installed last overwrites files of
    the other's: a mixture fails in the middle of a landing."""
    if spark is None or client is None:
        return
    if spark == client:
        yield ok(Area.SPARK, "packages", f"pyspark and pyspark-client {spark}")
        return
    remedy = f"pip install --force-reinstall --no-deps pyspark-client=={spark} pyspark=={spark}"
    yield fail(Area.SPARK, "packages", f"pyspark is {spark}, and pyspark-client {client}", remedy)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _java(environment: Mapping[str, str]) -> Check:
    home = environment.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    remedy = f"install a JRE {_NEWEST_NEEDED} or newer, or let JAVA_HOME name one"
    if program is None:
        return fail(Area.SPARK, "java", "there is no Java", remedy)
    try:
        version_text = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=60
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return fail(Area.SPARK, "java", f"{program} does not run ({error})", remedy)
    found = re.search(r'version "(\d+)', version_text)
    if found is None or int(found[1]) < _NEWEST_NEEDED:
        return fail(Area.SPARK, "java", f"{program} is {' '.join(version_text.split()[:3])}", remedy)
    return ok(Area.SPARK, "java", f"{program} is version {found[1]}")


def _master(master: str, environment: Mapping[str, str]) -> Check:
    if master.startswith("local"):
        return ok(Area.SPARK, "master", f"{master}: in the driver's own process, {os.cpu_count()} cores")
    if address := _STANDALONE.match(master):
        return _standalone(master, address[1].strip("[]"), address[2])
    if master == "yarn" and not (environment.get("HADOOP_CONF_DIR") or environment.get("YARN_CONF_DIR")):
        remedy = "let HADOOP_CONF_DIR name the folder of its configuration"
        return fail(Area.SPARK, "master", "yarn, and nothing says where its resource manager is", remedy)
    remedy = "a run over one hour proves it"
    return warn(Area.SPARK, "master", f"{master} can be tried only by an application", remedy)


def _standalone(master: str, host: str, port: str) -> Check:
    remedy = "correct host and port of the Spark connection"
    if mistake := _mistake(host, port):
        return fail(Area.SPARK, "master", f"{master} is no address ({mistake})", remedy)
    try:
        socket.create_connection((host, int(port)), _SECONDS).close()
    except OSError as error:
        finding = f"{master} does not answer ({error})"
        return Check(Area.SPARK, "master", Level.FAIL, finding, f"start it, or {remedy}", unreachable=True)
    return ok(Area.SPARK, "master", f"{master} answers")


def _mistake(host: str, port: str) -> str:
    """Returns why no socket takes host and port, else nothing."""
    try:
        host.encode("idna")
    except UnicodeError:
        return "a part of its host is empty, longer than 63 characters, or of characters that no host has"
    wrong = len(port) > len(str(_HIGHEST_PORT)) or int(port) > _HIGHEST_PORT
    return f"its port is above {_HIGHEST_PORT}" if wrong else ""


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
            for topic in cluster.named:
                place = f"{cluster.cluster}/{topic}"
                yield from guarded(Area.KAFKA, place, partial(self._topic, inquiry, topic))
            if cluster.patterns is not None:
                yield from self._matching(inquiry, cluster, cluster.patterns)

    def _matching(self, inquiry: TopicInquiry, cluster: Cluster, patterns: TopicPatterns) -> Iterator[Check]:
        """Yields how many topics match, and of each only what is wrong with it."""
        matching = patterns.matching(inquiry.names())
        yield matching_check(cluster, patterns, matching, known_topics(cluster, self._boundaries))
        for topic in matching:
            place = f"{cluster.cluster}/{topic}"
            checks = guarded(Area.KAFKA, place, partial(self._topic, inquiry, topic))
            yield from (check for check in checks if check.level is not Level.OK)

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
            for target in self.pipeline.targets:
                place = f"table {target.table}"
                yield from guarded(Area.CLICKHOUSE, place, partial(self._alike, servers, target))
        placements = "; ".join(f"{t.table} by {placed_by(self.pipeline, t)}" for t in self.pipeline.targets)
        yield ok(Area.CLICKHOUSE, "shards", f"{len(servers)} different servers; {placements}")

    def _alike(self, servers: Servers, target: Target) -> Iterator[Check]:
        """Raises TargetRefused where the shards' columns differ."""
        columns = check_alike(servers, target, open_lake(self.pipeline))
        yield ok(Area.CLICKHOUSE, target.table, f"has the same columns on {', '.join(columns) or 'no shard'}")

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
        of_target = [item.event for item in events]
        yield from time_checks(target, target_table.columns, of_target, pendulum.now("UTC"))
        yield from unfit_checks(client, target.table, filling, events)


def sampled(pipeline: Pipeline, count: int) -> EventSample:
    """Returns the newest events of every topic that answers, as they would land: masked. Raises
    KafkaUnavailable when none does."""
    samples: list[EventSample] = []
    silent: list[SluiceError] = []
    decoding, mask = decoding_of(pipeline.event), mask_rules(pipeline)
    for cluster in pipeline.kafka:
        for topic in _sampled_topics(cluster):
            try:
                records = newest(cluster, topic, count, pipeline.max_record)
                samples.append(masked(parse(pipeline.event, records, decoding), mask))
            except SluiceError as error:  # its own check has said so
                silent.append(error)
    if silent and not samples:
        raise silent[0]
    return joined(samples)


def _sampled_topics(cluster: Cluster) -> tuple[str, ...]:
    """Returns those that the file names, and some of those that match its patterns."""
    if cluster.patterns is None:
        return cluster.named
    with open_inquiry(cluster) as inquiry:
        matching = cluster.patterns.matching(inquiry.names())
    step = max(1, len(matching) // _MOST_SAMPLED)
    return tuple(dict.fromkeys((*cluster.named, *matching[::step][:_MOST_SAMPLED])))


# Checks that a channel of alarms could be notified; nothing is sent.
def channel_checks(channel: Channel) -> Iterator[Check]:
    """Imports the class, compares its arguments and looks up the connections that they name. Creates no
    notifier: its constructor may do anything. Raises WrongUse for a connection that is not there."""
    yield _notifier(channel, channel.notifier)
    for conn_id in channel.connections:
        connections.find(conn_id)
        yield ok(Area.ALARMS, channel.name, f"connection {conn_id} is known")


def _notifier(channel: Channel, path: str) -> Check:
    correct = "correct `notifier`, or install what brings it"
    try:
        notifier = notifier_class(path)
    except WrongUse as error:
        return fail(Area.ALARMS, channel.name, line(str(error)), correct)
    except Exception as error:  # a module of anybody's raises what it likes
        reason = line(f"cannot be imported here ({type(error).__name__}: {error})")
        return fail(Area.ALARMS, channel.name, reason, correct)
    try:
        inspect.signature(notifier).bind(**channel.arguments)
    except (TypeError, ValueError) as error:
        return fail(Area.ALARMS, channel.name, line(str(error)), "correct `arguments`")
    return ok(Area.ALARMS, channel.name, "the class is there and takes the arguments")


# Checks that the lake takes writes, and honours conditional ones. Writes and removes a probe.
_LITTLE = 10 << 30  # bytes: less is soon full
_FOLDER = "file://"


def lake_checks(lake: Lake) -> Iterator[Check]:
    """Raises LakeUnavailable and LakeRefused."""
    key = f"{PROBES}{uuid.uuid4().hex}.json"
    try:
        yield from _writes(lake, key)
    finally:
        delete_own(lake, [key])
    yield from _space(lake.url)


def _writes(lake: Lake, key: str) -> Iterator[Check]:
    first, second, third = (uuid.uuid4().hex.encode() for _ in range(3))
    if not lake.create(key, first):
        yield fail(
            Area.LAKE, lake.url, f"a new object {key} was refused", "find out what writes into _doctor/"
        )
        return
    yield ok(Area.LAKE, lake.url, "can be written")
    broken = []
    if lake.create(key, second):
        broken.append("a second `create` of one key (If-None-Match: *) was not refused")
    stored = lake.read(key)
    if stored is None or stored.data not in (first, second):
        broken.append("an object that was written cannot be read back")
    elif lake.replace(key, third, "not-its-version"):
        broken.append("a `replace` of another version (If-Match) was not refused")
    elif not lake.replace(key, third, stored.version):
        broken.append("a `replace` of the right version (If-Match) was refused")
    remedy = "exactly once rests on these writes: use S3 itself, or a store that has them"
    if broken:
        yield fail(Area.LAKE, lake.url, "; ".join(broken), remedy)
    else:
        yield ok(Area.LAKE, lake.url, "create-if-absent and compare-and-set hold")


def _space(url: str) -> Iterator[Check]:
    if not url.startswith(_FOLDER):
        return
    free = shutil.disk_usage(_existing(Path(url.removeprefix(_FOLDER)))).free
    finding = f"{free / (1 << 30):,.1f} GiB are free"
    if free < _LITTLE:
        yield warn(Area.LAKE, url, finding, "a full disk stops the landing: give it more room")
    else:
        yield ok(Area.LAKE, url, finding)


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


# Checks that the pools of tasks exist: a task whose pool is missing never starts, and no page of Airflow
# says so.
_ALWAYS = "default_pool"  # Airflow makes it, and refuses to delete it


@dataclass(frozen=True)
class KnownPools:
    """Names of the pools of the Airflow at `place`, a folder or an address; `elsewhere` names the setting by
    which another one is asked."""

    place: str
    names: frozenset[str]
    elsewhere: str


def read_pools(named: Sequence[str], environment: Mapping[str, str] = os.environ) -> KnownPools | None:
    """Returns what Airflow has of the pools `named`; None where no Airflow is known here.

    AIRFLOW_HOME names the Airflow whose database is asked. Without it the REST API is asked that the
    connection sluice_airflow names, or the embedded stack's. Raises Unavailable and WrongUse.
    """
    access = None if environment.get("AIRFLOW_HOME") else named_access(environment)
    if access is not None:
        from sluice.clients.airflow_rest.session import existing, open_session

        with open_session(access) as session:
            return KnownPools(access.url, existing(session, named), "the connection sluice_airflow")
    names = connections.pools()
    return None if names is None else KnownPools(str(connections.home()), names, "AIRFLOW_HOME")


def pool_checks(
    pipeline: Pipeline, read: Callable[[Sequence[str]], KnownPools | None] = read_pools
) -> Iterator[Check]:
    """Asks only where a pool of one's own is named. Raises what `read` raises."""
    named = [pool for pool in pipeline.airflow.pools if pool != _ALWAYS]
    if not named:
        return
    pools = read(named)
    if pools is None:
        finding = f"Airflow is not set up here: nothing is known of {', '.join(named)}"
        yield warn(Area.AIRFLOW, "pools", finding, "`airflow pools list`, where it is")
        return
    for pool in named:
        place = f"pool {pool}"
        if pool in pools.names:
            yield ok(Area.AIRFLOW, place, "is there")
        else:
            finding = f"is not in the Airflow of {pools.place}: a task that names it never starts"
            remedy = (
                f"`airflow pools set {quote(pool)} SLOTS DESCRIPTION`; for another Airflow, {pools.elsewhere}"
            )
            yield fail(Area.AIRFLOW, place, finding, remedy)


# Asks the server which values of sample events its tables would reject, with the load's own casts.
_SHOWN = 80  # characters of a value
_LAST_STAMP = 10_413_791_999_999  # ms: the end of 2299, and of what a DateTime64 has a text for
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_QUERY = 256 << 20


def placed_by(pipeline: Pipeline, target: Target) -> str:
    """Returns what decides the shard of a row. What is derived lies with its source; counts have no
    partition of Kafka."""
    by = pipeline.clickhouse.placed_by(target.rollup.source if target.rollup else target.table)
    return "the hash of its key" if target.counted and by == BY_PARTITION else by


def unfit_checks(client: Client, name: str, filling: Filling, events: Sequence[Sampled]) -> Iterator[Check]:
    """Yields one check for each column that would reject a value. Raises what the client raises."""
    place = f"table {name}"
    if not events:
        return
    sample = render(
        "doctor/source_sample",
        columns=listed(map(identifier, LAKE)),
        structure=structure(tuple(LAKE), with_slice=True),
        rows=literal("\n".join(_row(item) for item in events)),
    )
    checks = [check for check in filling.checks if check.unfit != "0"]
    sql = render(
        "doctor/unfit_values",
        unfit=filling.unfit,
        counts=listed(f"countIf({check.unfit})" for check in checks),
        places=listed(f"anyIf({check.parts['column']}, {check.unfit})" for check in checks),
        kinds=listed(f"anyIf({check.parts['type']}, {check.unfit})" for check in checks),
        reasons=listed(f"anyIf({check.parts['reason']}, {check.unfit})" for check in checks),
        values=listed(f"anyIf(ifNull({check.parts['text']}, ''), {check.unfit})" for check in checks),
        rows=with_places(filling, filled(filling, tuple(LAKE), sample, Sql("1"))),
    )
    [(unfit_rows, *facts)] = client.rows(sql, settings={**STEADY, "max_query_size": _MAX_QUERY})
    for count, column, kind, reason, value in zip(*facts, strict=True):
        if count:
            text = f"{count:,} of {len(events):,} events would be rejected: {_shown(column, value)}"
            times = ", say in `times` how they are written," if "Date" in kind else ""
            remedy = f"expected {kind}: correct the column{times} or the producer"
            if reason == MISSING or no_type_takes(reason):
                text, remedy = f"{text}, {reason}", fix_of(reason, unfit=True, column=column)
            yield warn(Area.SCHEMA, place, text, remedy)
    if not unfit_rows:
        yield ok(Area.SCHEMA, place, f"every value of {len(events):,} events fits its column")


def _shown(column: str, value: str) -> str:
    text = value if len(value) <= _SHOWN else value[:_SHOWN] + "…"
    return f"{column or 'the event'} = {text!r}"


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _written(timestamp: int) -> str:
    """Returns the time as text: of a number the server wants ten digits."""
    return str(_EPOCH + timedelta(milliseconds=min(max(timestamp, 0), _LAST_STAMP)))


def _row(item: Sampled) -> Sql:
    record = item.record
    return Sql(
        json.dumps(
            {
                "_type": item.type,
                "_cluster": "",
                "_topic": record.topic,
                "_partition": record.partition,
                "_offset": record.offset,
                "_timestamp": _written(record.timestamp),
                "_key": None,
                "_headers": [{"key": key, "value": _text(value)} for key, value in record.headers],
                "_payload": item.payload,
                "_slice": 0,
            }
        )
    )
