"""After the manifest: the files' move to their final names. Any step may repeat it, at any time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sluice import crash_points
from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import delete_own
from sluice.concurrency import each_if_slow
from sluice.crash_points import Land
from sluice.errors import Conservation
from sluice.manifest import LandedFile, Manifest, decode
from sluice.slices import Unit, words_of
from sluice.state.manifests import read_manifests


def finish_moves(lake: Lake, units: Iterable[Unit], *, replaced: bool = False) -> dict[Unit, Manifest]:
    """Returns the manifests of those units that have landed, with all of their files at their final names.

    Raises Conservation as `move` does.
    """
    manifests = read_manifests(lake, units)
    move(lake, list(manifests.values()), replaced=replaced)
    return manifests


def move(lake: Lake, manifests: Sequence[Manifest], *, replaced: bool = False) -> None:
    """Moves the files, removes those of the generation before, and writes `_SUCCESS` last.

    `_SUCCESS` holds the manifest's id: one left from an earlier generation says nothing about this one.
    Raises Conservation when a file is neither where it was written nor where it belongs; not where the
    manifests are to be `replaced`: nobody can move such a file any more, and the unit is written again.
    """
    done = each_if_slow(lambda manifest: _moved(lake, manifest), manifests)
    todo = [manifest for manifest, moved in zip(manifests, done, strict=True) if not moved]
    files = [(manifest, file) for manifest in todo for file in manifest.held_files]
    with lake.synced_at_end() as moving:
        there = each_if_slow(lambda pair: _move(moving, *pair, replaced=replaced), files)
    lacking = {manifest.id for (manifest, _), found in zip(files, there, strict=True) if not found}
    crash_points.reached(Land.MOVED)
    each_if_slow(lambda manifest: _remove_superseded(lake, manifest), [m for m in todo if m.generation > 1])
    with lake.synced_at_end() as marked:
        each_if_slow(lambda manifest: _mark(marked, manifest), [m for m in todo if m.id not in lacking])


def _moved(lake: Lake, manifest: Manifest) -> bool:
    stored = lake.read(layout.slice_success(manifest.slice, manifest.cluster))
    return stored is not None and stored.data == manifest.id.encode()


def _mark(lake: Lake, manifest: Manifest) -> None:
    """Writes `_SUCCESS` by compare-and-set, unless the manifest was replaced meanwhile."""
    key, mark = layout.slice_success(manifest.slice, manifest.cluster), manifest.id.encode()
    marked = lake.create(key, mark)
    while not marked:
        stored = lake.read(key)
        if not _stands(lake, manifest):
            break
        marked = lake.create(key, mark) if stored is None else lake.replace(key, mark, stored.version)
    crash_points.reached(Land.MARKED)


def _move(lake: Lake, manifest: Manifest, file: LandedFile, *, replaced: bool) -> bool:
    """Returns whether the file is there, or is another generation's to miss."""
    try:
        lake.move(file.attempt_key, file.key)
        crash_points.reached(Land.FILE_MOVED)
    except FileNotFoundError:
        if _stands(lake, manifest):
            if replaced:
                return False
            reland = lake.command("run", *words_of(manifest.slice), "--mode", "reland")
            raise Conservation(
                f"slice {manifest.slice}/{manifest.cluster}: the lake has neither {file.key} nor "
                f"{file.attempt_key}: it was deleted; `{reland}` writes it again"
            ) from None
    return True


def _stands(lake: Lake, manifest: Manifest) -> bool:
    """Returns whether it is still the slice's manifest: who replaced it has finished its move first."""
    key = layout.manifest(manifest.slice, manifest.cluster)
    stored = lake.read(key)
    return stored is not None and decode(stored.data, f"{lake.url}/{key}").id == manifest.id


def _remove_superseded(lake: Lake, manifest: Manifest) -> None:
    """Removes the files of the generation before, except those that this one has kept."""
    key = layout.superseded_manifest(manifest.slice, manifest.cluster, manifest.generation - 1)
    stored = lake.read(key)
    if stored is not None:
        old = decode(stored.data, f"{lake.url}/{key}")
        delete_own(lake, {file.key for file in old.all_files} - {file.key for file in manifest.all_files})
        crash_points.reached(Land.OLD_REMOVED)
