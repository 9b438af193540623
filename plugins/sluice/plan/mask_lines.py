"""What `plan` says of the mask: what it hides, and which units landed without it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sluice.config.pipeline import Pipeline
from sluice.manifest import Manifest
from sluice.mask.mask_rules import said_by
from sluice.state.status import UnitStatus


def mask_lines(pipeline: Pipeline, statuses: Iterable[UnitStatus]) -> Iterator[str]:
    """Yields what is masked, and how many landed units are not masked so."""
    rules = said_by(pipeline)
    if not rules:
        return
    yield f"mask: {'; '.join(f'{name}: {rule}' for name, rule in rules.items())}"
    landed = [status.manifest for status in statuses if status.manifest is not None]
    others = sum(not _masked_so(manifest, rules) for manifest in landed)
    if others:
        units = "1 unit was" if others == 1 else f"{others:,} units were"
        yield f"{units} landed without this mask, or with another: --mode remake masks them"


def _masked_so(manifest: Manifest, rules: dict[str, str]) -> bool:
    """Rules that the file no longer has do not count: what they have hidden stays hidden."""
    landed_rules = manifest.masked.rules if manifest.masked else {}
    return all(landed_rules.get(name) == rule for name, rule in rules.items())
