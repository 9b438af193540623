"""What `plan` says of the mask: what it hides, and which units landed without it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sluice.config.pipeline import Pipeline
from sluice.manifest import Manifest
from sluice.mask.mask_rules import said_by
from sluice.slices import SliceRange
from sluice.state.status import UnitStatus


def mask_lines(pipeline: Pipeline, statuses: Iterable[UnitStatus]) -> Iterator[str]:
    """Yields what is masked, and how many landed units are not masked so."""
    rules = said_by(pipeline)
    if not rules:
        return
    yield f"mask: {'; '.join(f'{name}: {rule}' for name, rule in rules.items())}"
    others = [s.unit for s in statuses if s.manifest is not None and not masked_so(s.manifest, rules)]
    if others:
        units = "1 unit was" if len(others) == 1 else f"{len(others):,} units were"
        span = SliceRange(others[0].slice.start, others[-1].slice.end, pipeline.slice)
        command = pipeline.command("run", *span.words, "--mode", "remake")
        yield f"{units} landed without this mask, or with another: `{command}` masks them"


def masked_so(manifest: Manifest, rules: Mapping[str, str]) -> bool:
    """Returns whether the unit landed by these rules of a mask. Rules that the file no longer has do not
    count: what they have hidden stays hidden."""
    landed_rules = manifest.masked.rules if manifest.masked else {}
    return all(landed_rules.get(name) == rule for name, rule in rules.items())
