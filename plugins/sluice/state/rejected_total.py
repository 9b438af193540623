"""How many records of some units were rejected, and why. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sluice.config.pipeline import Pipeline
from sluice.state.status import UnitStatus


def rejected_by_reason(statuses: Iterable[UnitStatus]) -> dict[str, int]:
    """Returns the records, and rows of records, that landings rejected; most frequent reason first."""
    reasons: Counter[str] = Counter()
    for status in statuses:
        reasons.update(status.manifest.refused_by_reason() if status.manifest else {})
    return dict(reasons.most_common())


def rejected_words(pipeline: Pipeline, statuses: Iterable[UnitStatus]) -> str:
    """Returns a line with the total and each reason; empty where nothing was rejected."""
    landed = [status for status in statuses if status.manifest is not None]
    reasons = rejected_by_reason(landed)
    if not reasons:
        return ""
    total, read = sum(reasons.values()), sum(status.manifest.read for status in landed if status.manifest)
    rows = sum(status.manifest.landed for status in landed if status.manifest)
    said = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
    every = "" if rows else ": none became a row"
    shows = f"`{pipeline.command('rejected')}` shows them"
    return f"rejected: {total:,} of {read:,} records ({said}){every}; {shows}"
