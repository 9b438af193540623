"""Sample records become events by type, read as the landing reads them, and their fields are counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.clients.kafka.samples import SampledRecord
from sluice.config.event import Event
from sluice.doctor.check import Area, Check, ok
from sluice.field_path import FieldPath
from sluice.flow.land.reject_reasons import TOO_LARGE
from sluice.flow.land.task.columns import HEADERS
from sluice.flow.land.task.decoding import Decoding, decoding_of, opener
from sluice.flow.land.task.parse import Parser, RecordColumns
from sluice.flow.land.task.unpack import UnpackedEvents
from sluice.infer.values import loads
from sluice.mask.mask_rules import MaskRules
from sluice.mask.unit_mask import UnitMask
from sluice.runtime import deeper
from sluice.slices import FIRST_MS, LAST_MS

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
    """`refused` counts the records, and rows of records, that could not be landed as rows, by reason."""

    events: tuple[Sampled, ...]
    refused: Mapping[str, int]

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
    count = len(records)
    columns = RecordColumns(
        values=pa.array([record.value for record in records], pa.binary()),
        topic=records[0].topic,
        headers=pa.array([list(record.headers) for record in records], HEADERS),
        timestamps=np.array([record.timestamp for record in records], np.int64),
        earliest=np.full(count, FIRST_MS, np.int64),
        latest=np.full(count, LAST_MS, np.int64),
    )
    parser = Parser(event)
    pieces = opener(event, decoding).open(columns, np.zeros(count, np.int64))
    return joined([refused, *(_sample(parser, piece, records) for piece in pieces)])


def _sample(parser: Parser, piece: UnpackedEvents, records: Sequence[SampledRecord]) -> EventSample:
    parsed = parser.parse(piece.events)
    refused = Counter([*parsed.refused.values(), *piece.refused.values()])
    places = range(len(records)) if piece.positions is None else piece.positions
    payloads: list[Any] = piece.events.values.take(pa.array(parsed.rows)).to_pylist()
    events = (
        Sampled(parser.types.names[code], records[places[row]], payload.decode())
        for code, row, payload in zip(parsed.types, parsed.rows, payloads, strict=True)
    )
    return EventSample(tuple(events), dict(refused))


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
    for sample in samples:
        events += sample.events
        for reason, count in sample.refused.items():
            refused[reason] += count
    return EventSample(tuple(events), dict(refused))


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
