"""Reads many manifests at once: the lake's round trips side by side."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.concurrency import each_if_slow
from sluice.manifest import Manifest, decode
from sluice.slices import Slice, Unit


def read_manifest(lake: Lake, unit: Unit) -> Manifest | None:
    """Returns the manifest of `unit`, or None when it has not landed."""
    key = layout.manifest(unit.slice.id, unit.cluster)
    stored = lake.read(key)
    return None if stored is None else decode(stored.data, f"{lake.url}/{key}")


def units_in(lake: Lake, slices: Iterable[Slice]) -> list[Unit]:
    """Returns the units of the slices that the lake has anything of, whatever the pipeline file says now."""
    units: dict[Unit, None] = {}
    for slice_ in sorted(set(slices)):
        for item in lake.list(f"{layout.SLICES}{slice_.id}/"):
            units[Unit(slice_, item.key.split("/")[2])] = None
    return list(units)


def landed_span(lake: Lake, length: timedelta) -> tuple[datetime, datetime] | None:
    """Returns the span from the first landed slice to the end of the last, by the names of the manifests
    alone.

    Raises WrongUse for slices of another length.
    """
    ids = {item.key.split("/")[1] for item in lake.list(layout.SLICES)}
    slices = sorted(Slice.from_id(name, length) for name in ids)
    return (slices[0].start, slices[-1].end) if slices else None


def read_manifests(lake: Lake, units: Iterable[Unit]) -> dict[Unit, Manifest]:
    """Returns the manifests of those units that have landed, in the units' order."""
    units = list(units)
    manifests = each_if_slow(lambda unit: read_manifest(lake, unit), units)
    return {unit: manifest for unit, manifest in zip(units, manifests, strict=True) if manifest is not None}
