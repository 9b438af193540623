"""How many records of some units were rejected, and why. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from sluice.config.pipeline import Pipeline
from sluice.state.status import UnitStatus


def rejected_by_reason(statuses: Iterable[UnitStatus]) -> dict[str, int]:
    """Returns the records, and rows of records, that landings rejected; most frequent reason first."""
    reasons: Counter[str] = Counter()
    for status in statuses:
        reasons.update(status.manifest.refused_by_reason() if status.manifest else {})
    return dict(reasons.most_common())


def rejected_words(pipeline: Pipeline, statuses: Sequence[UnitStatus]) -> str:
    """Returns a line with the totals and each reason; empty where nothing was rejected. Records are counted
    among records, and rows of arrays among rows."""
    reasons = rejected_by_reason(statuses)
    if not reasons:
        return ""
    landed = [status.manifest for status in statuses if status.manifest is not None]
    records = sum(sum(manifest.unparsed.values()) for manifest in landed)
    rows = sum(sum(manifest.rows_unparsed.values()) for manifest in landed)
    totals = [f"{records:,} of {sum(manifest.read for manifest in landed):,} records"] if records else []
    if rows:
        totals.append(f"{rows:,} of {sum(manifest.rows or 0 for manifest in landed):,} rows of arrays")
    said = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
    every = "" if any(manifest.landed for manifest in landed) else ": none became a row"
    return f"rejected: {' and '.join(totals)} ({said}){every}; `{pipeline.command('rejected')}` shows them"
