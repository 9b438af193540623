"""Says at the end of a landing what has changed in the fields of the events that it landed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sluice.clients.lake.base import Lake
from sluice.manifest import Manifest
from sluice.safe_text import Say
from sluice.slices import Unit
from sluice.state.schema.history import changes_of

MOST_LINES = 20


def tell_changes(
    lake: Lake, units: Iterable[Unit], landed: Sequence[Manifest], old: Mapping[Unit, Manifest], say: Say
) -> None:
    """Says a line for each change from earlier manifests to those `landed`; `old` are those that `units` had
    before. Raises LakeUnavailable."""
    by_name = {(unit.slice.id, unit.cluster): unit for unit in units}
    new = {by_name[manifest.slice, manifest.cluster]: manifest for manifest in landed}
    changes = changes_of(lake, sorted(new), {**old, **new}, say)
    for change in changes[:MOST_LINES]:
        say(f"schema changed: {change}")
    if len(changes) > MOST_LINES:
        shows = lake.command("status", "--changes")
        say(f"schema changed: {len(changes) - MOST_LINES:,} more: `{shows}` shows all")
