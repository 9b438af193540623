"""Decodes the JSON objects that Sluice keeps in the lake, also where something has damaged them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import msgspec

from sluice.errors import SluiceError

T = TypeVar("T")
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors of a decoder: the bytes are not the JSON that it expects, not UTF-8, or nested too deeply."""


def decode_stored(decoder: msgspec.json.Decoder[T], data: bytes, explain: Callable[[Exception], str]) -> T:
    """Returns the object. Raises SluiceError for bytes that the decoder cannot read: `explain` makes its
    message, which names object, reason and remedy."""
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        raise SluiceError(explain(error)) from error


def readable_lines(decoder: msgspec.json.Decoder[T], data: bytes) -> Iterator[T]:
    """Yields the lines of an object that serves estimates alone. Lines that the decoder cannot read, because
    they are damaged or of another version, are left out."""
    for line in data.splitlines():
        with suppress(*UNREADABLE):
            yield decoder.decode(line)
