"""What a look at a short range finds."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.boundaries.model import Boundaries
from sluice.status import UnitStatus
from sluice.summary.months import UnitSummary


@dataclass(frozen=True)
class Sight:
    """What a look has found: `statuses` slice by slice, each one's summary, and the boundaries it went by."""

    statuses: list[UnitStatus]
    summaries: list[UnitSummary]
    boundaries: Boundaries
