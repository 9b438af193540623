"""The landing's commit point: a unit's manifest, created if absent or replaced by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from sluice import crash_points
from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.crash_points import Land
from sluice.errors import Relanded, SluiceError
from sluice.manifest import Manifest, decode, encode
from sluice.state.file_moves import move

Draft = Callable[[int], Manifest]
"""A function from the generation to the manifest: the generation is part of the files' names."""
Refusal = Callable[[Manifest, Manifest], SluiceError | None]
"""A function from the manifest that stands and the one in its place to why it must not be replaced."""


def commit(lake: Lake, draft: Draft) -> Manifest:
    """Returns the manifest that stands for the unit afterwards: this one, or the one of whoever came
    first."""
    manifest = draft(1)
    key = layout.manifest(manifest.slice, manifest.cluster)
    if lake.create(key, encode(manifest)):
        crash_points.reached(Land.COMMITTED)
        return manifest
    stored = lake.read(key)
    return commit(lake, draft) if stored is None else decode(stored.data, f"{lake.url}/{key}")


def commit_each(lake: Lake, drafts: Sequence[Draft]) -> Iterator[Manifest]:
    """Commits many units, one after the other."""
    manifests = [draft(1) for draft in drafts]
    objects = ((layout.manifest(m.slice, m.cluster), encode(m)) for m in manifests)
    for draft, manifest, won in zip(drafts, manifests, lake.create_each(objects), strict=True):
        if won:
            crash_points.reached(Land.COMMITTED)
        yield manifest if won else commit(lake, draft)


def commit_again(lake: Lake, draft: Draft, refusal: Refusal | None = None) -> Manifest:
    """Commits as `commit` does, replacing what is there, unless it carries the draft's own token.

    The old manifest's move is finished first: a mover that wakes up late then finds nothing to do. The
    copy of it names the files that the new one's move removes. A manifest of this draft that won, but whose
    answer was lost until another `reland` had replaced it, is not written again: its files are gone.
    What landed by the rules of the old one amends it: tables keep theirs. Raises what `refusal` says, and
    Relanded where the old one has other rules: somebody has applied them meanwhile.
    """
    while True:
        old = commit(lake, draft)
        if old.token == draft(1).token or _won_before(lake, draft(1)):
            return old
        new = _replaced(lake, old, partial(_amending, old, draft), refusal)
        if new is not None:
            return new


def _amending(old: Manifest, draft: Draft, generation: int) -> Manifest:
    new = draft(generation)
    if new.rules != old.rules:
        raise Relanded(
            f"slice {old.slice}/{old.cluster} was landed by other rules while Kafka was read: those files "
            "stand, and nothing of this attempt is left; run it again"
        )
    return replace(new, amends=(old.id, *old.amends))


def commit_remade(lake: Lake, old: Manifest, draft: Draft, refusal: Refusal | None = None) -> Manifest:
    """Commits in place of `old`, out of whose files the draft was made, and only as long as that stands.

    Returns the manifest that stands afterwards: one that has replaced `old` meanwhile may hold records that
    `old` did not have. Raises what `refusal` says.
    """
    new = _replaced(lake, old, draft, refusal)
    if new is not None:
        return new
    key = layout.manifest(old.slice, old.cluster)
    stored = lake.read(key)
    return old if stored is None else decode(stored.data, f"{lake.url}/{key}")


def _replaced(lake: Lake, old: Manifest, draft: Draft, refusal: Refusal | None) -> Manifest | None:
    """Writes the next generation if `old` still stands, after its move is finished; else returns None."""
    move(lake, [old], replaced=True)
    crash_points.reached(Land.OLD_MOVED)
    new = draft(old.generation + 1)
    # Whoever replaces `old` meanwhile takes away the files that are compared: it counts only if `old` stands.
    error = refusal(old, new) if refusal is not None else None
    key = layout.manifest(new.slice, new.cluster)
    stored = lake.read(key)
    if stored is None or decode(stored.data, f"{lake.url}/{key}") != old:
        return None
    if error is not None:
        raise error
    lake.put(layout.superseded_manifest(old.slice, old.cluster, old.generation), stored.data)
    crash_points.reached(Land.OLD_COPIED)
    if not lake.replace(key, encode(new), stored.version):
        return None
    crash_points.reached(Land.COMMITTED)
    return new


def _won_before(lake: Lake, draft: Manifest) -> bool:
    """Returns whether the draft was the slice's manifest: only then are files moved out of its attempt."""
    files = draft.all_files
    return bool(files) and lake.size(files[0].attempt_key) is None
