"""Decodes the JSON objects that Sluice keeps in the lake, also where something has damaged them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Annotated, TypeVar

import msgspec

from sluice.errors import SluiceError

T = TypeVar("T")
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors of a decoder: the bytes are not the JSON that it expects, not UTF-8, or nested too deeply."""


Whole = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
"""A stored count, offset or generation: ClickHouse holds the next one, too."""
Second = Annotated[int, msgspec.Meta(ge=0, lt=253_402_300_800)]
"""A stored instant in seconds since the epoch, before the year 10000."""
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
"""A stored duration."""


class NoInstant(ValueError):
    """A text that should be an instant in ISO 8601."""


def _none(_: object) -> Iterable[str]:
    return ()


def decode_stored(
    decoder: msgspec.json.Decoder[T],
    data: bytes,
    explain: Callable[[Exception], str],
    instants: Callable[[T], Iterable[str]] = _none,
) -> T:
    """Returns the object. Raises SluiceError for bytes that the decoder cannot read, and for a text of
    `instants` that is none: `explain` makes its message, which names object, reason and remedy."""
    try:
        return _decoded(decoder, data, instants)
    except (*UNREADABLE, NoInstant) as error:
        raise SluiceError(explain(error)) from error


def readable_lines(
    decoder: msgspec.json.Decoder[T], data: bytes, instants: Callable[[T], Iterable[str]] = _none
) -> Iterator[T]:
    """Yields the lines of an object that serves estimates alone. Lines that the decoder cannot read, because
    they are damaged or of another version, are left out."""
    for line in data.splitlines():
        with suppress(*UNREADABLE, NoInstant):
            yield _decoded(decoder, line, instants)


def _decoded(decoder: msgspec.json.Decoder[T], data: bytes, instants: Callable[[T], Iterable[str]]) -> T:
    found = decoder.decode(data)
    for text in instants(found):
        try:
            year = datetime.fromisoformat(text).year
        except ValueError as error:
            raise NoInstant(f"{text[:40]!r} is no instant") from error
        if not 1 < year < 9999:  # another zone could not say it
            raise NoInstant(f"{text[:40]!r} is of no year from 2 to 9998")
    return found
