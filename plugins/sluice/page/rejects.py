"""Rejected records by reason and column, each with what to do and a few samples. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sluice.config.page import Payloads
from sluice.flow.rejected.remedies import FORGOTTEN_MISFIT_REMEDY, remedy_of
from sluice.manifest import Manifest
from sluice.page.slice_models import RejectedSample, RejectGroup, Rejects
from sluice.safe_text import visible

MOST_GROUPS = 100
PER_GROUP = 3
UNPARSED, MISFIT = "unparsed", "misfit"
# As include/sql/page/count_misfits.sql has it.
_ITEM = re.compile(r'\[([0-9]+|"([^"\\]|\\.)*")\]')

MisfitCount = tuple[str, str, str, int]
"""Table, column, reason and records."""


def unparsed_counts(manifests: Iterable[Manifest]) -> Counter[str]:
    """Returns records, and rows of records, by reason: exact, from the manifests."""
    counts: Counter[str] = Counter()
    for manifest in manifests:
        counts.update(manifest.refused_by_reason())
    return counts


def forgotten_counts(manifests: Iterable[Manifest]) -> Counter[str]:
    """Returns, by reason, the unparsed records of which the lake has forgotten the bytes."""
    counts: Counter[str] = Counter()
    for manifest in manifests:
        counts.update(manifest.forgotten_by_reason())
    return counts


def rejects_of(
    unparsed: Mapping[str, int],
    misfits: Sequence[MisfitCount],
    samples: Sequence[RejectedSample],
    payloads: Payloads,
    forgotten: Mapping[str, int] | None = None,
    without_files: bool = False,
) -> Rejects:
    """Groups what was rejected; the most records first. `forgotten`: those of `unparsed` without bytes;
    `without_files`: the lake has forgotten the files that misfits could be loaded from again."""
    gone = forgotten or {}
    by_key: dict[tuple[str, str, str], list[RejectedSample]] = {}
    for sample in samples:
        by_key.setdefault((sample.kind, plain(sample.place), sample.reason), []).append(sample)
    groups = [
        _group(UNPARSED, "", "", reason, count, by_key.get((UNPARSED, "", reason), ()), gone.get(reason, 0))
        for reason, count in unparsed.items()
    ]
    for (table, column, reason), count in _summed(misfits).items():
        group_samples = by_key.get((MISFIT, f"{table}.{column}", reason), ())
        group = _group(MISFIT, table, column, reason, count, group_samples)
        groups.append(
            group.model_copy(update={"advice": FORGOTTEN_MISFIT_REMEDY}) if without_files else group
        )
    groups.sort(key=lambda one: (-one.records, one.kind, one.table, one.column, one.reason))
    return Rejects(payloads=payloads, groups=groups[:MOST_GROUPS], more=max(len(groups) - MOST_GROUPS, 0))


def _summed(misfits: Iterable[MisfitCount]) -> Counter[tuple[str, str, str]]:
    """Adds up what several shards have counted."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for table, column, reason, records in misfits:
        counts[table, column, reason] += records
    return counts


def plain(place: str) -> str:
    """Returns a place without its indexes and keys: `t.items[][]` for `t.items[3]["k"]`."""
    return _ITEM.sub("[]", place)


def _group(
    kind: str,
    table: str,
    column: str,
    reason: str,
    records: int,
    samples: Sequence[RejectedSample],
    forgotten: int = 0,
) -> RejectGroup:
    advice = [remedy_of(reason, misfit=kind == MISFIT)] if forgotten < records else []
    if forgotten:
        advice.append(
            f"the lake has forgotten the bytes of {forgotten:,} of them: `reland` brings the hour, as long "
            "as Kafka has it"
        )
    return RejectGroup(
        kind=kind,
        table=table,
        column=visible(column),
        reason=visible(reason),
        records=records,
        forgotten=forgotten,
        advice="; ".join(advice),
        samples=list(samples[:PER_GROUP]),
    )
