"""The erasure list in the lake: one object, which grows by compare-and-set."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

from sluice.clients.lake.base import Lake, Objects
from sluice.state.erasures.erasure_list import NONE, Erasure, ErasureList, decode, encode
from sluice.state.update_object import update_object

FOLDER = "_erasures/"
KEY = f"{FOLDER}list.json"
_SALT_BYTES = 32


def read_erasures(lake: Objects) -> ErasureList:
    """Returns what the list holds now; nothing where nobody was ever erased. Raises SluiceError."""
    stored = lake.read(KEY)
    return NONE if stored is None else decode(stored.data, f"{lake.url}/{KEY}")


def salted(lake: Lake) -> ErasureList:
    """Returns the list, and makes an empty one with a salt where there is none: values are hashed with it."""
    lake.create(KEY, encode(ErasureList(secrets.token_hex(_SALT_BYTES))))
    return read_erasures(lake)


def add_erasure(lake: Lake, entry: Erasure, again: Callable[[int, Erasure], bool]) -> tuple[int, ErasureList]:
    """Adds the entry, unless there is one of the same words and `again` says no of it: that one is meant.

    Returns its number and the list that holds it.
    """

    def change(data: bytes | None) -> bytes:
        erasures = decode(data or encode(NONE), f"{lake.url}/{KEY}")
        number = erasures.number_of(entry)
        if number is not None and not again(number, erasures.entries[number]):
            return encode(erasures)
        return encode(replace(erasures, entries=(*erasures.entries, entry)))

    update_object(lake, KEY, change)
    erasures = read_erasures(lake)
    number = erasures.number_of(entry)
    if number is None:
        raise LookupError(f"{KEY} lost an entry that was just written")
    return number, erasures
