"""Whom the lake leaves out: the erasure list, and how far each entry is applied.

The list holds no value that was asked for, only its keyed hash.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from sluice.clients.lake.base import Lake, Objects, update_object
from sluice.errors import SluiceError
from sluice.field_path import MOST_NAMES
from sluice.manifest import STAMP, Manifest
from sluice.slices import Slice, Unit
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


@dataclass(frozen=True)
class FileMark:
    """A file that a manifest names."""

    key: str
    sha256: str
    bytes: int
    rows: int


@dataclass(frozen=True)
class FoundPlace:
    """The first and the last offset of a partition that has been found, and the newest stamp (ms) of them."""

    topic: str
    partition: int
    first: int
    last: int
    newest: int


@dataclass(frozen=True)
class FoundUnit:
    """A unit in which the person was found, as it was before: `rows` and `rejected` of the person.

    `erased` and `rows_erased` are what its manifest counted already. `tables`: rows and rejected rows
    committed."""

    manifest: str
    rows: int
    rejected: int
    erased: int
    rows_erased: int
    files: tuple[FileMark, ...]
    places: tuple[FoundPlace, ...]
    tables: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ErasureProgress:
    """By unit: in `clean` the manifest whose files hold nothing of the person, in `found` those that did."""

    clean: Mapping[str, str] = field(default_factory=dict)
    found: Mapping[str, FoundUnit] = field(default_factory=dict)

    def with_more(self, more: ErasureProgress) -> ErasureProgress:
        """What a unit was before is what it was when it was first found."""
        return ErasureProgress({**self.clean, **more.clean}, {**more.found, **self.found})


_DECODER = msgspec.json.Decoder(ErasureProgress)


def folder_of(number: int) -> str:
    return f"{FOLDER}{number:06d}/"


def read_progress(lake: Lake, number: int) -> ErasureProgress:
    key = _key(number)
    stored = lake.read(key)
    return ErasureProgress() if stored is None else _decoded(stored.data, f"{lake.url}/{key}")


def note_progress(lake: Lake, number: int, more: ErasureProgress) -> ErasureProgress:
    """Adds `more` by compare-and-set, and returns the progress with it."""
    key = _key(number)

    def change(data: bytes | None) -> bytes:
        before = ErasureProgress() if data is None else _decoded(data, f"{lake.url}/{key}")
        return msgspec.json.format(msgspec.json.encode(before.with_more(more)), indent=1)

    update_object(lake, key, change)
    return read_progress(lake, number)


def unerased(lake: Lake, manifests: Mapping[Unit, Manifest]) -> dict[Unit, int]:
    """Returns the units that may hold somebody who is on the list, and the number of the oldest such entry:
    the landing did not know it, and no erasure has searched these very files."""
    entries = read_erasures(lake).entries
    progress_by_number: dict[int, ErasureProgress] = {}
    oldest_by_unit: dict[Unit, int] = {}
    for unit, manifest in manifests.items():
        for number in () if manifest.held_nowhere else _owed(manifest, len(entries)):
            if not entries[number].covers(unit.slice):
                continue
            if number not in progress_by_number:
                progress_by_number[number] = read_progress(lake, number)
            if progress_by_number[number].clean.get(str(unit)) != manifest.id:
                oldest_by_unit[unit] = number
                break
    return oldest_by_unit


def note_clean(lake: Lake, unit: Unit, manifest: Manifest, erasures: ErasureList) -> None:
    """Notes that the unit's files hold nothing of entries that its landing did not know. Of files that the
    lake forgot, or begins to forget, nobody knows that."""
    if manifest.forgotten_on or manifest.half_forgotten:
        return
    for number in _owed(manifest, len(erasures.entries)):
        if erasures.entries[number].covers(unit.slice):
            note_progress(lake, number, ErasureProgress({str(unit): manifest.id}))


def left_of(progress: ErasureProgress, number: int, manifests: Mapping[Unit, Manifest]) -> list[Unit]:
    """Returns the units in which the person was found, and that were not rewritten or found clean since."""
    return [
        unit
        for unit, m in manifests.items()
        if str(unit) in progress.found and m.erasures <= number and progress.clean.get(str(unit)) != m.id
    ]


def _owed(manifest: Manifest, entries: int) -> Iterable[int]:
    return range(manifest.erasures, entries)


def _key(number: int) -> str:
    return f"{folder_of(number)}found.json"


def _decoded(data: bytes, place: str) -> ErasureProgress:
    return decode_stored(
        _DECODER,
        data,
        lambda error: f"{place} cannot be read ({error}): remove it, and the erasure searches again",
    )


# The receipt of an erasure: JSON in the lake, which whoever reads it can check without Sluice.
def receipt_key(number: int) -> str:
    return f"{folder_of(number)}receipt.json"


def has_receipt(lake: Lake, number: int) -> bool:
    return lake.size(receipt_key(number)) is not None


def write_receipt(lake: Lake, number: int, receipt: Mapping[str, Any]) -> None:
    """Replaces an older one: a later call knows what has become of what was left then."""
    data = json.dumps(receipt, indent=1).encode()
    update_object(lake, receipt_key(number), lambda _: data)
