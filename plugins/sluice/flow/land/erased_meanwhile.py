"""Units that were landed by an erasure list that has grown meanwhile: which they are, and its new entries
applied to them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import pendulum

from sluice.clients.lake.base import Lake
from sluice.flow.land.amend.erase_unit import erase_unit
from sluice.manifest import Manifest
from sluice.slices import Slice, Unit
from sluice.state.erasures import covering, note_clean, read_erasures
from sluice.state.file_moves import finish_moves


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


def erase_owed(lake: Lake, units: Iterable[Unit]) -> None:
    """Takes out of the units what the list names and their manifests do not know yet. Repeatable.

    The list is read again after each commit, as after that of a landing. Raises what `erase_unit` raises.
    """
    now = pendulum.now("UTC")
    for unit, manifest in finish_moves(lake, units).items():
        stands, known = manifest, manifest.erasures
        while covering((erasures := read_erasures(lake)).entries[known:], unit.slice):
            new = erase_unit(lake, unit, stands, erasures, now)
            if new == stands:
                note_clean(lake, unit, stands, erasures)
                known = len(erasures.entries)
            else:
                stands, known = new, new.erasures


def unit_of_each(manifests: Iterable[Manifest], length: timedelta) -> list[Unit]:
    return [Unit(Slice.from_id(m.slice, length), m.cluster) for m in manifests]
