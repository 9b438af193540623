"""Recomputes type, event time and place of single rows from what they hold. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from sluice.config.event import Event
from sluice.event_values import UnreadablePayload, read_event
from sluice.event_values import field as field_of
from sluice.field_path import names_of
from sluice.flow.contents.payload import hour_name, hour_named, hours_of, is_text, moments
from sluice.flow.contents.read_rows import FileColumns
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.manifest import Manifest, TopicPartitionKey
from sluice.slices import ms_text

_OVERFLOW = "_overflow"


@dataclass(frozen=True)
class TypeFolder:
    """What a file's folder says of each of its rows: `type` None is the folder of many types."""

    type: str | None
    hour: int

    @classmethod
    def of(cls, key: str) -> TypeFolder:
        """Raises ValueError for a key that is none of a file of events."""
        kind, date, hour, _ = key.split("/")
        name = kind.removeprefix("type=")
        at = hour_named(f"{date.removeprefix('date=')}T{hour.removeprefix('hour=')}")
        return cls(None if name == _OVERFLOW else unquote(name), at)


@dataclass
class WrongRows:
    """Rows of one file that are wrong in one way: how many, and the first of them."""

    kind: AnomalyKind
    expected: str
    seen: str
    place: TopicPartitionKey
    offset: int
    rows: int = 1


@dataclass
class FileJudge:
    """Takes the rows of one file of events. `types` counts them by `_type`."""

    event: Event
    manifest: Manifest
    folder: TypeFolder
    types: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    wrong: dict[AnomalyKind, WrongRows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ranges: Mapping[TopicPartitionKey, range] = ranges_of(self.manifest)
        kind, time = self.event.type, self.event.time
        self._type_path = names_of(kind.field) if kind.field else None
        self._time_path = names_of(time.field) if time.field else None

    def take(self, rows: FileColumns) -> None:
        self.rows += len(rows)
        self.types.update(rows.types or ())
        for number in range(len(rows)):
            for kind, expected, seen in self._faults(rows, number):
                self._note(kind, expected, seen, rows, number)

    def _note(self, kind: AnomalyKind, expected: str, seen: str, rows: FileColumns, number: int) -> None:
        if kind in self.wrong:
            self.wrong[kind].rows += 1
        else:
            place = (rows.topics[number], rows.partitions[number])
            self.wrong[kind] = WrongRows(kind, expected, seen, place, rows.offsets[number])

    def _faults(self, rows: FileColumns, number: int) -> Iterator[tuple[AnomalyKind, str, str]]:
        yield from misplaced(self.manifest, self._ranges, rows, number)
        try:
            event = read_event(rows.payloads[number] or b"")
            payload_type, times = self._type(event, rows, number), self._moments(event, rows, number)
        except UnreadablePayload as error:
            yield AnomalyKind.ROW_PAYLOAD, "a JSON object with one type and one time", str(error)
            return
        row_type = rows.types[number] if rows.types else None
        if not payload_type == row_type == (row_type if self.folder.type is None else self.folder.type):
            folder = _OVERFLOW if self.folder.type is None else self.folder.type
            yield (
                AnomalyKind.ROW_TYPE,
                f"type {payload_type!r}, by its payload",
                f"_type {row_type!r} in the folder of {folder!r}",
            )
        hours = hours_of(times)
        if self.folder.hour not in hours:
            hour = hour_name(hours[0]) if hours else "none"
            yield AnomalyKind.ROW_HOUR, f"event hour {hour}, by its payload", hour_name(self.folder.hour)
        elif rows.times is not None and not self._is_of(times, rows.times[number]):
            expected = f"event time {ms_text(times[0])}, by its payload"
            yield AnomalyKind.ROW_HOUR, expected, f"_event_time {_shown(rows.times[number])}"

    def _type(self, event: dict[str, Any], rows: FileColumns, number: int) -> str | None:
        if self._type_path is not None:
            value = field_of(event, self._type_path)
            return value if is_text(value) else None
        if self.event.type.header is not None:
            return _last(rows, number, self.event.type.header)
        return rows.topics[number]

    def _moments(self, event: dict[str, Any], rows: FileColumns, number: int) -> tuple[int, ...]:
        if self._time_path is not None:
            return moments(field_of(event, self._time_path), self.event.time.format)
        stamp = rows.stamps[number]
        return () if stamp is None else (stamp,)

    def _is_of(self, times: Sequence[int], seen: int | None) -> bool:
        """The landing counts numbers in doubles: they may be a millisecond away."""
        slack = 1 if len(times) > 1 else 0
        return seen is not None and times[0] - slack <= seen <= times[-1] + slack


def _shown(ms: int | None) -> str:
    return "none" if ms is None else ms_text(ms)


def _last(rows: FileColumns, number: int, name: str) -> str | None:
    """Returns the record's last header of that name, as text."""
    pairs = (rows.headers[number] if rows.headers else None) or []
    values = [pair["value"] for pair in pairs if pair["key"] == name]
    return values[-1].decode(errors="replace") if values and values[-1] is not None else None


def ranges_of(manifest: Manifest) -> dict[TopicPartitionKey, range]:
    """Returns the offsets of each partition that the unit holds."""
    return {(r.topic, r.partition): range(r.start, r.until) for r in manifest.ranges}


def misplaced(
    manifest: Manifest, ranges: Mapping[TopicPartitionKey, range], rows: FileColumns, number: int
) -> Iterator[tuple[AnomalyKind, str, str]]:
    """Yields rows of another cluster, or of offsets that the unit does not hold."""
    cluster, topic, partition = rows.clusters[number], rows.topics[number], rows.partitions[number]
    if cluster != manifest.cluster:
        yield AnomalyKind.ROW_IDENTITY, f"cluster {manifest.cluster}", cluster
    unit_offsets = ranges.get((topic, partition), range(0))
    if rows.offsets[number] not in unit_offsets:
        seen = f"offset {rows.offsets[number]} of {topic}/{partition}"
        yield AnomalyKind.ROW_IDENTITY, f"offsets in [{unit_offsets.start}, {unit_offsets.stop})", seen
