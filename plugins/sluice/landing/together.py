"""Cuts a run of many small slices so that one Spark task reads all partitions of a part of it. Pure.

Read partition by partition, each slice's few records of a type would become a file from every partition,
all to be merged again: a year with 5 million events in 4 partitions is 140,000 files instead of 35,000.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice.landing.reads import Run, UnitRead

# What one task holds in memory at once (gathering.ROWS_GATHERED), with room to spare.
MAX_ROWS = 200_000
# Enough parts to keep some cores busy with writing a year of nearly empty hours.
MAX_SLICES = 500
# Every part asks each partition once: that has to be worth it.
MIN_ROWS_PER_PARTITION = 200


def together(
    run: Run, max_rows: int = MAX_ROWS, max_slices: int = MAX_SLICES, min_rows: int = MIN_ROWS_PER_PARTITION
) -> list[Run]:
    """The same units in the same order. Slices that are alone in their part are read as before."""
    worth = min_rows * len({(r.topic, r.partition) for unit in run.units for r in unit.left if r.offsets})
    parts: list[list[UnitRead]] = []
    rows = 0
    for unit in run.units:
        small = unit.offsets <= max_rows
        full = not parts or rows + unit.offsets > max_rows or (len(parts[-1]) >= max_slices and rows >= worth)
        # Large ones in a row stay one read: Spark divides it by rows.
        both_large = bool(parts) and not small and rows > max_rows
        if full and not both_large:
            parts.append([])
            rows = 0
        parts[-1].append(unit)
        rows += unit.offsets
    return [_run(run, part, max_rows) for part in parts if any(unit.offsets for unit in part)]


def _run(run: Run, part: Sequence[UnitRead], max_rows: int) -> Run:
    small = sum(unit.offsets for unit in part) <= max_rows
    return Run(run.cluster, tuple(part), together=small and len(part) > 1)
