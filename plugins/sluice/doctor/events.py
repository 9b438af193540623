"""Sample records become events by type, read as the landing reads them, and their fields are counted."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, render, table
from sluice.clients.clickhouse.tables import Column
from sluice.clients.kafka.topics import SampledRecord
from sluice.config.event import Event, TypeSource
from sluice.config.pipeline import CATCH_ALL, Pipeline, Target
from sluice.config.yaml_text import scalar
from sluice.doctor.check import Area, Check, ok, warn
from sluice.field_path import MOST_NAMES, FieldPath, first_field, holds, names_of, path_of
from sluice.flow.land.reject_reasons import TOO_LARGE, Rejected
from sluice.flow.land.task.columns import to_json
from sluice.flow.land.task.decode import Decoding, Opened, decoding_of, opener
from sluice.flow.land.task.parse import Parser, fields_of, slow_read
from sluice.flow.land.task.records import REASON, TYPE, table_of
from sluice.flow.load.casts.columns import HOLDERS, RULES
from sluice.flow.load.casts.event_paths import RESERVED
from sluice.infer.infer import InferredColumn, column, relied_on
from sluice.infer.types import STRING, ArrayOf, Inferred, Rules, is_container, nullable
from sluice.infer.values import NumberSpan, far_times, loads
from sluice.mask.mask_rules import MaskRules
from sluice.mask.unit_mask import UnitMask
from sluice.runtime import deeper
from sluice.safe_text import visible
from sluice.slices import to_ms

MOST_LEVELS = 50  # a column's path has fewer


@dataclass(frozen=True)
class Sampled:
    """An event that has a type, the record that it came in, and its payload's text."""

    type: str
    record: SampledRecord
    payload: str

    @property
    def event(self) -> dict[str, Any]:
        with deeper():
            content: dict[str, Any] = loads(self.payload)
        return content


@dataclass(frozen=True)
class EventSample:
    """`refused` counts the records, and rows of records, that could not be landed as rows, by reason.
    `times`: the numbers of the time field, of all of them."""

    events: tuple[Sampled, ...]
    refused: Mapping[str, int]
    times: NumberSpan = field(default_factory=NumberSpan)

    def types(self) -> dict[str, int]:
        counts: dict[str, int] = defaultdict(int)
        for item in self.events:
            counts[item.type] += 1
        return dict(sorted(counts.items()))


def parse(event: Event, records: Sequence[SampledRecord], decoding: Decoding | None = None) -> EventSample:
    """Returns the records of one topic through the landing's own parser, without limits on the event time.

    Raises what a schema registry raises.
    """
    large = sum(record.too_large is not None for record in records)
    records = [record for record in records if record.too_large is None]
    refused = EventSample((), {TOO_LARGE: large} if large else {})
    if not records:
        return refused
    topic, parser = records[0].topic, Parser(event)
    batch = pa.record_batch(
        {
            "value": pa.array([record.value for record in records], pa.binary()),
            "key": pa.nulls(len(records), pa.binary()),
            "headers": pa.array([to_json(record.headers) for record in records], pa.string()),
            "offset": pa.array(range(len(records)), pa.int64()),
            "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
        }
    )
    # The offset of each is its position, whatever it is in Kafka.
    table = table_of(batch, "", topic, 0, np.zeros(len(records), np.int64))
    pieces = opener(event, decoding)(table)
    return joined([refused, *(_sample(event, parser, piece, records) for piece in pieces)])


def _sample(event: Event, parser: Parser, piece: Opened, records: Sequence[SampledRecord]) -> EventSample:
    refused = Counter(_reasons(piece.rejected))
    if not piece.events.num_rows:
        return EventSample((), dict(refused))
    parsed, rejected = parser.split(piece.events)
    columns = (parsed[name].to_pylist() for name in (TYPE, "_offset", "_payload"))
    events = (
        Sampled(parser.types.names[code], records[position], payload.decode())
        for code, position, payload in zip(*columns, strict=True)
    )
    refused.update(_reasons(rejected))
    return EventSample(tuple(events), dict(refused), _numbers(event, piece.events["_payload"].to_pylist()))


