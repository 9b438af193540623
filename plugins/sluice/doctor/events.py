"""Sample records become events by type, read as the landing reads them, and their fields are counted."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.clients.clickhouse.sql import identifier, table
from sluice.clients.clickhouse.tables import Column
from sluice.clients.kafka.topics import SampledRecord
from sluice.config.event import Event, TimeSource, TypeSource
from sluice.config.pipeline import CATCH_ALL, Pipeline, Target
from sluice.config.yaml_text import scalar
from sluice.doctor.check import Area, Check, ok, warn
from sluice.doctor.proposed_tables import column_name
from sluice.field_path import (
    HEADER,
    Field,
    FieldPath,
    header_of,
    holds,
    names_of,
    paths_of,
)
from sluice.flow.land.reject_reasons import TOO_LARGE, Rejected
from sluice.flow.land.task.columns import to_json
from sluice.flow.land.task.decode import Decoding, decoding_of, opener
from sluice.flow.land.task.opened import Opened
from sluice.flow.land.task.parse import Parser, fields_of, slow_read
from sluice.flow.land.task.records import REASON, TYPE, table_of
from sluice.flow.load.casts.columns import HOLDERS, RULES, filled_fields
from sluice.flow.load.casts.event_paths import RESERVED
from sluice.infer.infer import column
from sluice.infer.values import NumberSpan, far_times, is_local, loads, parts
from sluice.manifest import TOMBSTONE
from sluice.mask.mask_rules import MaskRules
from sluice.mask.unit_mask import UnitMask
from sluice.runtime import deeper
from sluice.safe_text import visible
from sluice.slices import to_ms
from sluice.time_grammar import EPOCHS, unsaid_format

MOST_LEVELS = 50  # a column's path has fewer


@dataclass(frozen=True)
class Sampled:
    """An event that has a type, the record that it came in, and its payload's text. Among the event's fields
    are its headers."""

    type: str
    record: SampledRecord
    payload: str

    @property
    def event(self) -> dict[str, Any]:
        with deeper():
            content: dict[str, Any] = loads(self.payload)
        headers = {f"{HEADER}{name}": value for name, value in self.record.headers}
        texts = {name: value.decode(errors="replace") for name, value in headers.items() if value is not None}
        own = {name: value for name, value in content.items() if not name.startswith(HEADER)}
        return {**own, **texts}


@dataclass(frozen=True)
class EventSample:
    """`refused` counts the records, and rows of records, that could not be landed as rows, by reason.
    `times`: the numbers of the time field, of all of them. `local`: a time without an offset, where the file
    names no zone."""

    events: tuple[Sampled, ...]
    refused: Mapping[str, int]
    times: NumberSpan = field(default_factory=NumberSpan)
    local: str = ""

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
            "key": pa.array([record.key for record in records], pa.binary()),
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
    values = _times(event, piece.events["_payload"].to_pylist())
    span = NumberSpan()
    if event.time.format in EPOCHS:
        span.take(values)
    local = "" if event.time.zone else next(filter(is_local, values), "")
    return EventSample(tuple(events), dict(refused), span, local)


def _reasons(rejected: pa.Table | None) -> list[Any]:
    return [] if rejected is None else rejected[REASON].to_pylist()


def _times(event: Event, values: Iterable[bytes | None]) -> list[Any]:
    """Reads the time field of what is refused, too."""
    times: list[Any] = []
    if event.time.record:
        return times
    time_field = fields_of(Event(type=TypeSource(topic=True), time=event.time))
    for value in values:
        with suppress(Rejected):
            times += slow_read(value or b"", time_field)
    return times


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
    times, local = NumberSpan(), ""
    for sample in samples:
        local = local or sample.local
        events += sample.events
        times.take((sample.times.low, sample.times.high))
        for reason, count in sample.refused.items():
            refused[reason] += count
    return EventSample(tuple(events), dict(refused), times, local)


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

_TIME_TYPE = re.compile(r"DateTime")

MOST_FIELDS = 100  # without a column, that are reported one by one


@dataclass(frozen=True)
class Fit:
    """`filled` columns found their field, `empty` ones did not; `unfilled` fields have no column."""

    filled: tuple[str, ...]
    empty: tuple[str, ...]
    unfilled: Mapping[FieldPath, str]


def fit(
    columns: Sequence[Column],
    paths: Mapping[str, Field],
    events: Sequence[Mapping[str, Any]],
    type_path: FieldPath = (),
) -> Fit:
    """`paths` gives the field of those columns that are not named like theirs; the types of fields
    without a column are proposals. The field at `type_path`, the event's type, needs none."""
    values_by_path = fields(events)
    own, nested = filled_fields(columns, paths)
    taking = {column.name: list(places) for column, places in own}
    for group in nested:
        for name in group.direct if group.objects else ():
            taking[name].append((group.name,))
    filled = tuple(
        name
        for name, ways in taking.items()
        if any(holds(way, field) for way in ways for field in values_by_path)
    )
    unfilled = {
        path: column(path[-1], values, len(events), RULES).type
        for path, values in values_by_path.items()
        if not any(holds(way, path) for ways in taking.values() for way in ways)
        and path[0] not in HOLDERS
        and header_of(path) is None
        and not (type_path and holds(type_path, path))
    }
    return Fit(filled, tuple(name for name in taking if name not in filled), unfilled)


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
        remedy = (
            f"if it has another name in the event: `columns: {{{scalar(name)}: path.to.field}}`, and if it "
            f"had two: `columns: {{{scalar(name)}: [old, new]}}`"
        )
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


