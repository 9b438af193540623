"""Rejected records by where, reason and column. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.shards import Servers
from sluice.clients.clickhouse.sql import render
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.flow.land import reject_reasons as why
from sluice.flow.load.casts.judged import MISSING, TWICE
from sluice.flow.load.row_checks import FAILS
from sluice.manifest import SHIPPED_TWICE, TOMBSTONE, Manifest
from sluice.safe_text import Say
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.ledger import unit_of
from sluice.state.manifests import landed_units, read_manifests
from sluice.state.system_tables import own_tables, read_rejected_rows
from sluice.state.units import awaits, units_of

Kind = Literal["record", "row"]


@dataclass(frozen=True, order=True)
class RejectionCause:
    """Why records were rejected: `rejected_records` by the landing, or a `unfit` of a table's column."""

    kind: Kind
    table: str
    column: str
    reason: str

    @property
    def place(self) -> str:
        return row_place(self.table, self.column)


def row_place(table: str, column: str) -> str:
    """Returns what rejected a row: a column of the table, or the table, which reads nothing of the event."""
    return f"{table}.{column}" if column else table


TOMBSTONES = RejectionCause("record", "", "", TOMBSTONE)
"""What stands beside rejected records, and is none of them: no fix makes a row of it."""


@dataclass(frozen=True)
class Rejection:
    """How many records of a unit one cause has rejected; of some the lake has `forgotten` the bytes."""

    unit: Unit
    cause: RejectionCause
    records: int
    forgotten: int = 0

    @property
    def held(self) -> int:
        return self.records - self.forgotten


@dataclass(frozen=True)
class RejectionFilter:
    """Which rejections are asked for. A column, type or table is asked of rejected rows alone: of an rejected
    record neither is known. `tables` are target tables, None all of them."""

    reason: str = ""
    column: str = ""
    type: str = ""
    tables: frozenset[str] | None = None

    @property
    def rejected_records(self) -> bool:
        """Returns whether an rejected record may match."""
        return not self.column and not self.type and self.tables is None

    def takes(self, reason: str) -> bool:
        return self.reason.casefold() in reason.casefold()


@dataclass
class RejectedGroup:
    """All rejections of one cause. `first` and `last` are the slices that have the first and the last,
    `last_held` the last one of which the lake holds the bytes."""

    cause: RejectionCause
    first: Slice
    last: Slice
    records: int = 0
    slices: int = 0
    forgotten: int = 0
    last_held: Slice | None = None

    def add(self, rejection: Rejection) -> None:
        """Takes the next one: they come in the order of their slices."""
        if not self.records or rejection.unit.slice != self.last:
            self.slices += 1
        self.last = rejection.unit.slice
        self.records += rejection.records
        self.forgotten += rejection.forgotten
        if rejection.held:
            self.last_held = rejection.unit.slice


@dataclass
class RejectionTally:
    """Sums rejections up by cause while they are read, so that a year of them takes little memory.
    `tombstones` are counted apart."""

    groups: dict[RejectionCause, RejectedGroup] = field(default_factory=dict)
    tombstones: int = 0

    def add(self, rejections: Iterable[Rejection]) -> None:
        for rejection in rejections:
            if rejection.cause == TOMBSTONES:
                self.tombstones += rejection.records
                continue
            slice_ = rejection.unit.slice
            self.groups.setdefault(rejection.cause, RejectedGroup(rejection.cause, slice_, slice_)).add(
                rejection
            )

    def records(self, cause: RejectionCause) -> int:
        return self.groups[cause].records if cause in self.groups else 0

    @property
    def sorted(self) -> list[RejectedGroup]:
        """Returns the groups with most records first."""
        return sorted(self.groups.values(), key=lambda group: (-group.records, group.cause))


# Reads what was rejected: rejected records from manifests, rejected rows from ClickHouse, a part of the
# range at a time.

_TOGETHER = 480  # slices of which manifests and rejected rows are in memory at once
_MOST_ROWS = 200_000  # of one answer