def _reasons(rejected: pa.Table | None) -> list[Any]:
    return [] if rejected is None else rejected[REASON].to_pylist()


def _numbers(event: Event, values: Iterable[bytes | None]) -> NumberSpan:
    """Reads the time field of what is refused, too. Nothing of times that are no numbers."""
    span = NumberSpan()
    if event.time.record or event.time.format == "iso8601":
        return span
    time_field = fields_of(Event(type=TypeSource(topic=True), time=event.time))
    for value in values:
        with suppress(Rejected):
            span.take(slow_read(value or b"", time_field))
    return span


def masked(sample: EventSample, rules: MaskRules | None) -> EventSample:
    """Returns the sample as the landing would keep its events."""
    if rules is None:
        return sample
    unit = UnitMask(rules)
    masks = {kind: unit.event_of(kind) for kind in sample.types()}
    with deeper():
        events = [
            replace(sampled, payload=masks[sampled.type](sampled.payload.encode()).decode())
            for sampled in sample.events
        ]
    return replace(sample, events=tuple(events))


def joined(samples: Iterable[EventSample]) -> EventSample:
    """Several topics' samples as one."""
    events: list[Sampled] = []
    refused: dict[str, int] = defaultdict(int)
    times = NumberSpan()
    for sample in samples:
        events += sample.events
        times.take((sample.times.low, sample.times.high))
        for reason, count in sample.refused.items():
            refused[reason] += count
    return EventSample(tuple(events), dict(refused), times)


def fields(events: Iterable[Mapping[str, Any]]) -> dict[FieldPath, list[Any]]:
    """Returns every value of each field, by its path. An object is taken apart; an empty one, or one that
    lies deeper than `MOST_LEVELS`, is a value."""
    values_by_path: dict[FieldPath, list[Any]] = defaultdict(list)
    for event in events:
        _collect(event, (), values_by_path)
    return dict(values_by_path)


def _collect(value: Any, path: FieldPath, values_by_path: dict[FieldPath, list[Any]]) -> None:
    if isinstance(value, Mapping) and value and len(path) < MOST_LEVELS:
        for name, inner in value.items():
            _collect(inner, (*path, name), values_by_path)
    elif path:
        values_by_path[path].append(value)


def format_checks(event: Event) -> Iterator[Check]:
    """Raises SchemaRefused, WrongUse, RegistryUnavailable, RegistryRefused."""
    decoding = decoding_of(event)
    if decoding is None:
        return
    if decoding.file:
        yield ok(Area.SCHEMA, "format", f"{event.format.kind}: {decoding.file} can be used")
    if decoding.registry is not None:
        from sluice.flow.land.formats.registry import SchemaRegistry

        SchemaRegistry(decoding.registry, serialized=False).check()
        yield ok(Area.SCHEMA, "format", f"the schema registry {decoding.registry.url} answers as one")


# Holds the fields of sample events against the columns of a target, and proposes a table for them.

_HALVES = re.compile("[\ud800-\udfff]")

MOST_FIELDS = 100  # without a column, that are reported one by one


@dataclass(frozen=True)
class Fit:
    """`filled` columns found their field, `empty` ones did not; `unfilled` fields have no column."""

    filled: tuple[str, ...]
    empty: tuple[str, ...]
    unfilled: Mapping[FieldPath, str]


def fit(
    columns: Sequence[Column],
    paths: Mapping[str, str],
    events: Sequence[Mapping[str, Any]],
    type_path: FieldPath = (),
) -> Fit:
    """`paths` gives the field of those columns that are not named like theirs; the types of fields
    without a column are proposals. The field at `type_path`, the event's type, needs none."""
    values_by_path = fields(events)
    path_by_column = {
        one.name: path_of(one.name, paths) for one in columns if one.taken and one.name not in HOLDERS
    }
    filled = tuple(
        name for name, path in path_by_column.items() if any(holds(path, field) for field in values_by_path)
    )
    unfilled = {
        path: column(path[-1], values, len(events), RULES).type
        for path, values in values_by_path.items()
        if not any(holds(taken, path) for taken in path_by_column.values())
        and path[0] not in HOLDERS
        and not (type_path and holds(type_path, path))
    }
    return Fit(filled, tuple(name for name in path_by_column if name not in filled), unfilled)


