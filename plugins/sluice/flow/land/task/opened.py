"""Events come out of records in bounded pieces: a batch of small records may hold millions of them, and each
carries a copy of its record's key and headers along.

A record is one event, several of them (`exploded`), one in another format (`decoded`), or several messages of
that (`delimited`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sluice.flow.land.expansion import BOUND, Room, Size
from sluice.flow.land.formats.framing import HEADER, messages_of
from sluice.flow.land.reject_reasons import Rejected, reason_of
from sluice.flow.land.task.columns import ROW, last_values
from sluice.flow.land.task.records import (
    CARRIED,
    ERASED,
    ERASED_ROWS,
    LENGTHS,
    NUMBERS,
    SCHEMA_NAME,
    numbers_of,
    with_reasons,
)
from sluice.manifest import TOMBSTONE

if TYPE_CHECKING:
    from sluice.flow.land.formats.decoders import Decode, DecodedEvent

ROWS_AT_ONCE = 65_536
BYTES_AT_ONCE = 32 << 20


@dataclass(frozen=True)
class Opened:
    """Some events, the records without events, which are `rejected`, and those that are an `empty` array.

    Out of an array an event has `_row`, its number in the message as Kafka has it. One that was decoded has
    its message's bytes beside it, as `_raw`.
    """

    events: pa.Table
    rejected: pa.Table | None = None
    empty: pa.Table | None = None


Opener = Callable[[pa.Table], Iterator[Opened]]


def as_they_are(records: pa.Table) -> Iterator[Opened]:
    """A record is an event."""
    yield Opened(records)


Divide = Callable[[bytes | None, Room], Sequence[bytes | msgspec.Raw]]
"""From a message to the bytes of its rows. It takes from the room what rows have beside their own bytes.
Raises Rejected."""


def exploded(records: pa.Table, divide: Divide, bound: Size = BOUND) -> Iterator[Opened]:
    """A record is several events. (All of one record are held at once, at some 100 bytes each beside their
    own.) What comes out of the lake is divided already: rows stay the rows that they were."""
    piece = _Piece()
    given, lengths = _lists(records, NUMBERS), _lists(records, LENGTHS)
    carried: list[int] = numbers_of(records, CARRIED).tolist()
    for position, text in enumerate(records["_payload"].to_pylist()):
        try:
            own = given[position]
            room = Room(bound)
            found = divide(text, room) if own is None else _cut(text or b"", lengths[position])
            # Each row repeats what its record carries.
            room.take(Size(1, carried[position]), len(found))
        except (Rejected, MemoryError) as verdict:
            piece.rejected[position] = reason_of(verdict)
            continue
        numbers: Sequence[int] = range(len(found)) if own is None else own
        if not found:
            piece.empty.append(position)
        step = min(ROWS_AT_ONCE, BYTES_AT_ONCE // (carried[position] + 1) + 1)
        for start in range(0, len(found), step):
            some = [*map(bytes, found[start : start + step])]
            piece.add(position, numbers[start : start + step], some, carried[position])
            if piece.full:
                yield piece.rows_of(records)
                piece = _Piece()
    yield piece.rows_of(records)


def _lists(records: pa.Table, name: str) -> list[Any]:
    return records[name].to_pylist() if name in records.column_names else [None] * records.num_rows


def _cut(joined: bytes, lengths: Sequence[int]) -> list[bytes]:
    """Returns the elements of an array, which begins with a bracket, and has a comma behind each."""
    starts = accumulate(lengths, lambda start, length: start + length + 1, initial=1)
    return [joined[start : start + length] for start, length in zip(starts, lengths, strict=False)]


def decoded(records: pa.Table, decode: Decode, bound: Size = BOUND) -> Iterator[Opened]:
    """A record is an event in another format; `decode` gives it as JSON, or raises Rejected."""
    piece = _Piece()
    headers: list[Any] = last_values(records["_headers"].combine_chunks(), HEADER).to_pylist()
    for position, message in enumerate(records["_payload"].to_pylist()):
        try:
            if message is None:
                raise Rejected(TOMBSTONE)
            event = decode(message, headers[position])
            Room(bound).take(Size(0, len(event.text)))
            piece.add(position, (), [event.text], len(message))
            piece.names.append(event.name)
        except (Rejected, MemoryError) as verdict:
            piece.rejected[position] = reason_of(verdict)
        if piece.full:
            yield piece.rows_of(records)
            piece = _Piece()
    yield piece.rows_of(records)


def delimited(records: pa.Table, decode: Decode, bound: Size = BOUND) -> Iterator[Opened]:
    """A record is several messages in another format, each with its length in front. One that `decode` cannot
    read is rejected alone. What comes out of the lake is divided already."""
    piece = _Piece()
    headers: list[Any] = last_values(records["_headers"].combine_chunks(), HEADER).to_pylist()
    given, lengths = _lists(records, NUMBERS), _lists(records, LENGTHS)
    erased = _lists(records, ERASED_ROWS)
    carried: list[int] = numbers_of(records, CARRIED).tolist()
    for position, text in enumerate(records["_payload"].to_pylist()):
        try:
            own, room = given[position], Room(bound)
            if text is None:
                raise Rejected(TOMBSTONE)
            messages = messages_of(text) if own is None else _cut(text, lengths[position])
            room.take(Size(1, carried[position]), len(messages))
            made = [_made(decode, message, headers[position], room) for message in messages]
        except (Rejected, MemoryError) as verdict:
            piece.rejected[position] = reason_of(verdict)
            continue
        if not messages:
            piece.empty.append(position)
        numbers = range(len(messages)) if own is None else own
        flags = [False] * len(messages) if own is None else erased[position]
        for number, message, event, gone in zip(numbers, messages, made, flags, strict=True):
            piece.add_message(position, number, message, event, gone, carried[position])
            if piece.full:
                yield from piece.messages_of(records)
                piece = _Piece()
    yield from piece.messages_of(records)


def _made(decode: Decode, message: bytes, header: bytes | None, room: Room) -> DecodedEvent | str:
    """Returns a message's event, or why it has none. Raises Rejected where the events of one record become
    more than there is room for."""
    try:
        event = decode(message, header)
    except (Rejected, MemoryError) as verdict:
        return reason_of(verdict)
    room.take(Size(0, len(event.text)))
    return event


class _Piece:
    """Events out of records at some positions, and why others have none. `_numbers`: empty where a record is
    one event; `names`, of their schemas, where messages are not decoded."""

    def __init__(self) -> None:
        self.rejected: dict[int, str] = {}
        self.empty: list[int] = []
        self.names: list[str] = []
        self._events: list[bytes] = []
        self._positions: list[int] = []
        self._numbers: list[int] = []
        self._messages: list[bytes] = []
        self._erased: list[bool] = []
        self._unread: list[tuple[int, int, bytes, bool, str]] = []
        self._bytes = 0

    def add(self, position: int, numbers: Sequence[int], events: list[bytes], carried: int) -> None:
        self._events += events
        self._positions += [position] * len(events)
        self._numbers += numbers
        self._bytes += sum(map(len, events)) + carried * len(events)

    def add_message(
        self,
        position: int,
        number: int,
        message: bytes,
        event: DecodedEvent | str,
        erased: bool,
        carried: int,
    ) -> None:
        """Adds what is made of one of several messages: an event, or the reason why there is none."""
        if isinstance(event, str):
            self._unread.append((position, number, message, erased, event))
            self._bytes += len(message) + carried
            return
        self.add(position, (number,), [event.text], len(message) + carried)
        self.names.append(event.name)
        self._messages.append(message)
        self._erased.append(erased)

    @property
    def full(self) -> bool:
        return len(self._events) + len(self._unread) >= ROWS_AT_ONCE or self._bytes >= BYTES_AT_ONCE

    def messages_of(self, records: pa.Table) -> Iterator[Opened]:
        """Yields the rows of several messages, and those without an event."""
        bare = records.drop_columns([n for n in _LISTS if n in records.column_names])
        rows = _at(bare, self._positions, self._numbers, self._messages, self._erased)
        rows = rows.append_column(SCHEMA_NAME, pa.array(self.names, pa.string()))
        rows = rows.append_column("_raw", rows["_payload"])
        rows = rows.set_column(0, "_payload", pa.array(self._events, pa.binary()))
        empty = records.take(pa.array(self.empty, pa.int64())) if self.empty else None
        yield Opened(rows, with_reasons(bare, self.rejected), empty)
        if self._unread:
            positions, numbers, messages, erased, reasons = map(list, zip(*self._unread, strict=True))
            unread = _at(bare, positions, numbers, messages, erased)
            yield Opened(rows.slice(0, 0), with_reasons(unread, dict(enumerate(reasons))))

    def rows_of(self, records: pa.Table) -> Opened:
        empty = records.take(pa.array(self.empty, pa.int64())) if self.empty else None
        return Opened(self._rows(records), with_reasons(records, self.rejected), empty)

    def _rows(self, records: pa.Table) -> pa.Table:
        """A message that was an array is left out: beside each row it would take its square."""
        positions, payloads = pa.array(self._positions, pa.int64()), pa.array(self._events, pa.binary())
        records = records.drop_columns([name for name in _LISTS if name in records.column_names])
        if self._numbers:
            rows = records.drop_columns("_payload").take(positions)
            return rows.append_column("_row", pa.array(self._numbers, pa.int32())).add_column(
                0, "_payload", payloads
            )
        rows = records.take(positions).append_column(SCHEMA_NAME, pa.array(self.names, pa.string()))
        return rows.append_column("_raw", rows["_payload"]).set_column(0, "_payload", payloads)


_LISTS = (NUMBERS, LENGTHS, ERASED_ROWS)


def _at(
    records: pa.Table,
    positions: Sequence[int],
    numbers: Sequence[int],
    messages: Sequence[bytes],
    erased: Sequence[bool],
) -> pa.Table:
    """Returns a row for each of the messages, with what its record carries."""
    rows = records.drop_columns("_payload").take(pa.array(positions, pa.int64()))
    if ERASED in rows.column_names:
        at = rows.column_names.index(ERASED)
        rows = rows.set_column(at, ERASED, pc.or_(rows[ERASED], pa.array(erased, pa.bool_())))
    rows = rows.append_column("_row", pa.array(numbers, ROW))
    return rows.add_column(0, "_payload", pa.array(messages, pa.binary()))