def sample_checks(pipeline: Pipeline, sample: EventSample, now: datetime) -> Iterator[Check]:
    """Yields what of the sample would not be landed as rows, and which types go to no table, and
    whether its times are those of `now`."""
    total = len(sample.events) + sum(sample.refused.values())
    yield ok(Area.SCHEMA, "sample", f"{total:,} records, types: {_counted(sample.types())}")
    for reason, count in sorted(sample.refused.items()):
        if reason == TOMBSTONE:
            yield ok(Area.SCHEMA, "sample", f"{count:,} of {total:,} are tombstones, which give no row")
            continue
        remedy = "correct `event` in the pipeline file, or the producer; they go to the lake's _rejected/"
        yield warn(Area.SCHEMA, "sample", f"{count:,} of {total:,} records are rejected: {reason}", remedy)
    if far := far_times(pipeline.event.time, sample.times, to_ms(now)):
        finding, _, remedy = far.partition("; ")
        yield warn(Area.SCHEMA, "event.time", finding, remedy)
    if sample.local:
        text = f"times such as {visible(sample.local)} have no offset: they are read as UTC"
        yield warn(Area.SCHEMA, "event.time", text, _ZONE.format("event.time"))
    routed = {t for target in pipeline.targets for t in pipeline.routed(target, sample.types())}
    for name, count in sample.types().items():
        if name not in routed:
            remedy = 'give it a table under `tables`, or a catch-all: "*": database.table'
            yield warn(Area.SCHEMA, f"type {name}", f"{count:,} events go to no table", remedy)


_ZONE = "name their time zone under `{}`: `zone: Europe/Berlin` or `zone: UTC`"


def time_checks(
    target: Target, columns: Sequence[Column], events: Sequence[Mapping[str, Any]], now: datetime
) -> Iterator[Check]:
    """Yields which columns take times without an offset, or numbers that say no unit, and whose numbers are
    in another unit than the file says."""
    place, values_by_path = f"table {target.table}", fields(events)
    for one in columns:
        said = target.times.get(one.name)
        if not one.taken or one.name in HOLDERS or not _TIME_TYPE.search(one.type):
            continue
        paths = paths_of(one.name, target.columns)
        values = [
            value
            for at, some in values_by_path.items()
            if any(holds(path, at) for path in paths)
            for value in some
        ]
        example = next(filter(is_local, (part for part, _ in parts(values))), "")
        if example and not (said and said.zone):
            text = f"column {one.name}: times such as {visible(example)} have no offset: they are read as UTC"
            yield warn(Area.SCHEMA, place, text, _ZONE.format(f"times: {{{one.name}: …}}"))
        numbers = () if said and said.format else (part for part, _ in parts(values))
        unsaid = next(((part, form) for part in numbers if (form := unsaid_format(part))), None)
        if unsaid is not None:
            text = f"column {one.name}: the size of numbers such as {visible(str(unsaid[0]))} says no unit"
            remedy = f"name it: `times: {{{scalar(one.name)}: {{format: {unsaid[1]}}}}}`"
            yield warn(Area.SCHEMA, place, text, remedy)
        if said and said.format in EPOCHS:
            span = NumberSpan()
            span.take(
                float(value) if isinstance(value, Decimal) else value
                for value in (part for part, _ in parts(values))
            )
            source = TimeSource.model_construct(field=".".join(paths[0]), format=said.format)
            finding, _, remedy = far_times(source, span, to_ms(now), f"times.{one.name}").partition("; ")
            if finding:
                yield warn(Area.SCHEMA, place, f"column {one.name}: {finding}", remedy)


def _counted(types: Mapping[str, int], shown: int = 20) -> str:
    counts = [f"{name} {count:,}" for name, count in list(types.items())[:shown]]
    more = [f"and {len(types) - shown:,} more"] if len(types) > shown else []
    return ", ".join(counts + more) or "none"
