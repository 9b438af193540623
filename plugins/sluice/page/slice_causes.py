"""The open anomalies of an hour that none of its findings covers. Pure.

A finding says what holds now, an anomaly what the last verification saw. Where both are about the same thing,
the finding has the repair.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice.flow.verify.anomaly import AnomalyKind
from sluice.page.cells import Cell
from sluice.page.models import CauseRow
from sluice.page.slice_findings import SliceFacts, missing_tables
from sluice.page.slice_models import Finding
from sluice.state.unit_state import UnitState


def unrepeated(facts: SliceFacts, findings: Sequence[Finding]) -> list[CauseRow]:
    """Returns the causes that no finding covers.

    Left out: that the hour is unfinished, where a `fill` finishes it, where it has expired and before the
    pipeline's first hour; the loss of an expired hour; and a missing table that keeps it from being complete.
    """
    gone = {f"table {table}" for table in missing_tables(facts)}
    expired = any(status.state is UnitState.EXPIRED for status in facts.statuses)
    filled = any(finding.repair and finding.repair.mode == "fill" for finding in findings)
    unfinished = filled or expired or facts.cell is Cell.BEFORE
    repeated = {*([AnomalyKind.INCOMPLETE] if unfinished else []), *([AnomalyKind.LOSS] if expired else [])}
    return [cause for cause in facts.causes if cause.name not in repeated and not _is_missing(cause, gone)]


def _is_missing(cause: CauseRow, gone: set[str]) -> bool:
    return cause.name == AnomalyKind.TABLE_MISSING and cause.place.partition(", shard ")[0] in gone
