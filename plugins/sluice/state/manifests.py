"""Reads many manifests at once: the lake's round trips side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from sluice.clients.lake import layout
from sluice.clients.lake.base import Item, Lake
from sluice.concurrency import each_if_slow
from sluice.errors import SluiceError
from sluice.manifest import LandedFile, Manifest, decode
from sluice.safe_text import visible
from sluice.slices import Slice, Unit


def read_manifest(lake: Lake, unit: Unit) -> Manifest | None:
    """Returns the manifest of `unit`, or None when it has not landed. Raises SluiceError for bytes that are
    none, or that are another unit's."""
    key = layout.manifest(unit.slice.id, unit.cluster)
    stored = lake.read(key)
    if stored is None:
        return None
    manifest = decode(stored.data, f"{lake.url}/{key}")
    if (manifest.pipeline, manifest.slice, manifest.cluster) != (lake.pipeline, unit.slice.id, unit.cluster):
        other = visible(f"{manifest.pipeline}: {manifest.slice}/{manifest.cluster}")
        raise SluiceError(f"{lake.url}/{key} is the manifest of {other}: verify names what to do")
    for file in manifest.all_files:
        if not _is_of(file, unit):
            name = visible(file.key)
            raise SluiceError(f"{lake.url}/{key} names {name!r}, not its own file: verify names what to do")
    return manifest


def _is_of(file: LandedFile, unit: Unit) -> bool:
    """Returns whether a landing of `unit` gives such names: what has them is read, moved and deleted."""
    name = layout.parse_name(file.key)
    if name is None or (name.slice, name.cluster) != (unit.slice.id, unit.cluster):
        return False
    return file.attempt_key.startswith(layout.ATTEMPTS) and layout.is_own(file.attempt_key)


def units_in(lake: Lake, slices: Iterable[Slice]) -> list[Unit]:
    """Returns the units of the slices that the lake has anything of, whatever the pipeline file says now."""
    units: dict[Unit, None] = {}
    for slice_ in sorted(set(slices)):
        for _, cluster in _places(lake, f"{layout.SLICES}{slice_.id}/"):
            units[Unit(slice_, cluster)] = None
    return list(units)


def landed_units(lake: Lake, length: timedelta) -> list[Unit]:
    """Returns all units that the lake has anything of, by the names of its objects alone. What no landing has
    put there is of none. Raises WrongUse for slices of another length."""
    places = sorted(set(_places(lake, layout.SLICES)))
    return [Unit(slice_, cluster) for name, cluster in places if (slice_ := Slice.of_folder(name, length))]


def _places(lake: Lake, prefix: str) -> Iterator[tuple[str, str]]:
    """Yields the folders of slice and cluster in which an object lies."""
    for item in lake.list(prefix):
        _, *folders, _ = item.key.split("/")
        if len(folders) > 1:
            yield folders[0], folders[1]


def landed_span(lake: Lake, length: timedelta) -> tuple[datetime, datetime] | None:
    """Returns the span from the first landed slice to the end of the last. Raises as `landed_units`."""
    units = landed_units(lake, length)
    return (units[0].slice.start, units[-1].slice.end) if units else None


def read_manifests(lake: Lake, units: Iterable[Unit]) -> dict[Unit, Manifest]:
    """Returns the manifests of those units that have landed, in the units' order."""
    units = list(units)
    manifests = each_if_slow(lambda unit: read_manifest(lake, unit), units)
    return {unit: manifest for unit, manifest in zip(units, manifests, strict=True) if manifest is not None}


# Attempts of landing: their folders, and when they are old.
OLD = timedelta(days=7)


def is_old(items: Iterable[Item], now: datetime) -> bool:
    """Judges by the newest object: an attempt that still writes is not old."""
    return max(item.modified for item in items) < now - OLD


def attempts_of(items: Iterable[Item]) -> Mapping[tuple[str, str], list[Item]]:
    """Groups objects by (slice id, attempt id)."""
    objects_by_attempt: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        _, *folders, _ = item.key.split("/")
        if len(folders) > 1:  # else no attempt has put it there
            objects_by_attempt.setdefault((folders[0], folders[1]), []).append(item)
    return objects_by_attempt
