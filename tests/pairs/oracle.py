"""What has to become of each record of a log, by docs/ alone: its slice, and its rows or why it has none."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.pairs.events import EARLY_MINUTES, LATE_MINUTES, LENGTHS, SLICES, START, time_path, type_path
from tests.pairs.log import AHEAD, KIND, MINUTE_MS, SHIPPED, Place, Sent, expired_before
from tests.pairs.masking import masked
from tests.pairs.options import Case
from tests.support.oracle import Number, loads

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TYPE_BYTES = 200  # of the folder's name


class Refused(Exception):
    """An event without a row; its text is the reason."""


@dataclass(frozen=True)
class Row:
    """A landed event: `event` is its JSON with numbers as they are written, `time` in milliseconds."""

    slice: int  # seconds since the epoch
    place: Place
    offset: int
    number: int  # in its array; else 0
    sent: Sent
    type: str
    time: int
    text: str
    event: Mapping[str, Any]

    @property
    def key(self) -> tuple:
        return (*self.place, self.offset, self.number)

    @property
    def hour(self) -> int:
        return self.time // 3_600_000 * 3600


@dataclass(frozen=True)
class Rejected:
    """`number` is None for a message that could not be opened."""

    slice: int
    place: Place
    offset: int
    number: int | None
    payload: bytes | None
    reason: str


@dataclass(frozen=True)
class Unit:
    """(slice, cluster): what landed of it; `read` counts its records."""

    rows: tuple[Row, ...]
    rejected: tuple[Rejected, ...]
    read: int


def starts_of(case: Case) -> list[int]:
    """The slices' first instants and the last one's end, in seconds."""
    first, length = int(START.timestamp()), LENGTHS[case.slice] * 60
    return [first + number * length for number in range(SLICES[case.slice] + 1)]


def edges_of(case: Case, sent: list[Sent]) -> list[int]:
    """By slice its first offset, and the last one's end. Records from the future at the first edge are in the
    first slice: nothing earlier is known of the partition."""
    first, *others = starts_of(case)
    return [_found(sent, first * 1000), *(_edge(sent, at * 1000) for at in others)]


def _found(sent: list[Sent], instant: int) -> int:
    """The first offset that is stamped at or after the instant."""
    return next((offset for offset, one in enumerate(sent) if one.stamp >= instant), len(sent))


def _edge(sent: list[Sent], instant: int) -> int:
    """The first offset at or after the instant. One stamped in the future is none: from there on records are
    read, and a reader sees no gap."""
    end, found = len(sent), _found(sent, instant)
    if found == end or sent[found].stamp < AHEAD:
        return found
    read = (o for o in range(found, end) if sent[o].message and instant <= sent[o].stamp < AHEAD)
    return next(read, end)


def units_of(case: Case, log: Mapping[Place, list[Sent]]) -> dict[tuple[int, str], Unit]:
    """By (slice, cluster). A unit whose oldest offsets have expired is not there, or without them."""
    found: dict[tuple[int, str], tuple[list, list, list]] = {}
    expired, log_start = expired_before(log, case)
    for place, sent in log.items():
        edges = edges_of(case, sent)
        shipped: set[tuple[int, bytes]] = set()
        for number, start in enumerate(starts_of(case)[:-1]):
            rows, rejected, read = found.setdefault((start, place[0]), ([], [], []))
            for offset in range(edges[number], edges[number + 1]):
                lost = place == expired and offset < log_start and case.expired != "nothing"
                if lost:
                    continue
                if sent[offset].message is None:
                    continue
                read.append(offset)
                kept = masked(case, sent[offset])
                for one in _outcome(case, start, place, offset, kept, shipped):
                    (rows if isinstance(one, Row) else rejected).append(one)
    if case.expired == "fail":
        del found[starts_of(case)[0], expired[0]]
    return {
        unit: Unit(tuple(rows), tuple(rejected), len(read)) for unit, (rows, rejected, read) in found.items()
    }


def _outcome(
    case: Case, start: int, place: Place, offset: int, sent: Sent, shipped: set[tuple[int, bytes]]
) -> Iterator[Row | Rejected]:
    message = sent.message
    assert message is not None
    line = last_header(sent, SHIPPED) if case.batch != "off" else None
    if line and line != b"no line":
        if (start, line) in shipped:
            yield Rejected(start, place, offset, None, message.value, "shipped twice")
            return
        shipped.add((start, line))
    if message.fault:
        yield Rejected(start, place, offset, None, message.value, message.fault)
        return
    for number, text in enumerate(message.events):
        event = loads(text)
        try:
            kind, time = _type(case, place, sent, event), _time(case, start, sent, event)
        except Refused as verdict:
            payload = text.encode() if case.arrays else message.value
            yield Rejected(start, place, offset, number if case.arrays else None, payload, str(verdict))
            continue
        whole = text if case.arrays or case.decoded else (message.value or b"").decode()
        yield Row(start, place, offset, number, sent, kind, time, whole, event)


def last_header(sent: Sent, name: str) -> bytes | None:
    return next((value for key, value in reversed(sent.headers) if key == name), None)


def at_path(event: Any, path: tuple[str, ...]) -> Any:
    """The value there; None where it is missing or null."""
    for name in path:
        event = event.get(name) if isinstance(event, dict) else None
    return event


def _type(case: Case, place: Place, sent: Sent, event: Any) -> str:
    if not isinstance(event, dict):
        raise Refused("not an object")
    path = type_path(case)
    if case.type == "topic":
        return place[1]
    found: Any = last_header(sent, KIND) if path is None else at_path(event, path)
    if isinstance(found, bytes):
        try:
            found = found.decode()
        except UnicodeDecodeError:
            raise Refused("type is neither text nor a whole number") from None
    if found is None or (found == "" and not isinstance(found, Number)):
        raise Refused("no type")
    if isinstance(found, Number) and re.fullmatch(r"-?\d+", found):
        found = str(int(found))
    if not isinstance(found, str) or isinstance(found, Number):
        raise Refused("type is neither text nor a whole number")
    if len(found.encode()) > _TYPE_BYTES:
        raise Refused("type too long")
    return found


def _time(case: Case, start: int, sent: Sent, event: Any) -> int:
    found = sent.stamp if case.time == "record" else _stamp(case, at_path(event, time_path(case)))
    length = LENGTHS[case.slice] * MINUTE_MS
    early, late = EARLY_MINUTES[case.bounds], LATE_MINUTES[case.bounds]
    if early is not None and found > start * 1000 + length + early * MINUTE_MS:
        raise Refused("time out of range")
    if late is not None and found < start * 1000 - late * MINUTE_MS:
        raise Refused("time out of range")
    return found


def _stamp(case: Case, value: Any) -> int:
    if value is None:
        raise Refused("no time")
    if case.time in ("epoch_s", "epoch_ms"):
        if not isinstance(value, Number):
            raise Refused("time not understood")
        return math.floor(Decimal(value) * (1000 if case.time == "epoch_s" else 1))
    if not isinstance(value, str) or isinstance(value, Number):
        raise Refused("time not understood")
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise Refused("time not understood") from None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return (found - _EPOCH) // timedelta(milliseconds=1)
