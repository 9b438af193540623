"""The landing's commit point: a unit's manifest, created if absent or replaced by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable

from sluice.lake import layout
from sluice.lake.base import Lake
from sluice.landing.mover import move
from sluice.manifest import Manifest, decode, encode

Draft = Callable[[int], Manifest]
"""A function from the generation to the manifest: the generation is part of the files' names."""


def commit(lake: Lake, draft: Draft) -> Manifest:
    """The manifest that stands for the unit afterwards: this one, or the one of whoever came first."""
    manifest = draft(1)
    key = layout.manifest(manifest.slice, manifest.cluster)
    if lake.create(key, encode(manifest)):
        return manifest
    stored = lake.read(key)
    return commit(lake, draft) if stored is None else decode(stored.data, f"{lake.url}/{key}")


def commit_again(lake: Lake, draft: Draft) -> Manifest:
    """As `commit`, replacing what is there, unless it carries the draft's own token.

    The old manifest's move is finished first: a mover that wakes up late then finds nothing to do. The
    copy of it names the files that the new one's move removes.
    """
    while True:
        old = commit(lake, draft)
        if old.token == draft(1).token:
            return old
        move(lake, [old])
        new = draft(old.generation + 1)
        key = layout.manifest(new.slice, new.cluster)
        stored = lake.read(key)
        if stored is None or decode(stored.data, f"{lake.url}/{key}") != old:
            continue
        lake.put(layout.superseded_manifest(old.slice, old.cluster, old.generation), stored.data)
        if lake.replace(key, encode(new), stored.version):
            return new
