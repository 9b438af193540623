"""Removes what the lake still has of the units as they were: superseded files, and attempts that died."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sluice.clients.lake import layout
from sluice.clients.lake.base import Item, Lake
from sluice.clients.lake.layout import parse_name
from sluice.clients.lake.own_folder import delete_own
from sluice.flow.verify.read_lake import list_files
from sluice.manifest import STAMP, Manifest
from sluice.slices import Unit
from sluice.state.attempts import attempts_of
from sluice.state.erasures.erasure_progress import ErasureProgress

IDLE = timedelta(hours=6)
"""An attempt that has written nothing for as long is not alive: a landing writes all the time."""


@dataclass(frozen=True)
class LeftAttempt:
    """Files of an attempt that may be alive; `removable` is when a later call removes it."""

    slice: str
    attempt: str
    files: int
    removable: str


@dataclass(frozen=True)
class Removed:
    files: int
    attempts: int
    left: tuple[LeftAttempt, ...]


def remove_left(
    lake: Lake,
    covers: Callable[[str], bool],
    manifests: Mapping[Unit, Manifest],
    progress: ErasureProgress,
    now: datetime,
) -> Removed:
    """`covers`: whether the entry covers the slice of an id; attempts may be of slices that have never
    landed. `manifests` are those of all units that it covers, as they stand."""
    dead = _dead(lake, manifests, progress)
    delete_own(lake, dead)
    removed, left_attempts = 0, list[LeftAttempt]()
    named = {(unit.slice.id, manifest.attempt) for unit, manifest in manifests.items()}
    attempts = attempts_of(item for item in lake.list(layout.ATTEMPTS) if layout.is_own(item.key))
    newest = _newest(attempts)
    for (slice_id, attempt), files in attempts.items():
        if not covers(slice_id) or (slice_id, attempt) in named:
            continue
        idle_from = newest[attempt] + IDLE
        if idle_from <= now:
            delete_own(lake, [item.key for item in files])
            removed += 1
        else:
            left_attempts.append(LeftAttempt(slice_id, attempt, len(files), idle_from.strftime(STAMP)))
    return Removed(len(dead), removed, tuple(left_attempts))


def _newest(attempts: Mapping[tuple[str, str], Sequence[Item]]) -> Mapping[str, datetime]:
    """Returns when each attempt has last written, into whatever slice: it commits all of them at its end."""
    last_written: dict[str, datetime] = {}
    for (_, attempt), files in attempts.items():
        last_written[attempt] = max(
            *(item.modified for item in files), last_written.get(attempt, files[0].modified)
        )
    return last_written


def _dead(lake: Lake, manifests: Mapping[Unit, Manifest], progress: ErasureProgress) -> list[str]:
    """Returns files of generations before the one that stands, of units that held the person."""
    stand = {(u.slice.id, u.cluster): m for u, m in manifests.items() if str(u) in progress.found}
    named = {file.key for manifest in stand.values() for file in manifest.all_files}
    keys: list[str] = []
    for key in list_files(lake):
        name = parse_name(key)
        manifest = stand.get((name.slice, name.cluster)) if name else None
        if name and manifest and key not in named and name.generation < manifest.generation:
            keys.append(key)
    return keys
