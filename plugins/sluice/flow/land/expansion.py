"""Bounds what a message becomes, in every format: a few bytes of Avro or Protobuf may stand for gigabytes.

A decoder knows of its schema how much a byte can become at most, so that it takes a message of ordinary size
as it is. Of a larger one it counts what comes out, before anything is made of it, and stops at the bound.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import msgspec
import numpy as np

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


# How deep an event may be nested, and how many values it may have: numbers of our own, for what a parser's
# stack and memory hold depends on who calls it and on Python's version.

MOST_LEVELS = 900
"""Every parser behind the landing takes as many: Python 3.12's take 1,497."""

_BLOCK = 1 << 20
_OPEN, _COMMA = 1, 2
_BACKSLASHES = re.compile(rb"\\*")
_SIGNS = bytes.maketrans(b"[{]},", b"\x01\x01\xff\xff\x02")
_NO_SIGNS = bytes(set(range(256)) - set(b'[{]},"'))
_QUOTE = ord('"')


_ESCAPED = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


class Pairs(list[Any]):
    """An object's (name, value) pairs, all of them."""


PAIRS = json.JSONDecoder(object_pairs_hook=Pairs, parse_int=str, parse_float=str)


def names_twice(text: bytes) -> bool:
    """Returns whether a name is there twice in an object itself, not in its values. Raises ValueError for
    what is not JSON."""
    names = [name for name, _ in PAIRS.decode(text.decode())]
    return len(names) != len(set(names))


def mended(text: bytes) -> bytes:
    """Returns a JSON text with U+FFFD for each half of a surrogate pair, which is no character."""
    return _ESCAPED.sub(lambda found: b"\\ufffd" if found[1] else found[0], text)


_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def not_json(text: bytes) -> str:
    """Returns why a text is not JSON."""
    try:
        msgspec.json.decode(mended(text), type=msgspec.Raw)
    except msgspec.DecodeError:
        return reject_reasons.LINES if are_lines(text) else reject_reasons.NOT_JSON
    return reject_reasons.HALF_PAIR


def are_lines(text: bytes) -> bool:
    """Returns whether a text is several JSON objects, one a line: its first two lines are."""
    first, _, rest = text.strip().partition(b"\n")
    second, _, _ = rest.lstrip().partition(b"\n")
    try:
        return all(_MEMBERS.decode(mended(line)) is not None for line in (first, second))
    except (msgspec.DecodeError, RecursionError):
        return False


def too_deep(text: bytes, most: int = MOST_LEVELS) -> bool:
    """Returns whether more than `most` arrays and objects lie in one another. Brackets in strings are text.

    Of what is no JSON the answer means nothing, and is the same each time.
    """
    if len(text) <= most or text.count(b"[") + text.count(b"{") <= most:
        return False
    return any(int(depths.max(initial=0)) > most for _, depths in _structure(text))


def too_many_values(text: bytes, most: int = MOST_VALUES) -> bool:
    """Returns whether an event has more than `most` values, objects and arrays included; one that is empty
    counts twice. Of what is no JSON the answer means nothing, and is the same each time."""
    if len(text) <= 2 * most or sum(map(text.count, (b",", b"[", b"{"))) < most:
        return False
    return 1 + sum(int(((marks == _COMMA) | (marks == _OPEN)).sum()) for marks, _ in _structure(text)) > most


def too_many_elements(text: bytes, most: int = MOST_VALUES) -> bool:
    """Returns whether an array has more than `most` elements, in the same way."""
    if len(text) <= 2 * most or text.count(b",") < most:
        return False
    return 1 + sum(int(((marks == _COMMA) & (depth == 1)).sum()) for marks, depth in _structure(text)) > most


def _structure(text: bytes) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields brackets and commas that are no text, and how deep each is, block by block."""
    inside, level, start = False, 0, 0
    while start < len(text):
        until = start + _BLOCK
        if text[until - 1 : until] == b"\\":  # an escape is not divided
            run = _BACKSLASHES.match(text, until)
            until = len(text) if run is None else run.end() + 1
        block, start = text[start:until], until
        plain = block.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in block else block
        marks = np.frombuffer(plain.translate(_SIGNS, _NO_SIGNS), np.int8)
        quotes = marks == _QUOTE
        within = np.logical_xor.accumulate(quotes) ^ inside
        if len(within):
            inside = bool(within[-1])
        outside = marks[~(quotes | within)]
        depth = level + np.cumsum(np.where(outside == _COMMA, 0, outside), dtype=np.int32)
        if len(depth):
            level = int(depth[-1])
        yield outside, depth


# A decoded event as JSON, so that nothing is changed without a word.
#
# Whole numbers have all their digits; bytes are base64; decimals are text with all digits of their scale;
# instants are ISO 8601 in UTC, local ones without a zone; numbers that JSON lacks are the texts `NaN`,
# `Infinity` and `-Infinity`, which no number column takes.

_EPOCH = datetime(1970, 1, 1)
_UNIX_DAY, _DAYS_OF_400_YEARS = date(1970, 1, 1).toordinal(), 146_097
_ENCODER = msgspec.json.Encoder(decimal_format="string", uuid_format="canonical")


def json_text(event: Any, floats: bool = True) -> bytes:
    """`floats`: whether one may be in the event. Raises UnicodeEncodeError for half a surrogate pair,
    TypeError for what no schema gives."""
    text = _ENCODER.encode(event)
    # The encoder writes NaN as null. To look at each value takes as long as to decode it.
    return _ENCODER.encode(_finite(event)) if floats and b"null" in text else text


def instant_text(seconds: int, nanos: int) -> str:
    """Returns the instant so long after the epoch, without its zone; `nanos` are less than a second. Raises
    OverflowError for one that four digits of a year cannot show."""
    return f"{(_EPOCH + timedelta(seconds=seconds)).isoformat()}{fraction_text(nanos)}"


def far_day(days: int) -> str:
    """Returns a day outside the years 1 to 9999, `days` after 1970, as Java's LocalDate prints it:
    `+10183-09-21`. A number would not do: a time column would read many of them as seconds."""
    cycles, rest = divmod(days + _UNIX_DAY - 1, _DAYS_OF_400_YEARS)
    shown = date.fromordinal(rest + 1)
    return f"{shown.year + 400 * cycles:+05}{shown.isoformat()[4:]}"


def far_instant(seconds: int, nanos: int) -> str:
    """Returns an instant that `instant_text` cannot show, without its zone."""
    days, rest = divmod(seconds, 86_400)
    return f"{far_day(days)}T{(_EPOCH + timedelta(seconds=rest)):%H:%M:%S}{fraction_text(nanos)}"


def fraction_text(nanos: int) -> str:
    """Returns a fraction of a second with 3, 6 or 9 digits; nothing where there is none."""
    digits = f"{nanos:09}"
    for zeros in ("000000", "000"):
        digits = digits.removesuffix(zeros) if digits.endswith(zeros) else digits
    return f".{digits}" if nanos else ""


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
