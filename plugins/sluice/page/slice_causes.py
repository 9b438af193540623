"""The open anomalies of an hour that its findings do not say already. Pure.

A finding says what holds now, an anomaly what the last verification saw: of what both are about, the finding
has the repair.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice.flow.verify.anomaly import AnomalyKind
from sluice.page.models import CauseRow
from sluice.page.slice_findings import SliceFacts, missing_tables
from sluice.page.slice_models import Finding


def unrepeated(facts: SliceFacts, found: Sequence[Finding]) -> list[CauseRow]:
    """Returns the causes that no finding says: not that the hour is unfinished where a `fill` finishes it,
    nor that a table is missing which keeps it from being complete."""
    gone = {f"table {table}" for table in missing_tables(facts)}
    filled = any(one.repair and one.repair.mode == "fill" for one in found)
    return [cause for cause in facts.causes if not _is_repeated(cause, gone, filled)]


def _is_repeated(cause: CauseRow, gone: set[str], filled: bool) -> bool:
    if cause.name == AnomalyKind.TABLE_MISSING:
        return cause.place.partition(", shard ")[0] in gone
    return cause.name == AnomalyKind.INCOMPLETE and filled
