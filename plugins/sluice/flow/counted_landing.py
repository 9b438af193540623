"""Measures what a landing has committed, where samples are taken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.flow import metrics
from sluice.metrics import sink
from sluice.slices import SliceRange
from sluice.state.manifests import read_manifests
from sluice.state.units import units_of


@contextmanager
def counted_landing(pipeline: Pipeline, slices: SliceRange) -> Iterator[None]:
    """Measures what is landed inside, where samples are taken: the manifests that were not there before,
    also when the rest failed."""
    if not sink.taken():
        yield
        return
    lake, units = open_lake(pipeline), units_of(pipeline, slices)
    before = {unit: manifest.id for unit, manifest in read_manifests(lake, units).items()}
    try:
        yield
    finally:
        found = read_manifests(lake, units)
        sink.emit(metrics.landed(pipeline, [m for unit, m in found.items() if before.get(unit) != m.id]))
