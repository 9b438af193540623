"""Whether the rows that landed are all of event hours decades away: then the time's format is wrong. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from sluice.config.pipeline import Pipeline
from sluice.infer.far_times import far_instants
from sluice.slices import to_ms
from sluice.state.status import UnitStatus


def far_rows(pipeline: Pipeline, statuses: Iterable[UnitStatus]) -> str:
    """Says so; empty where some row is not, where none has landed, and where the time is no field."""
    landed = [status for status in statuses if status.manifest is not None and status.manifest.files]
    hours = sorted(
        {file.hour for status in landed for file in (status.manifest.files if status.manifest else ())}
    )
    if not hours or pipeline.event.time.record:
        return ""
    low, high = (
        to_ms(datetime.fromisoformat(f"{hour}:00").replace(tzinfo=UTC)) for hour in (hours[0], hours[-1])
    )
    return far_instants(
        pipeline.event.time, low, high, to_ms(max(status.unit.slice.end for status in landed))
    )
