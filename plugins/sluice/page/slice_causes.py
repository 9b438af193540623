"""The open anomalies of an hour that its findings do not say already. Pure.

A finding says what holds now, an anomaly what the last verification saw: of what both are about, the finding
has the repair.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice.flow.verify.anomaly import AnomalyKind
from sluice.page.cells import Cell
from sluice.page.models import CauseRow
from sluice.page.slice_findings import SliceFacts, missing_tables
from sluice.page.slice_models import Finding
from sluice.state.unit_state import UnitState


def unrepeated(facts: SliceFacts, found: Sequence[Finding]) -> list[CauseRow]:
    """Returns the causes that no finding says: not that the hour is unfinished where a `fill` finishes it, or
    expired, nor that a missing table keeps it from being complete. One before the pipeline's first hour is
    not unfinished."""
    gone = {f"table {table}" for table in missing_tables(facts)}
    expired = any(status.state is UnitState.EXPIRED for status in facts.statuses)
    filled = any(one.repair and one.repair.mode == "fill" for one in found)
    unfinished = filled or expired or facts.cell is Cell.BEFORE
    said = {*([AnomalyKind.INCOMPLETE] if unfinished else []), *([AnomalyKind.LOSS] if expired else [])}
    return [cause for cause in facts.causes if cause.name not in said and not _is_missing(cause, gone)]


def _is_missing(cause: CauseRow, gone: set[str]) -> bool:
    return cause.name == AnomalyKind.TABLE_MISSING and cause.place.partition(", shard ")[0] in gone
