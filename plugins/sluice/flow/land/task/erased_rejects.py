"""Erases what would be rejected: it has no type, so that an entry of any type is about it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from sluice.flow.land.task.erasing import BatchErasing
from sluice.flow.land.task.parse import ParsedRecords
from sluice.flow.land.task.unpack import UnpackedEvents


@dataclass(frozen=True)
class Unerased:
    """`kept`: the events that are left, of which `parsed` is. `records`: those of which nothing is left, and
    `rows` the record of each element of an array that is erased, by their positions."""

    parsed: ParsedRecords
    kept: np.ndarray
    records: np.ndarray
    rows: np.ndarray


def unerased_rejects(
    erasing: BatchErasing | None, opened: UnpackedEvents, parsed: ParsedRecords
) -> Unerased | None:
    """Returns None where no rejected event is erased."""
    if erasing is None or not parsed.refused:
        return None
    values = opened.events.values
    sources = opened.positions if opened.positions is not None else opened.kept
    sources = np.arange(len(values)) if sources is None else sources
    gone = [p for p in sorted(parsed.refused) if erasing.has_rejected(int(sources[p]), values[p].as_py())]
    if not gone:
        return None
    kept = np.setdiff1d(np.arange(len(values)), gone)
    places = {int(old): new for new, old in enumerate(kept.tolist())}
    refused = {places[p]: reason for p, reason in parsed.refused.items() if p in places}
    left = replace(parsed, rows=np.searchsorted(kept, parsed.rows), refused=refused)
    records, nothing = sources[gone], np.zeros(0, np.int64)
    if opened.numbers is None:
        return Unerased(left, kept, records, nothing)
    remaining = Counter(sources[kept].tolist())
    whole = [position for position in dict.fromkeys(records.tolist()) if not remaining[position]]
    return Unerased(left, kept, np.array(whole, np.int64), records)
