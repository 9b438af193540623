"""Writes into a unit's manifest that its files are forgotten, by compare-and-set."""

from __future__ import annotations

from dataclasses import replace

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.flow.forget.decide import ForgetDecision
from sluice.manifest import Manifest, decode, encode


def note_forgotten(lake: Lake, decision: ForgetDecision) -> bool:
    """Returns whether it was written; False where another manifest stands there by now."""
    return _replace(lake, decision.manifest, decision.forgetting)


def confirm(lake: Lake, decision: ForgetDecision) -> None:
    """Notes that no file is left, unless another manifest, with files of its own, has replaced it."""
    old = decision.forgetting
    if old.forgotten is not None:
        _replace(lake, old, replace(old, forgotten=replace(old.forgotten, removed=True)))


def restore(lake: Lake, decision: ForgetDecision) -> None:
    """Restores the manifest, as long as no file is deleted: to `new` where a killed run had begun the unit,
    else to what it said before."""
    stored, _ = _read(lake, decision.manifest)
    if stored is None:
        return
    begun = decision.manifest.forgotten is not None and not decision.manifest.forgotten.removed
    before = replace(decision.manifest, forgotten=decision.new) if begun else decision.manifest
    _replace(lake, decision.manifest if begun else decision.forgetting, before)


def _replace(lake: Lake, old: Manifest, new: Manifest) -> bool:
    stored, version = _read(lake, old)
    key = layout.manifest(old.slice, old.cluster)
    return stored == old and lake.replace(key, encode(new), version)


def _read(lake: Lake, manifest: Manifest) -> tuple[Manifest | None, str]:
    key = layout.manifest(manifest.slice, manifest.cluster)
    stored = lake.read(key)
    if stored is None:
        return None, ""
    return decode(stored.data, f"{lake.url}/{key}"), stored.version
