"""Stores what a verify has made available for the first time, and sends it as metrics."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.flow import metrics
from sluice.flow.verify.anomaly import QUIET_KINDS, Anomaly, AnomalyKind
from sluice.metrics import sink
from sluice.slices import Slice
from sluice.state.freshness import fresh_of, note_fresh, tables_of
from sluice.state.status import UnitStatus

_HARMLESS = (AnomalyKind.INCOMPLETE, *QUIET_KINDS)


def note_freshness(
    pipeline: Pipeline,
    statuses: Iterable[UnitStatus],
    findings: Iterable[Anomaly],
    now: datetime,
) -> None:
    """Stores when the newest hours were first verified, and sends how old their records were then. What is
    older than `heal` is history that somebody loads, and says nothing of freshness.

    Raises: LakeUnavailable.
    """
    read_statuses = list(statuses)
    broken = {
        (anomaly.slice, anomaly.cluster, anomaly.table)
        for anomaly in findings
        if anomaly.kind not in _HARMLESS
    }
    first = note_fresh(open_lake(pipeline), fresh_of(read_statuses, broken, now - pipeline.heal, now))
    slices: list[Slice] = sorted(
        {status.unit.slice for status in read_statuses if status.unit.slice.id in first}
    )
    sink.emit(metrics.fresh(pipeline.name, tables_of(slices, first)))
