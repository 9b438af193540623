"""What an erasure has found and done so far: one object of the lake for each entry, which only grows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sluice.clients.lake.base import Lake, update_object
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.erasures.erasure_list import FOLDER, ErasureList, read_erasures
from sluice.stored_json import decode_stored


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

    `erased` and `rows_erased` are what its manifest counted already. `tables`: rows and misfits committed.
    """

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
        for number in _owed(manifest, len(entries)):
            if not entries[number].covers(unit.slice):
                continue
            if number not in progress_by_number:
                progress_by_number[number] = read_progress(lake, number)
            if progress_by_number[number].clean.get(str(unit)) != manifest.id:
                oldest_by_unit[unit] = number
                break
    return oldest_by_unit


def note_clean(lake: Lake, unit: Unit, manifest: Manifest, erasures: ErasureList) -> None:
    """Notes that the unit's files hold nothing of entries that its landing did not know."""
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
