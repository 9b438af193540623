"""Sample records become events by type, read as the landing reads them, and their fields are counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.clients.kafka.topics import SampledRecord
from sluice.config.event import Event, TypeSource
from sluice.doctor.check import Area, Check, ok
from sluice.field_path import FieldPath
from sluice.flow.land.reject_reasons import TOO_LARGE, Rejected
from sluice.flow.land.task.columns import to_json
from sluice.flow.land.task.decode import Decoding, Opened, decoding_of, opener
from sluice.flow.land.task.parse import Parser, fields_of, slow_read
from sluice.flow.land.task.records import REASON, TYPE, table_of
from sluice.infer.values import NumberSpan, loads
from sluice.mask.mask_rules import MaskRules
from sluice.mask.unit_mask import UnitMask
from sluice.runtime import deeper

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
