"""The stage from records to events: a record is one, or an array of them, or has to be decoded first.

Events come in bounded pieces: a batch of small records may hold millions of them, and each carries a copy of
its record's key and headers along. What decodes is made on the driver, where the schema files are; it travels
to the workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from sluice.clients import connections as connections
from sluice.config.event import Event
from sluice.errors import SchemaRefused
from sluice.flow.land import reject_reasons
from sluice.flow.land.expansion import BOUND, MOST_LEVELS, Room, Size, too_deep, too_many_elements
from sluice.flow.land.reject_reasons import Rejected, reason_of
from sluice.flow.land.task.records import CARRIED, NUMBERS, numbers_of, with_reasons
from sluice.flow.land.task.reports import SchemasAsked

if TYPE_CHECKING:
    from sluice.flow.land.formats.decoders import Decode
    from sluice.flow.land.formats.registry import Address

ROWS_AT_ONCE = 65_536
BYTES_AT_ONCE = 32 << 20

_RAW = msgspec.json.Decoder(msgspec.Raw)
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


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


def exploded(records: pa.Table, bound: Size = BOUND) -> Iterator[Opened]:
    """A record is a JSON array; its elements' bytes are events as they are. (All elements of one record are
    held at once, at some 100 bytes each beside their own.)"""
    piece = _Piece()
    given: list[Any] | None = records[NUMBERS].to_pylist() if NUMBERS in records.column_names else None
    carried: list[int] = numbers_of(records, CARRIED).tolist()
    for position, text in enumerate(records["_payload"].to_pylist()):
        try:
            elements = elements_of(text)
            # Each row repeats what its record carries.
            Room(bound).take(Size(1, carried[position]), len(elements))
        except (Rejected, MemoryError) as verdict:
            piece.rejected[position] = reason_of(verdict)
            continue
        own = given[position] if given else None
        numbers: Sequence[int] = range(len(elements)) if own is None else own
        if not elements:
            piece.empty.append(position)
        step = min(ROWS_AT_ONCE, BYTES_AT_ONCE // (carried[position] + 1) + 1)
        for start in range(0, len(elements), step):
            some = [*map(bytes, elements[start : start + step])]
            piece.add(position, numbers[start : start + step], some, carried[position])
            if piece.full:
                yield piece.rows_of(records)
                piece = _Piece()
    yield piece.rows_of(records)


def decoded(records: pa.Table, decode: Callable[[bytes], bytes], bound: Size = BOUND) -> Iterator[Opened]:
    """A record is an event in another format; `decode` gives it as JSON, or raises Rejected."""
    piece = _Piece()
    for position, message in enumerate(records["_payload"].to_pylist()):
        try:
            if message is None:
                raise Rejected(reject_reasons.NO_VALUE)
            event = decode(message)
            Room(bound).take(Size(0, len(event)))
            piece.add(position, (), [event], len(message))
        except (Rejected, MemoryError) as verdict:
            piece.rejected[position] = reason_of(verdict)
        if piece.full:
            yield piece.rows_of(records)
            piece = _Piece()
    yield piece.rows_of(records)


class _Piece:
    """Events out of records at some positions, and why others have none. `_numbers`: empty where messages are
    decoded."""

    def __init__(self) -> None:
        self.rejected: dict[int, str] = {}
        self.empty: list[int] = []
        self._events: list[bytes] = []
        self._positions: list[int] = []
        self._numbers: list[int] = []
        self._bytes = 0

    def add(self, position: int, numbers: Sequence[int], events: list[bytes], carried: int) -> None:
        self._events += events
        self._positions += [position] * len(events)
        self._numbers += numbers
        self._bytes += sum(map(len, events)) + carried * len(events)

    @property
    def full(self) -> bool:
        return len(self._events) >= ROWS_AT_ONCE or self._bytes >= BYTES_AT_ONCE

    def rows_of(self, records: pa.Table) -> Opened:
        empty = records.take(pa.array(self.empty, pa.int64())) if self.empty else None
        return Opened(self._rows(records), with_reasons(records, self.rejected), empty)

    def _rows(self, records: pa.Table) -> pa.Table:
        """A message that was an array is left out: beside each row it would take its square."""
        positions, payloads = pa.array(self._positions, pa.int64()), pa.array(self._events, pa.binary())
        if NUMBERS in records.column_names:
            records = records.drop_columns(NUMBERS)
        if self._numbers:
            rows = records.drop_columns("_payload").take(positions)
            return rows.append_column("_row", pa.array(self._numbers, pa.int32())).add_column(
                0, "_payload", payloads
            )
        rows = records.take(positions)
        return rows.append_column("_raw", rows["_payload"]).set_column(0, "_payload", payloads)


def elements_of(text: bytes | None) -> Sequence[msgspec.Raw]:
    """Returns the bytes of a JSON array's elements. Whether they are UTF-8 is each element's own question.

    Raises Rejected.
    """
    if text is None:
        raise Rejected(reject_reasons.NO_VALUE)
    if too_many_elements(text):
        raise Rejected(reject_reasons.TOO_MANY_VALUES)
    try:
        elements: Sequence[msgspec.Raw] = _ARRAY.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise Rejected(_verdict(text)) from None
    if any(len(element) > MOST_LEVELS and too_deep(bytes(element)) for element in elements):
        raise Rejected(reject_reasons.NESTED_TOO_DEEP)
    return elements


def _verdict(text: bytes) -> str:
    """Returns why `text` is no array of elements: as with a single event, the first reason."""
    try:
        text.decode()
        _RAW.decode(text)
    except UnicodeDecodeError:
        return reject_reasons.NOT_UTF8
    except RecursionError:
        return reject_reasons.NESTED_TOO_DEEP
    except msgspec.DecodeError:
        return reject_reasons.NOT_JSON
    return reject_reasons.NOT_AN_ARRAY


@dataclass(frozen=True)
class Decoding:
    """`schema`: an Avro schema's text, or the descriptors of a .proto file, of which `message` is meant."""

    kind: str
    schema: bytes | None = None
    message: str | None = None
    registry: Address | None = None
    file: str = ""


