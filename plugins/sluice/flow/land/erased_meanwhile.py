"""Which units were landed by an erasure list that has grown meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from sluice.clients.lake.base import Lake
from sluice.manifest import Manifest
from sluice.slices import Slice, Unit
from sluice.state.erasures.erasure_list import covering
from sluice.state.erasures.erasure_store import read_erasures


def owed(lake: Lake, manifests: Iterable[Manifest], length: timedelta) -> list[Unit]:
    """Returns the units of which an entry that covers them is newer than what their landing has read.

    To be called after they are committed: whoever adds an entry reads the manifests after it.
    """
    erasures, landed = read_erasures(lake), list(manifests)
    return [
        unit
        for unit, manifest in zip(unit_of_each(landed, length), landed, strict=True)
        if covering(erasures.entries[manifest.erasures :], unit.slice)
    ]


def unit_of_each(manifests: Iterable[Manifest], length: timedelta) -> list[Unit]:
    return [Unit(Slice.from_id(m.slice, length), m.cluster) for m in manifests]
