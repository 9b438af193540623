"""Measures what a landing has committed, where samples are taken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.flow import metrics
from sluice.metrics import meter, sink
from sluice.slices import SliceRange
from sluice.state.driver_meter import handed_over
from sluice.state.manifests import read_manifests
from sluice.state.units import units_of


@contextmanager
def counted_landing(pipeline: Pipeline, slices: SliceRange, cluster: str = "") -> Iterator[None]:
    """Measures what is landed inside, where samples are taken: the manifests that were not there before, also
    when the rest failed, and what the driver has counted. `cluster`: only this one is landed."""
    if not sink.taken():
        yield
        return
    started = datetime.now(UTC)
    lake, units = open_lake(pipeline), units_of(pipeline, slices)
    before = {unit: manifest.id for unit, manifest in read_manifests(lake, units).items()}
    try:
        yield
    finally:
        after = read_manifests(lake, units)
        landed = [m for unit, m in after.items() if before.get(unit) != m.id]
        driver = handed_over(lake, slices, cluster, started)
        meter.put(driver)
        sink.emit(metrics.landed(pipeline, landed))
        sink.emit(metrics.written(pipeline.name, landed, driver))