def fit_checks(
    pipeline: Pipeline, target: Target, columns: Sequence[Column], events: Sequence[Mapping[str, Any]]
) -> Iterator[Check]:
    """Yields checks of one target's columns; `events` are the sample's of the types routed to it."""
    place = f"table {target.table}"
    type_field = names_of(pipeline.event.type.field) if pipeline.event.type.field else ()
    matched = fit(columns, target.columns, events, type_field)
    text = f"{len(events):,} events; columns with a field: {', '.join(matched.filled) or 'none'}"
    yield ok(Area.SCHEMA, place, text)
    for name in matched.empty:
        remedy = f"if it has another name in the event: `columns: {{{name}: path.to.field}}`"
        text = f"column {name} has no field in any of them: it takes its DEFAULT"
        yield warn(Area.SCHEMA, place, text, remedy)
    if target.catch_all and any(column.name == "_payload" for column in columns):
        return
    unfilled = [(path, kind) for path, kind in matched.unfilled.items() if RESERVED not in path]
    for path, kind in unfilled[:MOST_FIELDS]:
        text = f"field {visible('.'.join(path))} has no column: it stays in the lake"
        yield warn(Area.SCHEMA, place, text, add_column(target, columns, path, kind))
    if len(unfilled) > MOST_FIELDS:
        propose = pipeline.command("doctor", "--ddl", next(iter(target.types), CATCH_ALL))
        text = f"{len(unfilled) - MOST_FIELDS:,} more fields have no column: they stay in the lake"
        yield warn(Area.SCHEMA, place, text, f"`{propose}` proposes a table for them")


def add_column(target: Target, columns: Sequence[Column], path: FieldPath, kind: str) -> str:
    """Returns the statement that gives a field a column, and for an inner field the line of the pipeline
    file."""
    name = column_name(path, {column.name for column in columns})
    statement = f"ALTER TABLE {table(target.table)} ADD COLUMN {identifier(name)} {kind}"
    if path == (name,):
        return statement
    return f"{statement}, and `columns: {{{scalar(name)}: {scalar('.'.join(path))}}}`"


def column_name(path: FieldPath, taken: set[str]) -> str:
    """`a_b` for the field `b` of `a`, with a number where that name is taken. Half surrogates, which JSON can
    escape and UTF-8 cannot hold, become `_`."""
    plain = _HALVES.sub("_", "_".join(path))
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}_{number}"
    return name


def sample_checks(pipeline: Pipeline, sample: EventSample, now: datetime) -> Iterator[Check]:
    """Yields what of the sample would not be landed as rows, and which types go to no table, and
    whether its times are those of `now`."""
    total = len(sample.events) + sum(sample.refused.values())
    yield ok(Area.SCHEMA, "sample", f"{total:,} records, types: {_counted(sample.types())}")
    for reason, count in sorted(sample.refused.items()):
        remedy = "correct `event` in the pipeline file, or the producer; they go to the lake's _rejected/"
        yield warn(Area.SCHEMA, "sample", f"{count:,} of {total:,} records are rejected: {reason}", remedy)
    if far := far_times(pipeline.event.time, sample.times, to_ms(now)):
        finding, _, remedy = far.partition("; ")
        yield warn(Area.SCHEMA, "event.time", finding, remedy)
    routed = {t for target in pipeline.targets for t in pipeline.routed(target, sample.types())}
    for name, count in sample.types().items():
        if name not in routed:
            remedy = 'give it a table under `tables`, or a catch-all: "*": database.table'
            yield warn(Area.SCHEMA, f"type {name}", f"{count:,} events go to no table", remedy)


def _counted(types: Mapping[str, int], shown: int = 20) -> str:
    counts = [f"{name} {count:,}" for name, count in list(types.items())[:shown]]
    more = [f"and {len(types) - shown:,} more"] if len(types) > shown else []
    return ", ".join(counts + more) or "none"