def decoding_of(event: Event, schema: bytes | None = None) -> Decoding | None:
    """Returns None for JSON. `schema` is the prepared content of the schema file; without it the file is
    read. Raises SchemaRefused for a file that cannot be used, WrongUse for a connection."""
    form, address = event.format, None
    if not form.decoded:
        return None
    if event.registry is not None:
        from sluice.flow.land.formats.registry import address_of

        address = address_of(connections.find(event.registry.connection))
    content = schema_of(event) if schema is None else schema
    decoding = Decoding(form.kind, content, form.message, address, str(form.schema_file or ""))
    _decode(decoding)  # a schema that cannot be used is refused before anything is read
    return decoding


def schema_of(event: Event) -> bytes | None:
    """Returns the content of the schema file, where there is one. Raises SchemaRefused."""
    form = event.format
    return None if form.schema_file is None else _content(form.kind, form.schema_file)


def opener(
    event: Event, decoding: Decoding | None, bound: Size = BOUND, asked: SchemasAsked | None = None
) -> Opener:
    """Returns what makes events of records, in a task. `bound`: what one may become. `asked` is told of the
    schemas."""
    if decoding is not None:
        return partial(decoded, decode=_decode(decoding, bound, asked), bound=bound)
    return partial(exploded, bound=bound) if event.arrays else as_they_are


def _content(kind: str, file: Path) -> bytes:
    from sluice.flow.land.formats import decoders
    from sluice.flow.land.reject_reasons import BadSchema

    try:
        return decoders.FORMATS[kind].prepare(file)
    except OSError as error:
        raise SchemaRefused(error.filename or str(file), error.strerror or str(error)) from error
    except BadSchema as error:
        raise SchemaRefused(str(file), str(error)) from error


def _decode(decoding: Decoding, bound: Size = BOUND, asked: SchemasAsked | None = None) -> Decode:
    # The clients take a worker half a second to load: only where messages have to be decoded.
    from sluice.flow.land.formats import decoders
    from sluice.flow.land.reject_reasons import BadSchema

    try:
        return decoders.FORMATS[decoding.kind].decoder(decoding, bound, asked or SchemasAsked())
    except (BadSchema, UnicodeDecodeError) as error:
        raise SchemaRefused(decoding.file, str(error)) from error
