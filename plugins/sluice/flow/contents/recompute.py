"""Recomputes type, event time and place of single rows from what they hold. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from sluice.config.event import Event
from sluice.field_path import Number, UnreadablePayload, names_of, read_event
from sluice.field_path import field as field_of
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
    """Takes the rows of one file of events. `types` counts them by `_type`.

    `events` say where type and time are: by the rules of the unit's landing, then by those of each retry of
    its rejected records. A row is right if it is right by one of them.
    """

    events: Sequence[Event]
    manifest: Manifest
    folder: TypeFolder
    types: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    wrong: dict[AnomalyKind, WrongRows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ranges: Mapping[TopicPartitionKey, range] = ranges_of(self.manifest)

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
        by_rules = [list(self._differences(rules, rows, number)) for rules in self.events]
        yield from min(by_rules, key=len)

    def _differences(
        self, rules: Event, rows: FileColumns, number: int
    ) -> Iterator[tuple[AnomalyKind, str, str]]:
        try:
            event = read_event(rows.payloads[number] or b"")
            payload_type, times = _type(rules, event, rows, number), _moments(rules, event, rows, number)
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
        hours, event_time = hours_of(times), rows.times[number] if rows.times else None
        if self.folder.hour not in hours:
            hour = hour_name(hours[0]) if hours else "none"
            yield AnomalyKind.ROW_HOUR, f"event hour {hour}, by its payload", hour_name(self.folder.hour)
        elif not self._is_of(times, event_time):
            expected = f"event time {ms_text(times[0])}, by its payload"
            yield AnomalyKind.ROW_HOUR, expected, f"_event_time {_shown(event_time)}"

    def _is_of(self, times: Sequence[int], seen: int | None) -> bool:
        """The landing counts numbers in doubles: they may be a millisecond away."""
        slack = 1 if len(times) > 1 else 0
        return seen is not None and times[0] - slack <= seen <= times[-1] + slack


def _type(rules: Event, event: dict[str, Any], rows: FileColumns, number: int) -> str | None:
    if rules.type.field is not None:
        value = field_of(event, names_of(rules.type.field))
        if isinstance(value, Number) and _WHOLE.fullmatch(value):
            return str(int(value))
        return value if is_text(value) else None
    if rules.type.header is not None:
        return _last(rows, number, rules.type.header)
    if rules.type.schema_name:  # no part of the payload
        return rows.types[number] if rows.types else None
    return rows.topics[number]


def _moments(rules: Event, event: dict[str, Any], rows: FileColumns, number: int) -> tuple[int, ...]:
    time = rules.time
    if time.header is not None:
        text = _last(rows, number, time.header)
        return () if text is None else moments(text, time.format, time.zone)
    if time.field is not None:
        return moments(field_of(event, names_of(time.field)), time.format, time.zone)
    stamp = rows.stamps[number]
    return () if stamp is None else (stamp,)


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


# Reads type and event time of a payload with Python's own json, datetime and decimal.
#
# It shares no code with the landing on purpose: what both say has been computed twice.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)
_HOUR_MS = 3_600_000
_MS = {
    "epoch_s": Decimal(1000),
    "epoch_ms": Decimal(1),
    "epoch_us": Decimal("0.001"),
    "epoch_ns": Decimal("0.000001"),
}
# The landing counts in doubles: beside an hour's edge both hours are right.
_MICROSECOND = {
    "epoch_s": Decimal("0.000001"),
    "epoch_ms": Decimal("0.001"),
    "epoch_us": Decimal(1),
    "epoch_ns": Decimal(1000),
}
# Without a format: the digits before the point of numbers from 1973 to 2286.
_FORM_BY_DIGITS = {
    **dict.fromkeys((9, 10), "epoch_s"),
    **dict.fromkeys((12, 13), "epoch_ms"),
    **dict.fromkeys((15, 16), "epoch_us"),
    **dict.fromkeys((18, 19), "epoch_ns"),
}
_UTC_AT_END, _SPACED_OFFSET = re.compile(r" ?(UTC|Z)$"), re.compile(r" ([+-][0-9:]+)$")
_MOST_DIGITS = 40
_WHOLE = re.compile(r"-?\d{1,200}", re.ASCII)  # a type has at most so many bytes
_FOLDER_HOUR = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d)", re.ASCII)


def is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Number)


def moments(value: Any, form: str | None, zone: str | None = None) -> tuple[int, ...]:
    """Returns the first and the last of the milliseconds since the epoch that a field of the format may mean;
    none where it is no time."""
    if not isinstance(value, str):
        return ()
    if form == "iso8601" or (form is None and not _is_number(value)):
        return _written(value, zone) if is_text(value) else ()
    if not _is_number(value):
        return ()
    form = form or _sized(value)
    return _counted(value, form) if form else ()


def _is_number(text: str) -> bool:
    return isinstance(text, Number) or re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text) is not None


def _sized(text: str) -> str | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return _FORM_BY_DIGITS.get(value.adjusted() + 1) if value else "epoch_s"


def hours_of(moments: Sequence[int]) -> tuple[int, ...]:
    """Returns the hours since the epoch of `moments`: none, one or two."""
    return tuple(dict.fromkeys(ms // _HOUR_MS for ms in moments))


def _written(text: str, zone: str | None) -> tuple[int, ...]:
    plain = _SPACED_OFFSET.sub(r"\1", _UTC_AT_END.sub("+00:00", text.upper()))
    try:
        instant = datetime.fromisoformat(plain)
    except ValueError:
        return ()
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=ZoneInfo(zone) if zone else UTC)
    return ((instant - _EPOCH) // timedelta(milliseconds=1),)


def _counted(text: str, form: str) -> tuple[int, ...]:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return ()
    if value.adjusted() > _MOST_DIGITS:
        return ()
    around = (value - _MICROSECOND[form], value + _MICROSECOND[form])
    return tuple(int((edge * _MS[form]).to_integral_value("ROUND_FLOOR")) for edge in around)


def hour_named(text: str) -> int:
    """Returns `2026-11-20T10` as hours since the epoch. Raises ValueError for anything else."""
    found = _FOLDER_HOUR.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no hour")
    year, month, day, hour = map(int, found.groups())
    return (datetime(year, month, day, hour, tzinfo=UTC) - _EPOCH) // _HOUR


def hour_name(hour: int) -> str:
    """Returns the opposite of `hour_named`, also for hours that no folder can have."""
    try:
        return (_EPOCH + hour * _HOUR).isoformat()[:13]
    except OverflowError:
        return f"{hour} hours since 1970"