MOST_COLUMNS = 1_000
"""As wide as tables are that a load is tried with."""
_NAME_CHARACTERS = 60  # a table's name is a file's, with each character that is no letter as three
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# What Sluice needs, and what tells a row's place in Kafka.
_SLUICE_COLUMNS = {
    "_slice": "DateTime('UTC')",
    "_cluster": "LowCardinality(String)",
    "_type": "LowCardinality(String)",
    "_topic": "LowCardinality(String)",
    "_partition": "Int32",
    "_offset": "Int64",
    "_timestamp": "DateTime64(3, 'UTC')",
}
_ARRAY = {"_row": "Int32"}  # without it rows of one record cannot be told apart
_CATCH_ALL = {"_payload": "String"}


@dataclass(frozen=True)
class ProposedColumns:
    """`columns` by name; `paths` are the fields of those that are not named like theirs. `left_out` counts
    the fields beyond `MOST_COLUMNS`, `unusable` are those whose name no column can have; `renamed` gives the
    column of each field whose name is one of an element of another column, too."""

    columns: Mapping[str, InferredColumn]
    paths: Mapping[str, str]
    left_out: int = 0
    unusable: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)

    def notes(self) -> list[str]:
        """Returns what of the sample no column will hold."""
        lines = [
            f"{visible(name)}: {inferred.warning}"
            for name, inferred in self.columns.items()
            if inferred.refused
        ]
        lines += [
            f"field {visible(name)!r} can have no column: it stays in the lake" for name in self.unusable
        ]
        lines += [
            f"field {visible(name)!r} has the column {visible(as_column)}: its own name is that of an "
            "element of another column"
            for name, as_column in self.renamed.items()
        ]
        if self.left_out:
            lines.append(f"{self.left_out:,} more fields have no column: they stay in the lake")
        return lines


@dataclass(frozen=True)
class TableProposal:
    """A table for the events of one type; `arrays`: messages are arrays of events."""

    type: str
    table: str
    columns: ProposedColumns
    arrays: bool

    @property
    def statement(self) -> Sql:
        return create_table(self.table, self.columns.columns, self.arrays)

    @property
    def entry(self) -> str:
        """The line below `tables:` in the pipeline file."""
        return entry(self.type, self.table, self.columns.paths)


def entry(kind: str, name: str, paths: Mapping[str, str]) -> str:
    if not paths:
        return f"  {scalar(kind)}: {scalar(name)}"
    mapped = ", ".join(f"{scalar(column)}: {scalar(path)}" for column, path in paths.items())
    return f"  {scalar(kind)}: {{table: {scalar(name)}, columns: {{{mapped}}}}}"


def create_table(
    name: str,
    columns: Mapping[str, InferredColumn],
    arrays: bool = False,
    catch_all: bool = False,
    unless_there: bool = False,
) -> Sql:
    lines = [
        f"{identifier(key)} {inferred.type} COMMENT {literal(inferred.comment)}"
        for key, inferred in columns.items()
    ]
    sluice_columns = {**(_CATCH_ALL if catch_all else {}), **_SLUICE_COLUMNS, **(_ARRAY if arrays else {})}
    lines += [f"{identifier(key)} {kind}" for key, kind in sluice_columns.items()]
    return render(
        "doctor/create_table",
        unless=Sql("IF NOT EXISTS " if unless_there else ""),
        table=table(name),
        columns=listed([f"    {line}" for line in lines], ",\n"),
    )


def propose(
    pipeline: Pipeline, kind: str, events: Sequence[Mapping[str, Any]], rules: Rules
) -> TableProposal:
    given = landed_fields(pipeline.event.type.field, pipeline.event.time.field)
    proposed, target = columns_of(events, rules, given), pipeline.tables.get(kind)
    columns = _mapped(proposed, target.columns, events, rules, given) if target else proposed
    return TableProposal(kind, _table(pipeline, kind), columns, pipeline.event.arrays)


