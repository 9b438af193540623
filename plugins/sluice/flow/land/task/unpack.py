"""From records to events: a record is one, or an array of them, or has to be decoded first.

Events come in bounded pieces: a batch of small records may hold millions of them, and each carries a copy of
its record's key and headers along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from sluice.flow.land import reject_reasons
from sluice.flow.land.expansion import BOUND, Room, Size
from sluice.flow.land.reject_reasons import Unparsed, reason_of
from sluice.flow.land.task.erasing import BatchErasing
from sluice.flow.land.task.nesting import MOST_LEVELS, too_deep, too_many_elements
from sluice.flow.land.task.parse import Reasons, RecordColumns

ROWS_AT_ONCE = 65_536
BYTES_AT_ONCE = 32 << 20
NUMBERS = "numbers"
"""A column of batches out of the lake: of an array that was joined again, the number of each element in the
message as Kafka has it; null of what is such a message itself."""

_RAW = msgspec.json.Decoder(msgspec.Raw)
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True)
class UnpackedEvents:
    """Some events, each as a record of its own.

    `positions`: the record that each comes from; None: they are the records themselves. `numbers`: the place
    of each in its record's message as Kafka has it. `refused` are records without events, by position;
    `empty` those with an empty array. `erased` are records of which nothing is left, and `rows_erased` has
    the record of each element of an array that is erased. `kept`: the records that the events are, where
    others are erased.
    """

    events: RecordColumns
    positions: np.ndarray | None = None
    numbers: np.ndarray | None = None
    refused: Reasons = field(default_factory=dict)
    empty: tuple[int, ...] = ()
    erased: tuple[int, ...] = ()
    rows_erased: tuple[int, ...] = ()
    kept: np.ndarray | None = None


class Unpacker(Protocol):
    def open(self, records: RecordColumns, carried: np.ndarray) -> Iterator[UnpackedEvents]:
        """Yields all events, in order; `carried` bytes are repeated for each event of a record."""


class SingleEvents:
    """A record is an event."""

    def open(self, records: RecordColumns, carried: np.ndarray) -> Iterator[UnpackedEvents]:
        erasing = records.erasing
        texts = [] if erasing is None else records.values.to_pylist()
        erased = [position for position, text in enumerate(texts) if erasing and erasing.has(position, text)]
        if not erased:
            yield UnpackedEvents(records)
            return
        kept = np.setdiff1d(np.arange(len(texts)), erased)
        yield UnpackedEvents(records.taken(kept), erased=tuple(erased), kept=kept)


class Arrays:
    """A record is a JSON array; its elements' bytes are events as they are. (All elements of one record are
    held at once, at some 100 bytes each beside their own.)"""

    def __init__(self, bound: Size = BOUND) -> None:
        self._bound = bound

    def open(self, records: RecordColumns, carried: np.ndarray) -> Iterator[UnpackedEvents]:
        piece, erasing = _Piece(), records.erasing
        for position, text in enumerate(records.values.to_pylist()):
            try:
                elements = elements_of(text)
                # Each row repeats what its record carries.
                Room(self._bound).take(Size(1, int(carried[position])), len(elements))
            except (Unparsed, MemoryError) as verdict:
                piece.refuse(position, text, reason_of(verdict), erasing)
                continue
            given = records.numbers[position] if records.numbers else None
            numbers: Sequence[int] = range(len(elements)) if given is None else given
            if erasing is not None:
                numbers, elements = piece.left(position, text, numbers, elements, erasing)
            elif not elements:
                piece.empty.append(position)
            step = min(ROWS_AT_ONCE, BYTES_AT_ONCE // (int(carried[position]) + 1) + 1)
            for start in range(0, len(elements), step):
                some = [*map(bytes, elements[start : start + step])]
                piece.add(position, numbers[start : start + step], some, int(carried[position]))
                if piece.full:
                    yield piece.opened(records)
                    piece = _Piece()
        yield piece.opened(records)


class Decoded:
    """A record is an event in another format; `decode` gives it as JSON, or raises Unparsed."""

    def __init__(self, decode: Callable[[bytes], bytes], bound: Size = BOUND) -> None:
        self._decode, self._bound = decode, bound

    def open(self, records: RecordColumns, carried: np.ndarray) -> Iterator[UnpackedEvents]:
        piece, erasing = _Piece(), records.erasing
        for position, message in enumerate(records.values.to_pylist()):
            try:
                if message is None:
                    raise Unparsed(reject_reasons.NO_VALUE)
                event = self._decode(message)
                Room(self._bound).take(Size(0, len(event)))
                if erasing is not None and erasing.has(position, event):
                    piece.erased.append(position)
                else:
                    piece.add(position, range(1), [event], len(message))
            except (Unparsed, MemoryError) as verdict:
                piece.refuse(position, message, reason_of(verdict), erasing)
            if piece.full:
                yield replace(piece.opened(records), numbers=None)
                piece = _Piece()
        yield replace(piece.opened(records), numbers=None)


def numbers_in(batch: pa.RecordBatch) -> Sequence[Sequence[int] | None] | None:
    numbers: list[Any] | None = batch[NUMBERS].to_pylist() if NUMBERS in batch.schema.names else None
    return numbers


def elements_of(text: bytes | None) -> Sequence[msgspec.Raw]:
    """Returns the bytes of a JSON array's elements. Whether they are UTF-8 is each element's own question.

    Raises Unparsed.
    """
    if text is None:
        raise Unparsed(reject_reasons.NO_VALUE)
    if too_many_elements(text):
        raise Unparsed(reject_reasons.TOO_MANY_VALUES)
    try:
        elements: Sequence[msgspec.Raw] = _ARRAY.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise Unparsed(_verdict(text)) from None
    if any(len(element) > MOST_LEVELS and too_deep(bytes(element)) for element in elements):
        raise Unparsed(reject_reasons.NESTED_TOO_DEEP)
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


class _Piece:
    def __init__(self) -> None:
        self.refused: Reasons = {}
        self.empty: list[int] = []
        self.erased: list[int] = []
        self.rows_erased: list[int] = []
        self._values: list[bytes] = []
        self._positions: list[int] = []
        self._numbers: list[int] = []
        self._bytes = 0

    def add(self, position: int, numbers: Sequence[int], values: list[bytes], carried: int) -> None:
        """Adds rows of the record at `position`."""
        self._values += values
        self._positions += [position] * len(values)
        self._numbers += numbers
        self._bytes += sum(map(len, values)) + carried * len(values)

    def refuse(self, position: int, text: bytes | None, reason: str, erasing: BatchErasing | None) -> None:
        """Adds a record without events."""
        if erasing is not None and erasing.has_rejected(position, text):
            self.erased.append(position)
        else:
            self.refused[position] = reason

    def left(
        self,
        position: int,
        text: bytes | None,
        numbers: Sequence[int],
        elements: Sequence[msgspec.Raw],
        erasing: BatchErasing,
    ) -> tuple[list[int], list[msgspec.Raw]]:
        """Returns those elements of a record that are not erased, and their numbers before them."""
        left = [
            (number, element)
            for number, element in zip(numbers, elements, strict=True)
            if not erasing.has(position, bytes(element))
        ]
        self.rows_erased += [position] * (len(elements) - len(left))
        if not left:
            gone = bool(elements) or erasing.has(position, text)
            (self.erased if gone else self.empty).append(position)
        return [number for number, _ in left], [element for _, element in left]

    @property
    def full(self) -> bool:
        return len(self._values) >= ROWS_AT_ONCE or self._bytes >= BYTES_AT_ONCE

    def opened(self, records: RecordColumns) -> UnpackedEvents:
        positions = np.array(self._positions, np.int64)
        return UnpackedEvents(
            records.taken(positions, pa.array(self._values, pa.binary())),
            positions,
            np.array(self._numbers, np.int32),
            self.refused,
            tuple(self.empty),
            tuple(self.erased),
            tuple(self.rows_erased),
        )
