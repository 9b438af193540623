"""The pipeline file: what one pipeline reads, how, and where it goes. The model is the documentation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from sluice.alarms.settings import Alarms
from sluice.durations import Duration, OptionalDuration
from sluice.slices import HOUR, floor, utc

CATCH_ALL = "*"
_DAY = timedelta(days=1)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _plain_name(value: str) -> str:
    """Names that become folders, file names and table names have to be plain."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.]{0,62}", value):
        raise ValueError("expected letters, digits, _ and . only, at most 63")
    return value


PlainName = Annotated[str, AfterValidator(_plain_name)]


class Cluster(_Strict):
    """One independent Kafka cluster; its name is part of the identity of every record."""

    cluster: PlainName
    topics: list[str] = Field(min_length=1)
    bootstrap: str | None = None
    connection: str | None = None
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"

    @model_validator(mode="after")
    def _one_address(self) -> Cluster:
        if (self.bootstrap is None) == (self.connection is None):
            raise ValueError("expected exactly one of `bootstrap` and `connection`")
        if len(set(self.topics)) != len(self.topics):
            raise ValueError("a topic is listed twice")
        return self


class TypeSource(_Strict):
    """Where a record's type is: a field of the event (a dotted path), a record header, or its topic."""

    field: str | None = None
    header: str | None = None
    topic: bool = False

    @model_validator(mode="after")
    def _one_source(self) -> TypeSource:
        if sum([self.field is not None, self.header is not None, self.topic]) != 1:
            raise ValueError("expected exactly one of {field: …}, {header: …}, {topic: true}")
        return self


class TimeSource(_Strict):
    """Where a record's event time is: a field of the event, or the record's own timestamp."""

    field: str | None = None
    format: Literal["iso8601", "epoch_s", "epoch_ms"] = "iso8601"
    record: bool = False

    @model_validator(mode="after")
    def _one_source(self) -> TimeSource:
        if (self.field is None) != self.record:
            raise ValueError("expected exactly one of {field: …, format: …} and {record: true}")
        return self


class Event(_Strict):
    type: TypeSource
    time: TimeSource


class ClickHouse(_Strict):
    """How the tables are reached. `read`: the server pulls the lake's files, or they are pushed to it."""

    connection: str = "clickhouse_default"
    read: Literal["auto", "pull", "push"] = "auto"
    lease: Duration = timedelta(seconds=30)


class Target(_Strict):
    """One target table: the types that it takes, and where a column is not named like its field."""

    table: str
    columns: Mapping[str, str] = Field(default_factory=dict)
    types: tuple[str, ...] = ()
    catch_all: bool = False

    @field_validator("table")
    @classmethod
    def _qualified(cls, value: str) -> str:
        if len(value.split(".")) != 2 or not all(value.split(".")):
            raise ValueError(f"expected database.table, not {value!r}")
        return value

    @property
    def database(self) -> str:
        return self.table.split(".")[0]

    @property
    def name(self) -> str:
        return self.table.split(".")[1]


class Pipeline(_Strict):
    name: PlainName
    kafka: list[Cluster] = Field(min_length=1)
    event: Event
    lake: str
    lake_connection: str | None = None
    tables: dict[str, Target] = Field(default_factory=dict)
    clickhouse: ClickHouse = ClickHouse()
    rows_per_read: int = Field(500_000, ge=1)
    slice: Duration = HOUR
    start: datetime | None = None
    settle: Duration = timedelta(minutes=2)
    grace: OptionalDuration = None
    heal: Duration = _DAY
    on_expired: Literal["fail", "land_rest"] = "fail"
    max_early: OptionalDuration = HOUR
    max_late: OptionalDuration = None
    max_types: int = Field(1000, ge=1)
    stalled_after: int = Field(24, ge=0)  # slices without a record; 0: never
    spark: dict[str, str] = Field(default_factory=dict)
    spark_connection: str = "spark_default"
    alarms: Alarms = Alarms()

    @field_validator("tables", mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        """`click: events.clicks` is short for `click: {table: events.clicks}`."""
        if not isinstance(value, dict):
            raise ValueError("expected a mapping of type to table")
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"YAML reads a type as {key!r}: put it in quotes")
            if isinstance(item, dict) and item.keys() - {"table", "columns"}:
                raise ValueError(f"{key}: expected only `table` and `columns`")
        return {key: {"table": item} if isinstance(item, str) else item for key, item in value.items()}

    @field_validator("lake")
    @classmethod
    def _known_scheme(cls, value: str) -> str:
        root = value.rstrip("/")
        if not re.fullmatch(r"file://.+|s3://[^/].*", root):
            raise ValueError(f"expected file://… or s3://bucket/prefix, not {value!r}")
        return root

    @field_validator("slice")
    @classmethod
    def _divides_day(cls, value: timedelta) -> timedelta:
        if not timedelta(minutes=15) <= value <= _DAY or _DAY % value or value % timedelta(minutes=15):
            raise ValueError("expected 15m … 1d, a multiple of 15m that divides the day")
        return value

    @field_validator("start")
    @classmethod
    def _start_in_utc(cls, value: datetime | None) -> datetime | None:
        return None if value is None else utc(value)

    @model_validator(mode="after")
    def _consistent(self) -> Pipeline:
        names = [cluster.cluster for cluster in self.kafka]
        if len(set(names)) != len(names):
            raise ValueError("kafka: a cluster's name is used twice")
        mappings: dict[str, Mapping[str, str]] = {}
        for target in self.tables.values():
            if mappings.setdefault(target.table, target.columns) != target.columns:
                raise ValueError(f"tables: {target.table} has two different `columns`")
        if self.start is not None and floor(self.start, self.slice) != self.start:
            raise ValueError("start: expected an instant on a slice's edge")
        return self

    @property
    def clusters(self) -> tuple[str, ...]:
        return tuple(cluster.cluster for cluster in self.kafka)

    def cluster(self, name: str) -> Cluster:
        return next(cluster for cluster in self.kafka if cluster.cluster == name)

    @property
    def success_grace(self) -> timedelta:
        """How long after an event hour's end its folder's `_SUCCESS` waits for late slices."""
        return self.slice if self.grace is None else self.grace

    @property
    def types(self) -> tuple[str, ...]:
        """The types that have a table of their own."""
        return tuple(name for name in self.tables if name != CATCH_ALL)

    @property
    def targets(self) -> tuple[Target, ...]:
        """Each target table once, with the types that are routed to it."""
        merged: dict[str, Target] = {}
        for name, target in self.tables.items():
            known = merged.get(target.table, target)
            types = known.types if name == CATCH_ALL else (*known.types, name)
            catch_all = known.catch_all or name == CATCH_ALL
            merged[target.table] = known.model_copy(update={"types": types, "catch_all": catch_all})
        return tuple(merged.values())

    def routed(self, target: Target, types: object) -> tuple[str, ...]:
        """Those of `types` (names found in a slice) whose rows go to `target`, sorted."""
        own = set(target.types)
        others = set(self.types) - own
        return tuple(sorted(t for t in types if t in own or (target.catch_all and t not in others)))