def landed_fields(*paths: str | None) -> frozenset[str]:
    """Returns the fields without which no event lands, of the paths of its type and its time."""
    return frozenset(path for path in paths if path)


def _mapped(
    proposed: ProposedColumns,
    paths: Mapping[str, str],
    events: Sequence[Mapping[str, Any]],
    rules: Rules,
    given: Collection[str],
) -> ProposedColumns:
    """With the columns that the pipeline file fills from paths of its own."""
    named = {
        name: column(name, _at(events, names_of(path)), len(events), rules, path in given)
        for name, path in paths.items()
    }
    return replace(proposed, columns={**proposed.columns, **named}, paths={**proposed.paths, **paths})


def _at(events: Sequence[Mapping[str, Any]], path: FieldPath) -> list[Any]:
    """Returns the values of a field, of those events that have one."""
    return [value for event in events if (value := first_field(event, path)) is not None]


def columns_of(
    events: Sequence[Mapping[str, Any]], rules: Rules, always: Collection[str] = ()
) -> ProposedColumns:
    """Returns a column for every field of the events, of more than `MOST_COLUMNS` for those that most events
    have. `always`: fields that no event lacks, as somebody says."""
    values_by_field: dict[str, list[Any]] = defaultdict(list)
    for event in events:
        for name, value in event.items():
            values_by_field[name].append(value)
    unusable = tuple(name for name in values_by_field if not _usable(name))
    usable = {name: values for name, values in values_by_field.items() if name not in unusable}
    chosen = set(sorted(usable, key=lambda name: -len(usable[name]))[:MOST_COLUMNS])
    found = {
        name: column(name, values, len(events), rules, name in always)
        for name, values in usable.items()
        if name in chosen
    }
    elements = {name for name in found if _names_element(name, found)}
    columns: dict[str, InferredColumn] = {}
    paths: dict[str, str] = {}
    # Those that are renamed come last: another field may have the plain name.
    for name, inferred in sorted(found.items(), key=lambda pair: pair[0] in elements):
        path = names_of(name) if name in elements else (name,)
        as_column = column_name(path, set(columns) | set(HOLDERS))
        relied = relied_on(name, inferred.present, inferred.total, rules, name in always)
        columns[as_column] = _unnested(as_column, inferred, STRING if relied else nullable(STRING))
        if as_column != name:
            paths[as_column] = name
    renamed = {paths[as_column]: as_column for as_column in paths if paths[as_column] in elements}
    return ProposedColumns(columns, paths, len(usable) - len(chosen), unusable, renamed)


def _names_element(name: str, found: Mapping[str, InferredColumn]) -> bool:
    """Returns whether ClickHouse may take `a.b` for a part of a column `a`, which has parts."""
    names = names_of(name)
    outer = (".".join(names[:size]) for size in range(1, len(names)))
    return any(other in found and is_container(found[other].kind) for other in outer)


def _usable(name: str) -> bool:
    """A column of another name has the field's as a path in the pipeline file."""
    names = names_of(name)
    return name != "" and RESERVED not in names and len(names) <= MOST_NAMES


def _unnested(name: str, inferred: InferredColumn, text: Inferred) -> InferredColumn:
    """ClickHouse takes arrays with a dot in their names for parts of a Nested, of one length: a text."""
    if "." not in name or not isinstance(inferred.kind, ArrayOf):
        return inferred
    return replace(inferred, kind=text, refused=0, unfit_values=())


def _table(pipeline: Pipeline, kind: str) -> str:
    """Returns the type's own table, else one of its name beside the catch-all."""
    if kind in pipeline.tables:
        return pipeline.tables[kind].table
    beside = pipeline.tables.get(CATCH_ALL) or next(iter(pipeline.tables.values()), None)
    return f"{beside.database if beside else pipeline.name}.{table_name(kind)}"


def table_name(kind: str) -> str:
    """Returns a table's name for a type of event: `push_event` for PushEvent."""
    words = _CAMEL.sub("_", kind).lower()
    return re.sub(r"\W+", "_", words)[:_NAME_CHARACTERS].strip("_") or "events"