@dataclass(frozen=True)
class RejectionReader:
    """Reads the rejections of a pipeline that a filter takes, in the order of their slices."""

    pipeline: Pipeline
    lake: Lake
    rejection_filter: RejectionFilter
    say: Say

    def rejected_records(self, slices: SliceRange) -> Iterator[Rejection]:
        """Yields rejected records, rows of records, and tombstones, by unit and reason. Raises what the lake
        raises."""
        if not self.rejection_filter.rejected_records:
            return
        boundaries = BoundaryLog(self.lake).read()
        for part in parts(slices):
            self._say_progress(part, slices)
            for unit, manifest in read_manifests(
                self.lake, units_of(self.pipeline, part, boundaries)
            ).items():
                yield from rejected_records_of(unit, manifest, self.rejection_filter)

    def unlanded(self, slices: SliceRange) -> tuple[list[Unit], list[Unit]]:
        """Returns the units of the range, and those of them of which nothing has landed."""
        landed = set(landed_units(self.lake, self.pipeline.slice))
        known = units_of(self.pipeline, slices, BoundaryLog(self.lake).read())
        units = [unit for unit in known if unit in landed or awaits(self.pipeline, unit)]
        return units, [unit for unit in units if unit not in landed]

    def rejected_rows(self, servers: Servers, slices: SliceRange) -> Iterator[Rejection]:
        """Yields rejected rows by unit and cause, of all shards. Raises TargetTaken for another pipeline's
        table, and what the clients raise."""
        tables = [t.table for t in self.pipeline.chosen(self.rejection_filter.tables) if t.rollup is None]
        clients = [server.reached for server in servers] if tables else []
        asked = [(one, own_tables(one, self.pipeline, self.lake.url, tables)) for one in clients]
        for part in parts(slices) if tables else ():
            counts: dict[tuple[Unit, RejectionCause], int] = {}
            for client, own in asked:
                for unfit in self._of_server(client, part, own):
                    key = (unfit.unit, unfit.cause)
                    counts[key] = counts.get(key, 0) + unfit.records
            gone = self._forgotten({unit for unit, _ in counts})
            for (unit, cause), records in sorted(counts.items()):
                yield Rejection(unit, cause, records, records if unit in gone else 0)

    def _forgotten(self, units: Collection[Unit]) -> Collection[Unit]:
        """Returns those of which the lake has forgotten the files: they cannot be loaded again."""
        return {unit for unit, m in read_manifests(self.lake, sorted(units)).items() if m.forgotten_on}

    def _of_server(self, client: Client, slices: SliceRange, own: Collection[str]) -> Iterator[Rejection]:
        rows = read_rejected_rows(
            client, "rejected/rejected_rows", self.pipeline, own, self._parameters(slices)
        )
        if len(rows) < _MOST_ROWS:
            for start, cluster, table, column, reason, records in rows:
                cause = RejectionCause("row", table, column, reason)
                yield Rejection(unit_of(self.pipeline, start, cluster), cause, records)
            return
        if len(slices) == 1:
            raise WrongUse(
                f"{slices} has more than {_MOST_ROWS:,} kinds of rejected rows: name --table or --reason"
            )
        for part in parts(slices, (len(slices) + 1) // 2):
            yield from self._of_server(client, part, own)

    def _parameters(self, slices: SliceRange) -> dict[str, Any]:
        return {
            **span(slices),
            "reason": self.rejection_filter.reason,
            "column": self.rejection_filter.column,
            "type": self.rejection_filter.type,
            "most": _MOST_ROWS,
        }

    def _say_progress(self, part: SliceRange, slices: SliceRange) -> None:
        if len(slices) > _TOGETHER:
            done = int((part.start.timestamp() - slices.start.timestamp()) // slices.length.total_seconds())
            self.say(f"reading manifests: {done:,} of {len(slices):,} slices")


def rejected_records_of(unit: Unit, manifest: Manifest, rejection_filter: RejectionFilter) -> list[Rejection]:
    gone = manifest.forgotten_by_reason()
    return [
        Rejection(unit, RejectionCause("record", "", "", reason), records, gone.get(reason, 0))
        for reason, records in manifest.unlanded_by_reason().items()
        if rejection_filter.takes(reason)
    ]


def revoked(servers: Servers, pipeline: Pipeline, lake: str, slices: SliceRange) -> Collection[Unit]:
    """Returns the units whose rows a load that was stopped has taken out of some table."""
    tables = [target.table for target in pipeline.targets]
    parameters = {**span(slices), "targets": tables, "pipeline": pipeline.name, "lake": lake}
    clients = [server.reached for server in servers] if tables else []
    rows = [row for client in clients for row in _rows(client, "rejected/revoked", parameters)]
    return {unit_of(pipeline, start, cluster) for start, cluster in rows}


def parts(slices: SliceRange, most: int = _TOGETHER) -> Iterator[SliceRange]:
    """Yields the range in parts of at most so many slices."""
    start = slices.start
    while start < slices.end:
        end = min(start + most * slices.length, slices.end)
        yield SliceRange(start, end, slices.length)
        start = end


def span(slices: SliceRange) -> dict[str, int]:
    return {"start": int(slices.start.timestamp()), "end": int(slices.end.timestamp())}


def _rows(client: Client, statement: str, parameters: dict[str, Any]) -> list[Any]:
    """Returns nothing where ClickHouse has no table of Sluice's yet."""
    try:
        return list(client.rows(render(statement), parameters))
    except ServerError as error:
        if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            return []
        raise


# What a person can do about rejected records, by reason.

# Reasons that only one format gives; its decoder is not imported for them.
OF_FORMATS = (
    "not Avro of its schema",
    "does not fit the reader's schema",
    "not Protobuf of its message",
)
_RETRY = "retry the rejected records"
_PRODUCER = "correct the producer: such a record becomes no row"
_FORM = (
    "say in `event` what the messages are: `unpack` for compressed values, `format` for other formats; or "
    f"correct the producer; then {_RETRY}"
)
_TYPE = f"let `event.type` name the field or header that has it, or correct the producer; then {_RETRY}"
_TIME = f"let `event.time` name the field and its format, or correct the producer; then {_RETRY}"
_SCHEMA = f"give the registry, or the file that `event` names, the schema of these messages; then {_RETRY}"
_REMEDIES = {
    why.NOT_JSON: _FORM,
    why.LINES: f"set `rows: lines` under `event`; then {_RETRY}",
    why.NOT_UTF8: _FORM,
    why.HALF_PAIR: (
        f"set `event: {{surrogates: replace}}` for U+FFFD in the field that a sample names; then {_RETRY}"
    ),
    why.NO_TYPE: _TYPE,
    why.TYPE_NOT_TEXT: _TYPE,
    why.TYPE_TOO_LONG: _TYPE,
    why.TOO_MANY_TYPES: "let `event.type` name a field with few values: each of them is a folder of the lake",
    why.NO_TIME: _TIME,
    why.TIME_NOT_UNDERSTOOD: _TIME,
    why.TIME_OUT_OF_RANGE: _TIME,
    **{
        reason: f"set `format: {form}` under `event.time`; then {_RETRY}"
        for reasons in (why.OTHER_UNIT, why.NO_UNIT)
        for form, reason in reasons.items()
    },
    why.TOO_MANY_HOURS: f"set `max_late` where years of events are published at once; then {_RETRY}",
    why.FRAMED: f"name the schema registry of these messages as `event.registry`; then {_RETRY}",
    why.NOT_FRAMED: _SCHEMA,
    why.UNKNOWN_SCHEMA: _SCHEMA,
    why.TOO_MANY_UNKNOWN_SCHEMAS: _SCHEMA,
    why.OTHER_SCHEMA: _SCHEMA,
    why.UNREADABLE_SCHEMA: f"the landing's log says what is wrong with it: correct the schema; then {_RETRY}",
    **dict.fromkeys(OF_FORMATS, _SCHEMA),
    why.TOO_LARGE: "raise `max_record` where such records are meant; then `reland`, while Kafka has them",
    why.BECOMES_TOO_LARGE: f"raise `max_record` where such records are meant; then {_RETRY}",
    why.NOT_AN_ARRAY: f"set or remove `event.rows` as the messages are; then {_RETRY}",
    why.NO_ROWS: f"name in `event.rows` the field that holds the rows; then {_RETRY}",
    **dict.fromkeys(
        why.BROKEN_LENGTHS,
        f"correct the producer, or let `event.rows` say what the messages are; then {_RETRY}",
    ),
    why.NOT_UNPACKED: f"correct the producer, or `event.unpack`; then {_RETRY}",
    why.NOT_AN_OBJECT: (
        f"set `rows: array` where messages are arrays of objects, or correct the producer; then {_RETRY}"
    ),
    why.NOT_A_CHANGE: "read topics of tables alone: heartbeats and transactions have topics of their own",
    why.NO_ROW: f"correct the connector, or `event.change`; then {_RETRY}",
    why.NO_KEY: (
        "of a compacted topic name the key's field (`change: {compacted: FIELD}`); of Debezium let the "
        "connector write `before`, or a key of named fields"
    ),
    why.TRUNCATED: "empty the target table by hand: a truncate names no row",
    why.TOO_MANY_BATCHES: f"remove `event.batch`, or publish fewer files at once; then {_RETRY}",
    SHIPPED_TWICE: "nothing: the same event is there once",
}
REJECTED_ROW_REMEDY = (
    f"give the column a type that takes it, then {_RETRY}; if `columns` names another field than is meant, "
    "correct it and `reload` the hours; or correct the producer"
)
_NO_TYPE_HOLDS = (TWICE, "does not fit an object at", "does not fit a JSON object")
NO_TYPE_REMEDY = (
    f"correct the producer, for no column's type takes it; or let `columns` name another field, then {_RETRY}"
)
_NO_UNIT = re.compile(r" without `(format: epoch_\w+)`$")
MISSING_REMEDY = f"let `missing` of the table take a default, then {_RETRY}; or correct the producer"
CHECK_REMEDY = (
    f"correct the check in the table's `checks`, or take it out, then {_RETRY}; or correct the producer"
)
NULL_ITEM_REMEDY = (
    f"make the type Nullable at that place (arrays and maps can't be), then {_RETRY}; or correct the producer"
)
FORGOTTEN_REJECTED_ROW_REMEDY = (
    "the lake has forgotten the hour's files: give the column a type that takes it, then "
    "`reland` the hour, as long as Kafka has it; or correct the producer"
)


def remedy_of(reason: str, unfit: bool, column: str = "") -> str:
    """`column`: of a rejected row the place, `items[].price`. What an item lacks `missing` does not fill."""
    if unfit:
        if reason.startswith(FAILS):
            return CHECK_REMEDY
        if no_type_takes(reason):
            return NO_TYPE_REMEDY
        if unsaid := _NO_UNIT.search(reason):
            return f"set `{unsaid[1]}`, or another unit, for the column in the table's `times`; then {_RETRY}"
        if reason == MISSING:
            return NULL_ITEM_REMEDY if "[" in column else MISSING_REMEDY
        return REJECTED_ROW_REMEDY
    return _REMEDIES.get(reason, _PRODUCER)


def fix_of(reason: str, unfit: bool, column: str = "") -> str:
    """Returns the remedy without its last step, for who is shown the command of that."""
    return re.sub(rf"[,;] then {_RETRY}", "", remedy_of(reason, unfit, column))


def no_type_takes(reason: str) -> bool:
    """Returns whether no type of the column would take such a rejected row."""
    return reason.startswith(_NO_TYPE_HOLDS)


def retryable(reason: str, unfit: bool) -> bool:
    """Returns whether a fix of the file or the table can bring such records in out of the lake."""
    return unfit or reason not in why.NO_FIX
