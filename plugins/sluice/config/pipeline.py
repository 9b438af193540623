"""The pipeline file: what one pipeline reads, how, and where it goes. The reference is made of the model."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator

from sluice.config.airflow import AirflowSettings, Alarms
from sluice.config.clickhouse import BY_PARTITION, ClickHouse, columns_in
from sluice.config.counts import Counts
from sluice.config.event import Event
from sluice.config.mask import MaskRule, check_mask
from sluice.config.rejected import Rejected
from sluice.config.target import TARGET_KEYS, Derived, Latest, Rollup
from sluice.config.target import Target as Target
from sluice.config.types import (
    Duration,
    FromGroup,
    OptionalDuration,
    PlainName,
    QualifiedTable,
    Section,
    Size,
    Start,
    WrongKey,
)
from sluice.config.yaml_text import ON_COMMAND_LINE, assigns_secret, names_secret
from sluice.errors import WrongUse
from sluice.manifest import Isolation
from sluice.slices import HOUR, floor
from sluice.topic_patterns import TopicPatterns, is_name, is_pattern, mistake

# Writes a `sluice` command exactly as a shell takes it: every one that is printed is made here.


def command_line(pipeline: str, config: Path | None, command: str, *words: str) -> str:
    """`config`: the pipeline's file, where its name alone does not find it."""
    elsewhere = ["--config", str(config)] if config else []
    return shlex.join(["sluice", command, pipeline, *elsewhere, *words])


# The pipeline file's `kafka` block.


class Cluster(Section):
    """One independent Kafka cluster; its name is part of the identity of every record."""

    cluster: PlainName
    """Name of the cluster, a part of every record's identity: never give it to another one. Example: `dc1`"""
    topics: list[str] = Field(min_length=1)
    """Topics that are read, by name or pattern: in `orders.*` a star is any run of characters and a dot is a
    dot; what begins with `^` is a regular expression (RE2), `"^orders[.][0-9]+$"`. A slice keeps the topics
    that match when it is resolved. Names beginning with `__` match no pattern.
    Example: `[bids, clicks.*]`"""
    exclude: list[str] = Field(default_factory=list)
    """What no pattern of `topics` takes, by name or pattern. Example: `[clicks.test.*]`"""
    bootstrap: str | None = None
    """Its brokers, instead of `connection`. Example: `kafka.dc1:9092`"""
    connection: str | None = None
    """Airflow connection of type `kafka`, with address and login. Example: `kafka_dc1`"""
    isolation: Isolation = "read_committed"
    """Expert. Whether records of open and aborted transactions are left out. Example: `read_uncommitted`"""
    start: Start | None = None
    """Its earliest slice, on a slice's edge; without it the first slice that it was asked for.
    `{group: NAME}` as for the pipeline.
    Example: `2026-11-01T00:00Z`"""

    @model_validator(mode="after")
    def _one_address(self) -> Cluster:
        if (self.bootstrap is None) == (self.connection is None):
            raise ValueError("expected exactly one of `bootstrap` and `connection`")
        if len(set(self.topics)) != len(self.topics):
            raise ValueError("a topic is listed twice")
        if wrong := next(filter(None, map(mistake, (*self.topics, *self.exclude))), ""):
            raise ValueError(wrong)
        if self.exclude and self.patterns is None:
            raise ValueError("`exclude` is beside patterns in `topics`, and all of these are names")
        return self

    @property
    def since(self) -> datetime | None:
        """The earliest slice of its own."""
        return self.start if isinstance(self.start, datetime) else None

    @property
    def named(self) -> tuple[str, ...]:
        """The topics that the file names one by one."""
        return tuple(topic for topic in self.topics if not is_pattern(topic))

    @property
    def patterns(self) -> TopicPatterns | None:
        """None where every topic has its name in the file."""
        include = tuple(sorted(filter(is_pattern, self.topics)))
        return TopicPatterns(include, tuple(sorted(set(self.exclude)))) if include else None

    def reads(self, topic: str) -> bool:
        """Returns whether the file names the topic, itself or by a pattern."""
        by_pattern = self.patterns is not None and self.patterns.matches(topic)
        return is_name(topic) and (by_pattern or topic in self.named)


