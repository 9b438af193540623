"""Removes what attempts left behind: a run's own at its end, others' when nothing was written for a week."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sluice import crash_points
from sluice.clients.lake import layout
from sluice.clients.lake.base import Item, Lake
from sluice.clients.lake.own_folder import delete_own
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Land
from sluice.metrics import meter
from sluice.slices import Slice
from sluice.state.manifests import attempts_of, is_old, read_manifests, units_in


def sweep(pipeline: Pipeline, lake: Lake, attempt_ids: Collection[str], now: datetime) -> None:
    """Removes attempts. `attempt_ids`: those whose units are landed and moved; what is left of them is
    waste."""
    discard(lake, attempt_ids)
    attempts = attempts_of(lake.list(layout.ATTEMPTS))
    old = {
        name: items for name, items in attempts.items() if name[1] not in attempt_ids and is_old(items, now)
    }
    slices = {slice_id: Slice.of_folder(slice_id, pipeline.slice) for slice_id, _ in old}
    named = _named(lake, [slice_ for slice_ in slices.values() if slice_])
    waste = [items for name, items in old.items() if slices[name[0]] and name not in named]
    _delete(lake, [item for items in waste for item in items])


def discard(lake: Lake, attempt_ids: Collection[str]) -> None:
    """Removes everything of attempts that have committed nothing, or whose files are moved."""
    attempts = attempts_of(lake.list(layout.ATTEMPTS))
    _delete(
        lake, [item for (_, attempt), items in attempts.items() if attempt in attempt_ids for item in items]
    )
    crash_points.reached(Land.SWEPT)


def _named(lake: Lake, slices: Collection[Slice]) -> set[tuple[str, str]]:
    manifests = read_manifests(lake, units_in(lake, slices))
    return {(unit.slice.id, manifest.attempt) for unit, manifest in manifests.items()}


def _delete(lake: Lake, items: Sequence[Item]) -> None:
    items = [item for item in items if layout.is_own(item.key)]
    delete_own(lake, [item.key for item in items])
    if items:
        meter.add("bytes_discarded", sum(item.size for item in items))
