"""Decodes the JSON objects that Sluice keeps in the lake, also where something has damaged them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import msgspec

from sluice.errors import SluiceError

T = TypeVar("T")
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises for bytes that are not the JSON that it reads, are no UTF-8, or nest too deep."""


def decode_stored(decoder: msgspec.json.Decoder[T], data: bytes, explain: Callable[[Exception], str]) -> T:
    """Raises SluiceError for bytes that the decoder does not read; `explain` makes its message of the reason,
    and names the object and the remedy."""
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        raise SluiceError(explain(error)) from error


def readable_lines(decoder: msgspec.json.Decoder[T], data: bytes) -> Iterator[T]:
    """Yields what is in the lines of an object that is no evidence of anything. Lines that the decoder does
    not read, because they are damaged or of another version, are left out."""
    for line in data.splitlines():
        with suppress(*UNREADABLE):
            yield decoder.decode(line)
