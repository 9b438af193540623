"""The erasure list of a lake. It holds no value that was asked for, only its keyed hash."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated

import msgspec

from sluice.clients.lake.base import Lake, Objects, update_object
from sluice.errors import SluiceError
from sluice.field_path import MOST_NAMES
from sluice.manifest import STAMP
from sluice.slices import Slice
from sluice.stored_json import Whole, decode_stored

VERSION = 1
KEY = ("_key",)
"""The path that stands for the record's own key, and not for a field of its event."""
_DIGEST_BYTES = 16


@dataclass(frozen=True, order=True)
class AskedValue:
    """A dotted path, and the keyed hash of one value that a record may have there.

    `bytes` is how long it is, and `probe` the keyed checksum of `ErasureList.probe`: by both it is found
    anywhere in bytes that are no event.
    """

    path: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=MOST_NAMES)]
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    bytes: Whole
    probe: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]


@dataclass(frozen=True)
class Erasure:
    """An entry: records with one of `values` are erased from the slices that begin in `[start, until)`.

    `start` is empty where it is from the first one on. `type`: only rows of it; empty: of any. `asked_until`:
    the end as it was typed, empty without one: the same words find their entry again. Instants are texts in
    STAMP's form, in UTC.
    """

    values: tuple[AskedValue, ...]
    type: str
    start: str
    until: str
    asked_until: str
    reason: str
    at: str
    by: str

    def covers(self, slice_: Slice) -> bool:
        begins = slice_.start.strftime(STAMP)
        return self.start <= begins < self.until

    @property
    def words(self) -> tuple[object, ...]:
        """What was asked for: two calls with the same words mean the same erasure."""
        return tuple(sorted(self._values)), *self._bounds

    def includes(self, other: Erasure) -> bool:
        """Returns whether the other one asked for nothing else: for the same of fewer values."""
        return self._values >= other._values and self._bounds == other._bounds

    @property
    def _values(self) -> frozenset[tuple[tuple[str, ...], str]]:
        return frozenset((value.path, value.digest) for value in self.values)

    @property
    def _bounds(self) -> tuple[str, str, str]:
        return self.type, self.start, self.asked_until


@dataclass(frozen=True)
class ErasureList:
    """All entries in the order in which they were made; an entry's number is its place. `salt`: in hex."""

    salt: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")] = ""
    entries: tuple[Erasure, ...] = ()
    version: int = VERSION

    def since(self, number: int) -> ErasureList:
        """Returns the entries from that number on."""
        return replace(self, entries=self.entries[number:])

    def over(self, slices: Iterable[Slice]) -> ErasureList:
        """Returns the entries that cover one of the slices; these have other numbers."""
        slices = list(slices)
        entries = [entry for entry in self.entries if any(entry.covers(slice_) for slice_ in slices)]
        return replace(self, entries=tuple(entries))

    def digest(self, value: bytes) -> str:
        return digest(self.salt, value)

    def asked(self, path: tuple[str, ...], value: bytes) -> AskedValue:
        weights = probe_weights(self.salt)
        probe = sum(weights[byte] for byte in value) % PROBES
        return AskedValue(path, self.digest(value), len(value), probe)

    def number_of(self, erasure: Erasure) -> int | None:
        """Returns the number of the newest entry that was asked for in the same words; None without one."""
        numbers = [number for number, one in enumerate(self.entries) if one.words == erasure.words]
        return numbers[-1] if numbers else None


NONE = ErasureList()


PROBES = 1 << 16


@lru_cache(maxsize=8)
def probe_weights(salt: str) -> tuple[int, ...]:
    """Returns the weight of each byte in a value's checksum, the sum of them modulo PROBES: one of so many
    pieces of a text has that of a value, and only these are hashed."""
    data = hashlib.shake_256(b"probe" + bytes.fromhex(salt)).digest(512)
    return tuple(int.from_bytes(data[at : at + 2], "little") for at in range(0, 512, 2))


def digest(salt: str, value: bytes) -> str:
    return hashlib.blake2b(value, key=bytes.fromhex(salt), digest_size=_DIGEST_BYTES).hexdigest()


def covering(entries: Sequence[Erasure], slice_: Slice) -> bool:
    return any(one.covers(slice_) for one in entries)


class _Format(msgspec.Struct):
    version: int


_FORMAT = msgspec.json.Decoder(_Format)
_LIST = msgspec.json.Decoder(ErasureList)


def encode(erasures: ErasureList) -> bytes:
    return msgspec.json.format(msgspec.json.encode(erasures), indent=1)


def decode(data: bytes, place: str) -> ErasureList:
    """Raises SluiceError naming `place` when the bytes are no list, or a newer Sluice's."""

    def damage(error: Exception) -> str:
        return f"{place} is no erasure list ({error}): restore it from a backup; nothing lands before that"

    version = decode_stored(_FORMAT, data, damage).version
    if version > VERSION:
        raise SluiceError(f"{place} has format {version}, newer than this Sluice's {VERSION}: upgrade")
    erasures = decode_stored(_LIST, data, damage)
    if erasures.entries and not erasures.salt:  # whom they name nobody could tell any more
        raise SluiceError(damage(ValueError("it has entries and no salt")))
    return erasures


# The erasure list in the lake: one object, which grows by compare-and-set.
FOLDER = "_erasures/"
LIST_KEY = f"{FOLDER}list.json"
_SALT_BYTES = 32


def read_erasures(lake: Objects) -> ErasureList:
    """Returns what the list holds now; nothing where nobody was ever erased. Raises SluiceError."""
    stored = lake.read(LIST_KEY)
    return NONE if stored is None else decode(stored.data, f"{lake.url}/{LIST_KEY}")


def salted(lake: Lake) -> ErasureList:
    """Returns the list, and makes an empty one with a salt where there is none: values are hashed with it."""
    lake.create(LIST_KEY, encode(ErasureList(secrets.token_hex(_SALT_BYTES))))
    return read_erasures(lake)


def add_erasure(lake: Lake, entry: Erasure, again: Callable[[int, Erasure], bool]) -> tuple[int, ErasureList]:
    """Adds the entry, unless there is one of the same words and `again` says no of it: that one is meant.

    Returns its number and the list that holds it.
    """

    def change(data: bytes | None) -> bytes:
        erasures = decode(data or encode(NONE), f"{lake.url}/{LIST_KEY}")
        number = erasures.number_of(entry)
        if number is not None and not again(number, erasures.entries[number]):
            return encode(erasures)
        return encode(replace(erasures, entries=(*erasures.entries, entry)))

    update_object(lake, LIST_KEY, change)
    erasures = read_erasures(lake)
    number = erasures.number_of(entry)
    if number is None:
        raise LookupError(f"{LIST_KEY} lost an entry that was just written")
    return number, erasures
