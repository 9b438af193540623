"""Bounds what a message becomes, in every format: a few bytes of Avro or Protobuf may stand for gigabytes.

A decoder knows of its schema how much a byte can become at most, so that it takes a message of ordinary size
as it is. Of a larger one it counts what comes out, before anything is made of it, and stops at the bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sluice.flow.land import reject_reasons
from sluice.flow.land.reject_reasons import Rejected

MOST_VALUES = 1_000_000
MOST_TEXT = 32 << 20


@dataclass(frozen=True, slots=True)
class Size:
    """How many values there are, objects and arrays included, and the bytes of their JSON, both at most."""

    values: int = 0
    text: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.values + other.values, self.text + other.text)

    def __mul__(self, count: int) -> Size:
        return Size(self.values * count, self.text * count)

    def shared(self, count: int) -> Size:
        """Returns what each of `count` bytes has of it."""
        return Size(-(-self.values // count), -(-self.text // count))


BOUND = Size(MOST_VALUES, MOST_TEXT)


def bound_of(max_record: int) -> Size:
    """Returns what one record may become, where one of `max_record` bytes may be read: half as much text, for
    while it is decoded it is held in several forms."""
    return Size(MOST_VALUES, max(MOST_TEXT, max_record // 2))


def total(sizes: Iterable[Size]) -> Size:
    return sum(sizes, Size())


def largest(sizes: Iterable[Size]) -> Size:
    """Returns the most values and the most text, be they of different sizes."""
    most = Size()
    for size in sizes:
        most = Size(max(most.values, size.values), max(most.text, size.text))
    return most


def bytes_within(bound: Size, whole: Size, byte: Size) -> int:
    """Returns of how many bytes a message may be that cannot exceed `bound`: `whole` is what each message
    becomes, and `byte` what any byte adds to it. Below zero: none may."""
    return min(
        (bound.values - whole.values) // max(byte.values, 1),
        (bound.text - whole.text) // max(byte.text, 1),
    )


class Room:
    """What is left of a bound for one message."""

    def __init__(self, bound: Size) -> None:
        self._bound = bound
        self.refill()

    def refill(self) -> None:
        """Begins another message."""
        self._values, self._text = self._bound.values, self._bound.text

    def take(self, size: Size, count: int = 1) -> None:
        """Raises Rejected where more is taken than there is."""
        self._values -= size.values * count
        self._text -= size.text * count
        if self._values < 0:
            raise Rejected(reject_reasons.TOO_MANY_VALUES)
        if self._text < 0:
            raise Rejected(reject_reasons.BECOMES_TOO_LARGE)

    def take_string(self, content: bytes) -> None:
        """Takes what a string becomes in JSON, without its quotes."""
        self._text -= len(content)
        special = content.translate(None, _PLAIN)
        if special:
            self._text -= len(special) + (_LONGER - 1) * len(special.translate(None, _SHORT))
        self.take(_NOTHING)

    def take_bytes(self, length: int) -> None:
        """Takes what so many bytes become in base64, without its quotes."""
        self.take(Size(0, -(-length // 3) * 4))


ESCAPED = 6
"""Bytes of JSON that a byte of a string may become."""
_LONGER = ESCAPED - 1
_SHORT = b'"\\\b\f\n\r\t'  # two bytes each
_PLAIN = bytes(sorted({*range(0x20, 0x100)} - {*b'"\\'}))
_NOTHING = Size()
