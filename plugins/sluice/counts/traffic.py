"""What was counted when a slice landed, against what the pipeline file asks for now. Pure."""

from __future__ import annotations

from sluice.manifest import Manifest
from sluice.pipeline import Pipeline


def uncounted(pipeline: Pipeline, manifest: Manifest) -> tuple[str, ...]:
    """The tables for which the slice was not counted, or by other fields or types. As with a topic that the
    pipeline has since gained, this does not change the slice's state; a `reland` counts it anew."""
    found = []
    for spec in pipeline.counts:
        made = manifest.traffic_for(spec.table)
        if made is None or (dict(made.by), tuple(made.types)) != (dict(spec.by), spec.types):
            found.append(spec.table)
    return tuple(found)
