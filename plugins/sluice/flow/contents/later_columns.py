"""Units that were loaded before a load added columns: they are compared as they were loaded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sluice.clients.lake.base import Lake
from sluice.flow.contents.staged_load import Stage
from sluice.flow.load.work import LoadWork
from sluice.safe_text import visible
from sluice.slices import Unit
from sluice.state.additions import read_additions, since
from sluice.state.later_columns import added_after, maybe_lost
from sluice.state.ledger import LedgerRow
from sluice.state.manifests import read_manifests

Groups = Mapping[frozenset[str], list[LoadWork]]
"""Works by the columns that their commits have nothing in."""


def by_later_columns(stage: Stage, works: Sequence[LoadWork], ledger: Mapping[Unit, LedgerRow]) -> Groups:
    """Groups works by the columns that were added after their commits; each gets the rules of its commit.
    Raises
    what the lake raises."""
    columns = since(read_additions(stage.lake))
    groups: dict[frozenset[str], list[LoadWork]] = defaultdict(list)
    for work in works:
        row = ledger.get(work.unit)
        table, shard = stage.target.table, stage.placement.shard
        without = frozenset[str]() if row is None else added_after(columns, table, row, shard)
        groups[without].append(work if row is None else replace(work, rules=row.rules))
    return groups


def notes_of(lake: Lake, stage: Stage, groups: Groups) -> list[str]:
    """Returns a line for each column that slices lack whose rows may have the field."""
    rows: dict[str, list[int | None]] = defaultdict(list)
    slices: dict[str, list[Unit]] = defaultdict(list)
    for columns, works in groups.items():
        manifests = read_manifests(lake, [work.unit for work in works]) if columns else {}
        for work in works:
            if work.unit in manifests:
                lost = maybe_lost(stage.target, manifests[work.unit], work.types, columns)
                for column, count in lost.items():
                    rows[column].append(count)
                    slices[column].append(work.unit)
    return [_note(stage, name, counts, sorted(slices[name])) for name, counts in sorted(rows.items())]


def _note(stage: Stage, column: str, counts: Sequence[int | None], units: Sequence[Unit]) -> str:
    counted = sum(count or 0 for count in counts)
    maybe = sum(count is None for count in counts)
    parts = [f"{counted:,} rows have its field"] if counted else []
    parts += [f"of {maybe:,} its field was not counted in every row"] if maybe else []
    first, last = units[0].slice.start, units[-1].slice.end
    slices = f"{len(units):,} loaded {'slice' if len(units) == 1 else 'slices'}"
    edges = f"--from {first:%Y-%m-%dT%H:%MZ} --to {last:%Y-%m-%dT%H:%MZ}"
    return (
        f"table {stage.target.table}: column {visible(column)} was added later than {slices}, and is empty "
        f"there: {', '.join(parts)}; `sluice run {stage.pipeline.name} {edges} --backfill` loads them again"
    )
