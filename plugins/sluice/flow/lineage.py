"""Reports each step's begin and end to OpenLineage, where that is configured: one wrapper for all of them.

The steps know nothing of it. What an event says beyond names is read in the delivery's thread, so that
neither a server that hangs nor a slow lake holds up the run. Connections are looked up before: Airflow's own
look-up is for the thread that its task runs in.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import pendulum

from sluice.clients.clickhouse.connect import place_of
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import connect_replicas
from sluice.clients.clickhouse.tables import Column
from sluice.clients.connections import Connection, find
from sluice.clients.kafka.settings import settings_of
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.clients.openlineage.delivery import (
    NONE,
    ColumnSource,
    Dataset,
    DatasetName,
    Datasets,
    Delivery,
    JobKind,
    LineageEvent,
    Offsets,
    Parent,
    RunOfJob,
    RunState,
    Sender,
    configured,
    namespace,
    parent,
    quiet,
    reason,
)
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import SluiceError, WrongUse
from sluice.field_path import paths_of
from sluice.flow.load.casts.columns import HOLDERS, LAKE
from sluice.manifest import STAMP, Manifest, OffsetRange
from sluice.safe_text import line
from sluice.slices import SliceRange
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries
from sluice.state.manifests import read_manifests
from sluice.state.units import all_topics, units_of

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


class _Listener(NamedTuple):
    delivery: Delivery
    to: Destination


_listeners: list[_Listener] = []


@contextmanager
def listening(opening: Callable[[], Destination | None]) -> Iterator[None]:
    """Reports the steps inside to what `opening` returns, if anything; what it raises is logged in a line."""
    try:
        with quiet():
            to = opening()
    except Exception as error:  # a wrong configuration of lineage stops no run
        log.warning(
            "lineage: no event is sent, for the OpenLineage client cannot be set up: %s", reason(error)
        )
        to = None
    if to is None:
        yield
        return
    delivery = Delivery(to.sender)
    _listeners.append(_Listener(delivery, to))
    try:
        yield
    finally:
        _listeners.clear()
        delivery.close()


@contextmanager
def command(pipeline: Pipeline, slices: SliceRange) -> Iterator[None]:
    """Reports a command as a run of its own, whose children the steps inside are."""
    if not _listeners:
        yield
        return
    [(delivery, to)] = _listeners
    run = LineageRun.begin(delivery, to, f"sluice.{pipeline.name}", JobKind.COMMAND, slices, NONE)
    own_run = run.began.run
    parent = Parent(own_run, to.parent.root if to.parent else own_run)
    _listeners[:] = [_Listener(delivery, replace(to, parent=parent))]
    try:
        yield
    except BaseException as error:
        run.failed(error)
        raise
    run.ended(lambda: NONE)


def observed(step: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Reports a step that takes `pipeline` and `slices`, and maybe `table` or `cluster`.

    A step that returns a number other than 0, an exit code, has failed.
    """

    def decorate(act: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(act)

        @wraps(act)
        def observe(*args: P.args, **kwargs: P.kwargs) -> R:
            if not _listeners:
                return act(*args, **kwargs)
            run = StepRun.begin(*_listeners[0], step, signature.bind(*args, **kwargs).arguments)
            if run is None:
                return act(*args, **kwargs)
            try:
                result = act(*args, **kwargs)
            except BaseException as error:
                run.run.failed(error)
                raise
            run.returned(result)
            return result

        return observe

    return decorate


# Where a command's events go: what the OpenLineage client's own variables and files say.
def from_environment() -> Destination | None:
    """None where no transport is configured. Raises what the client raises; WrongUse where it is missing."""
    if not configured():
        return None
    try:
        from sluice.clients.openlineage.open_client import open_sender
    except ModuleNotFoundError as error:
        raise WrongUse("openlineage-python is not installed: sluice[lineage] brings it") from error
    sender = open_sender()
    return None if sender is None else Destination(sender, namespace(), parent())


# One run as OpenLineage sees it: its begin, and its end.


def own_line(error: BaseException) -> str:
    """Returns the line of an error of Sluice's own; of others the class, for their text may hold a secret."""
    if isinstance(error, SluiceError):
        return line(str(error))
    code = getattr(error, "exit_code", None)  # a command's end
    return type(error).__name__ if code is None else exit_line(code)


def exit_line(code: int) -> str:
    return f"exit code {code}: the log says why"


@dataclass(frozen=True)
class Destination:
    """Where the events of a process go: the jobs' namespace, and the parent of its runs."""

    sender: Sender
    namespace: str
    parent: Parent | None = None
    line_of: Callable[[BaseException], str] = own_line


@dataclass(frozen=True)
class LineageRun:
    """A run that has begun. `failed` or `ended` reports its end."""

    delivery: Delivery
    began: LineageEvent
    line_of: Callable[[BaseException], str]

    @classmethod
    def begin(
        cls,
        delivery: Delivery,
        to: Destination,
        job: str,
        kind: JobKind,
        slices: SliceRange,
        named: Datasets,
    ) -> LineageRun:
        run, now = RunOfJob(to.namespace, job, to.sender.new_id()), pendulum.now("UTC")
        began = LineageEvent(RunState.START, now, run, kind, slices.start, slices.end, to.parent, named)
        delivery.put(lambda: began)
        return cls(delivery, began, to.line_of)

    def failed(self, error: BaseException | str) -> None:
        text = error if isinstance(error, str) else self.line_of(error)
        event = replace(self.began, state=RunState.FAIL, at=pendulum.now("UTC"), error=text)
        self.delivery.put(lambda: event)

    def ended(self, read: Callable[[], Datasets]) -> None:
        """`read` is called in the delivery's thread. What it raises is a part of the event."""
        ended = replace(self.began, state=RunState.COMPLETE, at=pendulum.now("UTC"))

        def make() -> LineageEvent:
            try:
                return replace(ended, datasets=read())
            except Exception as error:  # what is not known of a step does not undo it
                return replace(ended, unread=own_line(error))

        self.delivery.put(make)


@dataclass(frozen=True)
class StepRun:
    """A run of one of the five steps; `arguments` are those of its function."""

    run: LineageRun
    step: str
    arguments: Mapping[str, Any]
    places: Places

    @classmethod
    def begin(
        cls, delivery: Delivery, to: Destination, step: str, arguments: Mapping[str, Any]
    ) -> StepRun | None:
        """None where its datasets cannot be named: the step itself says why, where it needs them."""
        pipeline, table = arguments["pipeline"], arguments.get("table", "")
        job = ".".join(filter(None, ("sluice", pipeline.name, step, table)))
        try:
            places = places_of(pipeline)
            named = datasets(step, pipeline, places, table)
        except Exception as error:  # a secrets back-end may raise anything
            delivery.lose(error)
            return None
        run = LineageRun.begin(delivery, to, job, JobKind.STEP, arguments["slices"], named)
        return cls(run, step, arguments, places)

    def returned(self, result: object) -> None:
        if isinstance(result, int) and result:  # the exit code of an application
            self.run.failed(exit_line(result))
        else:
            self.run.ended(lambda: self._datasets(result))

    def _datasets(self, result: object) -> Datasets:
        started: datetime = self.run.began.at
        facts = read_facts(self.step, self.arguments, result, self.places, started)
        return datasets(
            self.step, self.arguments["pipeline"], self.places, self.arguments.get("table", ""), facts
        )


# Reads what a step's event says beyond its names, after the step and beside the run.
def read_facts(
    step: str, arguments: Mapping[str, Any], result: Any, places: Places, started: datetime
) -> StepFacts:
    """`arguments` are those of the step's function, `result` is what it returned, `started` in UTC.

    Raises what lake and ClickHouse raise.
    """
    pipeline, slices = arguments["pipeline"], arguments["slices"]
    if step == "resolve":
        return StepFacts(ranges=_resolved(pipeline, slices, places))
    if step == "land":
        units = units_of(pipeline, slices, BoundaryLog(places.opened).read())
        manifests = read_manifests(
            places.opened, [u for u in units if arguments.get("cluster", "") in ("", u.cluster)]
        )
        since = started.strftime(STAMP)
        return StepFacts(
            manifests=[manifest for manifest in manifests.values() if manifest.landed_at >= since]
        )
    if step == "load":
        return StepFacts(rows=result["rows"], columns=_columns(arguments["table"], places))
    if step == "verify":
        return StepFacts(manifests=[status.manifest for status in result if status.manifest])
    return NOTHING


def _resolved(pipeline: Pipeline, slices: SliceRange, places: Places) -> dict[str, list[OffsetRange]]:
    boundaries = BoundaryLog(places.opened).read()
    ranges: dict[str, list[OffsetRange]] = {}
    for cluster in pipeline.kafka:
        for topic in all_topics(cluster, boundaries):
            parts = (boundaries.ranges(slice_, cluster.cluster, [topic]) for slice_ in slices)
            ranges.setdefault(cluster.cluster, []).extend(r for part in parts if part for r in part)
    return ranges


def _columns(table: str, places: Places) -> Sequence[Column]:
    database, _, name = table.partition(".")
    with connect_replicas(places.first) as clients:
        target_table = read_table(clients[0], database, name)
    return target_table.columns if target_table else ()


# The datasets of each step: which ones by the pipeline file, and what it did to them by its result. Pure.
@dataclass(frozen=True)
class StepFacts:
    """What a step has read and written: `ranges` of Kafka by cluster, manifests that it wrote or verified,
    rows that it put into a table (None: it loads none), and that table's columns."""

    ranges: Mapping[str, Sequence[OffsetRange]] | None = None
    manifests: Sequence[Manifest] | None = None
    rows: int | None = None
    columns: Sequence[Column] = ()


NOTHING = StepFacts()


def datasets(
    step: str, pipeline: Pipeline, places: Places, table: str = "", facts: StepFacts = NOTHING
) -> Datasets:
    """Returns the datasets of one run of `step`; without facts their names alone. `table`: a target."""
    lake = Dataset(places.lake)
    if step == "resolve":
        return Datasets(_topics(places, facts))
    if step == "land":
        return Datasets(_topics(places, facts), (_with_files(lake, facts),))
    if step == "load":
        return _loaded(next(t for t in pipeline.targets if t.table == table), places, facts)
    tables = [Dataset(at) for target in pipeline.targets for at in places.tables(target.table)]
    if step == "verify":
        return Datasets((*_topics(places, facts), _with_files(lake, facts), *tables))
    return Datasets((lake, *tables))  # publish marks hours, and writes no data


def _topics(places: Places, facts: StepFacts) -> tuple[Dataset, ...]:
    records: dict[TopicKey, int] = {}
    for manifest in facts.manifests or ():
        for count in manifest.counts:
            key = (manifest.cluster, count.topic)
            records[key] = records.get(key, 0) + count.read
    ranges = facts.ranges or _ranges(facts.manifests or ())
    return tuple(
        Dataset(
            name,
            rows=None if facts.manifests is None else records.get((cluster, topic), 0),
            offsets=_offsets(part for part in ranges.get(cluster, ()) if part.topic == topic),
        )
        for (cluster, topic), name in places.topics.items()
    )


def _ranges(manifests: Iterable[Manifest]) -> dict[str, list[OffsetRange]]:
    ranges: dict[str, list[OffsetRange]] = {}
    for manifest in manifests:
        ranges.setdefault(manifest.cluster, []).extend(manifest.ranges)
    return ranges


def _offsets(ranges: Iterable[OffsetRange]) -> tuple[Offsets, ...]:
    """Returns the offsets from the first to the last slice of the step, by partition."""
    edges: dict[int, tuple[int, int]] = {}
    for part in ranges:
        start, until = edges.get(part.partition, (part.start, part.until))
        edges[part.partition] = (min(start, part.start), max(until, part.until))
    return tuple(Offsets(partition, *edge) for partition, edge in sorted(edges.items()))


def _with_files(lake: Dataset, facts: StepFacts) -> Dataset:
    """Adds the rows of events, and the files that hold them."""
    if facts.manifests is None:
        return lake
    files = [file for manifest in facts.manifests for file in manifest.files]
    rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
    return replace(lake, rows=rows, size=size, files=len(files))


def _loaded(target: Target, places: Places, facts: StepFacts) -> Datasets:
    rollup = target.rollup
    sources = [places.lake] if rollup is None else list(places.tables(rollup.source))
    columns = tuple((column.name, column.type) for column in facts.columns if column.kind != "EPHEMERAL")
    filled = sources_of(target, facts.columns, places.lake)
    tables = places.tables(target.table)
    # The result has the rows of all shards together.
    rows = facts.rows if len(tables) == 1 else None
    outputs = (Dataset(at, rows=rows, columns=columns, sources=filled) for at in tables)
    return Datasets(tuple(map(Dataset, sources)), tuple(outputs))


# Which field fills which column of a table. Pure.
def sources_of(target: Target, columns: Iterable[Column], lake: DatasetName) -> dict[str, ColumnSource]:
    """Returns the source of each column that a load fills; fields of the event are dotted paths.

    Columns of counts and rollups have none: they are computed of many rows, and a SELECT is not taken apart.
    """
    if target.counted or target.rollup is not None:
        return {}
    sources = {}
    for column in columns:
        if column.name in LAKE:
            sources[column.name] = ColumnSource(lake, (column.name,))
        elif column.filled and column.name not in HOLDERS:
            paths = paths_of(column.name, target.columns)
            sources[column.name] = ColumnSource(lake, tuple(map(".".join, paths)), cast=column.type)
    return sources


# The names of a pipeline's topics, lake and tables, and what reading about them needs.
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
    lake = open_lake(pipeline)
    boundaries = BoundaryLog(lake).read() if any(c.patterns for c in pipeline.kafka) else Boundaries()
    topics = {
        (cluster.cluster, topic): DatasetName(_kafka(settings_of(cluster).bootstrap), topic)
        for cluster in pipeline.kafka
        for topic in all_topics(cluster, boundaries)
    }
    shards = [tuple(map(find, shard.connections)) for shard in pipeline.clickhouse.parts]
    servers = tuple(_clickhouse(shard[0]) for shard in shards)
    return Places(topics, lake_name(lake.url), servers, lake, shards[0])


def _kafka(bootstrap: str) -> str:
    """Of several brokers the first, as OpenLineage's integrations of Spark and Flink name a cluster."""
    return f"kafka://{bootstrap.split(',')[0].strip()}"


def _clickhouse(connection: Connection) -> str:
    place = place_of(connection)
    return f"clickhouse://{place.host}:{place.port}"


def lake_name(url: str) -> DatasetName:
    """Of the folder of all types, which with date and hour are its Hive partitions."""
    scheme, _, place = url.rstrip("/").partition("://")
    if scheme == "file":
        return DatasetName("file", place)
    bucket, _, prefix = place.partition("/")
    return DatasetName(f"{scheme}://{bucket}", prefix)