# `keep:` in the pipeline file: how long the lake holds files of an hour, and the tables its rows.

EVERY_TABLE = "*"


class Keep(Section):
    """Ages count from the hour's end, whenever it landed. Nothing is forgotten before every table has the
    hour and verify finds nothing wrong with it. Manifests stay."""

    lake: OptionalDuration = None
    """How long the lake keeps the files of an hour; without it for ever. `reload` and `remake` read them.
    Example: `400d`"""
    rejected: OptionalDuration = None
    """How long the lake keeps the bytes of rejected records (`_rejected/`), without it as long as `lake`.
    `remake` reads them as long; later it counts them as they were. Example: `30d`"""
    tables: Mapping[str, Duration] = Field(default_factory=dict)
    """How long a table keeps the rows of an hour, by the table's own TTL; `"*"` stands for every table, and a
    duration alone is short for that. Sluice deletes no row for its age: `verify` takes missing rows of older
    hours for expired, and `doctor` compares the TTL.
    Example: `{events.clicks: 730d}`"""

    @field_validator("tables", mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return value if isinstance(value, Mapping) else {EVERY_TABLE: value}

    @property
    def forgets(self) -> bool:
        """Whether the lake forgets anything."""
        return self.lake is not None or self.rejected is not None

    @property
    def rejected_for(self) -> timedelta | None:
        """How long files of `_rejected/` are kept."""
        return self.lake if self.rejected is None else self.rejected

    def of_table(self, table: str) -> timedelta | None:
        """Returns how long the table keeps rows, None where the file does not say."""
        return self.tables.get(table, self.tables.get(EVERY_TABLE))

    def began_before(self, table: str, now: datetime) -> datetime | None:
        """Returns the instant before which an hour began whose rows the table may have deleted: a TTL by
        `_slice` counts from an hour's begin."""
        kept = self.of_table(table)
        return None if kept is None else datetime.__sub__(now, kept)

    def may_lack(self, table: str, start: datetime, now: datetime) -> bool:
        """Returns whether the table may have deleted rows of an hour that began at `start` for its age."""
        before = self.began_before(table, now)
        return before is not None and start <= before

    def check(self, least: timedelta, tables: AbstractSet[str]) -> None:
        """Raises WrongKey for what the other keys contradict: hourly runs read hours as old as `least`."""
        for name, kept in (("lake", self.lake), ("rejected", self.rejected), *self.tables.items()):
            if kept is not None and kept < least:
                key_place = ("keep", name) if name in ("lake", "rejected") else ("keep", "tables", name)
                expected = f"expected at least {_text(least)}: hourly runs go back so far (`lookback`)"
                raise WrongKey(key_place, expected)
        if self.lake is not None and self.rejected is not None and self.rejected > self.lake:
            raise WrongKey(("keep", "rejected"), "expected no more than `keep.lake`: they go with the hour")
        for name in self.tables:
            if name != EVERY_TABLE and name not in tables:
                raise WrongKey(("keep", "tables", name), 'expected a table of this file, or "*"')


def _text(length: timedelta) -> str:
    """`1d`, `26h` or `1475m`."""
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if length.total_seconds() % seconds == 0:
            return f"{int(length.total_seconds()) // seconds}{unit}"
    return f"{int(length.total_seconds())}s"


# The pipeline file's `page:` block.

Payloads = Literal["hidden", "masked", "shown"]


class PageSettings(Section):
    """What the page shows of rejected records' payloads and values, which may be personal data.

    `hidden`: nothing. `masked`: their structure and field names, with kinds in place of values.
    `shown`: all to whom Airflow grants that right, and masked to everybody else.
    """

    payloads: Payloads = "masked"
    """What the page shows of rejected records: nothing, their structure, or all to those who may see it.
    Example: `hidden`"""


CATCH_ALL = "*"
_DAY = timedelta(days=1)
NO_CRON = (timedelta(minutes=45), timedelta(minutes=90))
"""Lengths of slices that no cron expression has; their timetable takes no offset."""
_ANY_ROWS = 1 << 62
MOST_TABLES = 1_000
"""Types under `tables`, rollups and counts: each is a task of the DAG, and each rollup reads a file."""


class Pipeline(Section):
    _file: Path | None = PrivateAttr(None)
    _config: Path | None = PrivateAttr(None)
    name: PlainName
    kafka: list[Cluster] = Field(min_length=1)
    """The Kafka clusters, independent of each other, whose records are merged."""
    event: Event
    """How a message becomes rows."""
    lake: str
    """Root of the lake: a folder or an S3 prefix. Example: `s3://events/landing`"""
    lake_connection: str | None = None
    """Airflow connection of type `aws` for S3; without it the environment, a profile or the machine's role.
    Example: `lake`"""
    tables: dict[str, Target] = Field(default_factory=dict)
    """The table of each type; `"*"` takes every type without a line of its own. A name is short for `{table:
    name}`.
    Example: `{click: events.clicks, "*": events.other}`"""
    counts: tuple[Counts, ...] = ()
    """Tables of traffic counts. Example: `[{table: events.traffic, by: [country]}]`"""
    mask: dict[str, MaskRule] = Field(default_factory=dict)
    """What is hidden of each event before any of its bytes are kept, by dotted paths.
    Example: `{ip: drop, user.name: keep_first}`"""
    rollups: dict[QualifiedTable, Rollup] = Field(default_factory=dict)
    """Tables that a SELECT derives from a table above, by their names."""
    clickhouse: ClickHouse = ClickHouse()
    """How the tables are reached. Example: `{connection: clickhouse_default}`"""
    rows_per_read: int = Field(500_000, ge=1)
    """Expert. Records of a partition that one Spark task reads at most; with `event.batch` it reads all of a
    slice's. Example: `250000`"""
    slice: Duration = HOUR
    """Length of a slice: 15m to 1d, a multiple of 15m that divides the day. The first boundary fixes it for
    good.
    Example: `15m`"""
    start: Start | None = None
    """The earliest slice of hourly runs, and of `verify` without a range, on a slice's edge; without it the
    first that was resolved. A range that is asked for may begin earlier. `{group: NAME}` takes over from a
    consumer group that is stopped: no slice has a record before its committed offsets.
    Example: `2026-11-01T00:00Z`"""
    settle: Duration = timedelta(minutes=2)
    """Wait after a slice's end before it is resolved. Example: `5m`"""
    grace: OptionalDuration = None
    """How long after an event hour its `_SUCCESS` waits for late events; without it one slice.
    Example: `3h`"""
    lookback: Duration = _DAY
    """How far back each hourly run does all that is missing. Older hours follow in parts, back to `start`.
    What was deleted from a table is not missing: `sluice verify` finds it.
    Example: `2d`"""
    keep: Keep = Keep()
    """How long the lake holds files, and the tables rows. Example: `{lake: 400d, rejected: 30d}`"""
    on_expired: Literal["fail", "land_rest"] = "fail"
    """What a slice does whose offsets Kafka no longer has: fail, or land the rest and record the loss.
    Example: `land_rest`"""
    rejected: Rejected = Rejected()
    """How much of an hour one reason may reject. Example: `{fail_above: 0.05}`"""
    max_early: OptionalDuration = HOUR
    """How far after its slice an event's time may be; later ones are rejected. Example: `none`"""
    max_late: OptionalDuration = None
    """How far before its slice an event's time may be. Without it events of any age land. Of event
    hours more than 31 days from the slice the first 1,000 land, and events of further ones are rejected.
    Example: `7d`"""
    max_types: int = Field(1000, ge=1)
    """Expert. Types with a folder of their own, beside those under `tables`; others share `type=_overflow`.
    Example: `50`"""
    max_record: Size = Field(64 << 20, ge=1 << 20)
    """Expert. A record's size, decompressed; larger ones are rejected. When it is decoded it may be half as
    large. Example: `16MiB`"""
    stalled_after: int = Field(24, ge=0)
    """Expert. Slices without a record that make a partition an anomaly while its siblings move; 0 is never.
    Example: `48`"""
    spark: dict[str, str] = Field(default_factory=dict)
    """Spark settings; secrets belong into spark-defaults.conf. Example: `{spark.executor.memory: 4g}`"""
    spark_connection: str = "spark_default"
    """Expert. Airflow connection of the Spark master. Example: `spark_cluster`"""
    airflow: AirflowSettings = AirflowSettings()
    """What a platform sets of the pipeline's DAGs. `_defaults.yaml` in the folder sets it for all pipelines.
    Example: `{owner: data-platform, steps: {land: {pool: sluice_land}}}`"""
    alarms: Alarms = Alarms()
    """When something is a problem, and who is notified."""
    page: PageSettings = PageSettings()
    """What the page shows. Example: `{payloads: hidden}`"""

    @field_validator("tables", mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        """`click: events.clicks` is short for `click: {table: events.clicks}`."""
        if not isinstance(value, dict):
            raise ValueError("expected a mapping of type to table")
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"YAML reads a type as {key!r}: put it in quotes")
            if isinstance(item, dict) and item.keys() - set(TARGET_KEYS):
                raise WrongKey((key,), f"expected only {', '.join(f'`{name}`' for name in TARGET_KEYS)}")
        return {key: {"table": item} if isinstance(item, str) else item for key, item in value.items()}

    @field_validator("tables", "rollups", "counts", mode="before")
    @classmethod
    def _few(cls, value: object) -> object:
        if isinstance(value, dict | list) and len(value) > MOST_TABLES:
            raise ValueError(f"expected at most {MOST_TABLES:,}")
        return value

    @field_validator("lake")
    @classmethod
    def _known_scheme(cls, value: str) -> str:
        root = value.rstrip("/")
        if not re.fullmatch(r"file://.+|s3://[^/].*", root):
            raise ValueError(f"expected file://… or s3://bucket/prefix, not {value!r}")
        return root

    @field_validator("spark")
    @classmethod
    def _no_secret(cls, value: dict[str, str]) -> dict[str, str]:
        for key, text in value.items():
            if names_secret(key) or assigns_secret(text):
                raise WrongKey((key,), f"it {ON_COMMAND_LINE}")
        return value

    @field_validator("slice")
    @classmethod
    def _divides_day(cls, value: timedelta) -> timedelta:
        if not timedelta(minutes=15) <= value <= _DAY or _DAY % value or value % timedelta(minutes=15):
            raise ValueError("expected 15m … 1d, a multiple of 15m that divides the day")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Pipeline:
        check_mask(self.mask, self.event)
        names = [cluster.cluster for cluster in self.kafka]
        if len(set(names)) != len(names):
            raise WrongKey(("kafka",), "a cluster's name is used twice")
        if self.clickhouse.named_collection and not self.lake.startswith("s3://"):
            raise WrongKey(("clickhouse", "named_collection"), "is for a lake in S3")
        for number, cluster in enumerate(self.kafka):
            if cluster.since is not None and floor(cluster.since, self.slice) != cluster.since:
                raise WrongKey(("kafka", number, "start"), "expected an instant on a slice's edge")
        mappings: dict[str, Target] = {}
        for name, target in self.tables.items():
            if difference := mappings.setdefault(target.table, target).difference(target):
                raise WrongKey(("tables", name), f"{target.table} has two different `{difference}`")
        counted = [counts.table for counts in self.counts]
        if len(set(counted)) != len(counted) or set(counted) & set(mappings):
            raise WrongKey(("counts",), "expected a table of its own for each, which takes no events")
        sources = {*mappings, *counted}
        for table, rollup in self.rollups.items():
            Target(table=table)
            if table in sources:
                raise WrongKey(("rollups", table), "takes events or counts already")
            if rollup.source not in sources:
                expected = f"expected a table of events or counts, not {rollup.source}"
                raise WrongKey(("rollups", table, "from"), expected)
        for name, target in self.tables.items():
            if target.latest is not None:
                self._check_latest(name, target.table, target.latest, {*sources, *self.rollups})
        if self.since is not None and floor(self.since, self.slice) != self.since:
            raise WrongKey(("start",), "expected an instant on a slice's edge")
        if self.airflow.offset and not self.airflow.offset < self.slice:
            raise WrongKey(("airflow", "offset"), "expected less than a slice")
        if self.airflow.offset and self.slice in NO_CRON:
            raise WrongKey(("airflow", "offset"), "expected none: no cron has slices of 45m and 90m")
        return self

    def _check_latest(self, name: str, log: str, latest: Latest, taken: AbstractSet[str]) -> None:
        place = ("tables", name, "latest")
        others = {t.latest.table: t.table for t in self.tables.values() if t.latest and t.table != log}
        if latest.table in taken or latest.table in others:
            raise WrongKey((*place, "table"), "expected a table of its own, which nothing else fills")
        for kept in (EVERY_TABLE, log, latest.table):
            if kept in self.keep.tables:
                expected = f"expected other tables by name: {log} keeps all rows, for {latest.table}"
                raise WrongKey(("keep", "tables", kept), expected)
        newest, by = self.tables[name].newest(by_row=False), self.clickhouse.placed_by(log)
        if self.clickhouse.shards and newest is not None:
            read = columns_in(by)
            if by == BY_PARTITION or not read or not read <= set(newest.key):
                expected = f"expected `clickhouse.shard_by` of {log} to use columns of it alone, not `{by}`: "
                raise WrongKey((*place, "key"), f"{expected}all rows of a key have to be on one shard")

    @model_validator(mode="after")
    def _names_tables(self) -> Pipeline:
        least = self.lookback + self.slice + max(self.settle, self.success_grace)
        tables = {target.table for target in self.targets}
        self.keep.check(least, tables)
        self.clickhouse.check(tables)
        return self

    @property
    def clusters(self) -> tuple[str, ...]:
        return tuple(cluster.cluster for cluster in self.kafka)

    def cluster(self, name: str) -> Cluster:
        """Raises WrongUse."""
        for cluster in self.kafka:
            if cluster.cluster == name:
                return cluster
        raise WrongUse(
            f"pipeline {self.name} has no Kafka cluster {name!r}, so it is not asked: put it back "
            "under `kafka` in the pipeline file"
        )

    @property
    def rows_per_task(self) -> int:
        """How many offsets of a partition one task reads at most: with `event.batch` any number, because
        copies are told apart within one task."""
        return self.rows_per_read if self.event.batch is None else _ANY_ROWS

    @property
    def success_grace(self) -> timedelta:
        """How long after an event hour's end its folder's `_SUCCESS` waits for late slices."""
        return self.slice if self.grace is None else self.grace

    @property
    def types(self) -> tuple[str, ...]:
        """The types that have a table of their own."""
        return tuple(name for name in self.tables if name != CATCH_ALL)

    @property
    def evolving_types(self) -> frozenset[str]:
        """Those whose table may get columns of their fields, which are counted exactly; `*` stands for those
        without a line of their own."""
        return frozenset(name for name, target in self.tables.items() if target.evolves)

    def model_post_init(self, context: Any, /) -> None:
        """Keeps where the file is: `file` and `config` of the context."""
        if isinstance(context, dict):
            self._file, self._config = context.get("file"), context.get("config")

    def command(self, command: str, *words: str) -> str:
        """Returns a `sluice` command on this pipeline, exactly as a shell takes it."""
        return command_line(self.name, self._config, command, *words)

    @property
    def file(self) -> Path | None:
        """The file that it was read from."""
        return self._file

    @property
    def config(self) -> Path | None:
        """Its file, where a command does not find it by the pipeline's name."""
        return self._config

    @property
    def since(self) -> datetime | None:
        """The earliest slice of hourly runs, where the file says one."""
        return self.start if isinstance(self.start, datetime) else None

    def group_of(self, cluster: Cluster) -> str | None:
        """Returns the consumer group of which the cluster's first boundaries are."""
        starts = (cluster.start, self.start)
        return next((start.group for start in starts if isinstance(start, FromGroup)), None)

    @property
    def targets(self) -> tuple[Target, ...]:
        """Each target table once, with the types that are routed to it; then those of traffic counts, then
        those that are made from them."""
        named: dict[str, list[str]] = {}
        for name, target in self.tables.items():
            named.setdefault(target.table, []).append(name)
        events = (
            self.tables[names[0]].model_copy(
                update={
                    "types": tuple(name for name in names if name != CATCH_ALL),
                    "catch_all": CATCH_ALL in names,
                }
            )
            for names in named.values()
        )
        counted = (Target(table=counts.table, counted=True) for counts in self.counts)
        derived = (Target(table=table, rollup=made_by) for table, made_by in self.derived.items())
        return (*events, *counted, *derived)

    @property
    def derived(self) -> dict[str, Derived]:
        """By table what it is made by of another table's rows: the rollups, and the tables of newest rows."""
        by_row = self.event.arrays
        latest = {t.latest.table: t.newest(by_row) for t in self.tables.values() if t.latest is not None}
        return {**self.rollups, **{name: newest for name, newest in latest.items() if newest is not None}}

    def chosen(self, tables: Collection[str] | None) -> tuple[Target, ...]:
        """Returns those of the targets, in their order; without a choice all."""
        return tuple(target for target in self.targets if tables is None or target.table in tables)

    def routed(self, target: Target, types: Iterable[str]) -> tuple[str, ...]:
        """Returns those of `types` (names found in a slice) whose rows go to `target`, sorted."""
        own_types = set(target.types)
        other_types = set(self.types) - own_types
        return tuple(
            sorted(t for t in types if t in own_types or (target.catch_all and t not in other_types))
        )


# The tables that a command or a run names, and those that go with them.

Tables = frozenset[str]


def tables_for(pipeline: Pipeline, names: Sequence[str], mode: str) -> Tables | None:
    """As `chosen_tables`. A repair loads no more than it has to, and no traffic counts: their rows are not
    made of the table's. Raises WrongUse, also for a mode that replaces all tables' rows."""
    tables = chosen_tables(pipeline, names, counts=mode != "repair")
    if tables is not None and mode in ("remake", "reland"):
        raise WrongUse(
            f"mode {mode} replaces the hours in the lake, and so in all tables: choose no table, or load the "
            "table again from the lake with mode reload"
        )
    return tables


def chosen_tables(pipeline: Pipeline, names: Sequence[str], *, counts: bool = True) -> Tables | None:
    """Returns the named target tables with what goes with them, or None for all of the pipeline's.

    A name is `database.table`, a type that the file routes to a table, or a table's name where only one
    database has it. With a table go its rollups, and with `counts` the traffic counts of its types alone.

    Raises WrongUse for a name that is none of these, or several.
    """
    named = {_named(pipeline, name) for name in names}
    if not named:
        return None
    targets = pipeline.targets
    chosen = set(named)
    for target in targets:  # a rollup comes after what it is made from
        source = target.rollup.source if target.rollup else ""
        if source in chosen or (counts and target.counted and _counts_only(pipeline, target, named)):
            chosen.add(target.table)
    return None if len(chosen) == len(targets) else frozenset(chosen)


def _named(pipeline: Pipeline, name: str) -> str:
    tables = [target.table for target in pipeline.targets]
    if name in tables:
        return name
    if name in pipeline.tables:
        return pipeline.tables[name].table
    same = [table for table in tables if table.partition(".")[2] == name]
    if len(same) == 1:
        return same[0]
    if same:
        raise WrongUse(f"table {name!r}: which one? {' or '.join(same)}")
    near = get_close_matches(name, [*tables, *pipeline.tables, *(t.partition(".")[2] for t in tables)], 1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(tables) or 'none'}"
    raise WrongUse(f"pipeline {pipeline.name} has no table {name!r}; {hint}")


def _counts_only(pipeline: Pipeline, counted: Target, named: set[str]) -> bool:
    """Returns whether all types that the traffic counts have go to the tables."""
    types = next(counts.types for counts in pipeline.counts if counts.table == counted.table)
    return all(target.table in named for target in _takers(pipeline, types))


def _takers(pipeline: Pipeline, types: Sequence[str]) -> Iterator[Target]:
    """Yields the tables of events into which those types go, without types all."""
    for target in pipeline.targets:
        plain = not target.counted and target.rollup is None
        if plain and (not types or pipeline.routed(target, types)):
            yield target
