"""How many records of some units were rejected, and why. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from sluice.config.pipeline import Pipeline
from sluice.slices import Unit
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


def unlanded(statuses: Iterable[UnitStatus]) -> list[Unit]:
    """Returns the units of which it is unknown what a landing rejects."""
    return [status.unit for status in statuses if status.manifest is None]


def unknown_words(pipeline: Pipeline, units: Iterable[Unit], missing: Collection[Unit]) -> str:
    """Returns a line on how many slices of `units` have not landed; empty where all have."""
    if not missing:
        return ""
    count, total = (len({unit.slice for unit in some}) for some in (missing, units))
    have = "has not" if count == 1 else "have not"
    landed = "landed from every cluster" if len(pipeline.clusters) > 1 else "landed"
    return f"rejected: unknown of {count:,} of {total:,} slices, which {have} {landed}"
