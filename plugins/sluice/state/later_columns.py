"""Which of a commit's columns were added after it, and which of their fields its rows may have. Pure.

A load has all columns that are there when it begins: the generation of its lease tells it from loads before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sluice.config.pipeline import Target
from sluice.field_path import first_keys, path_of
from sluice.manifest import Manifest
from sluice.state.additions import Since
from sluice.state.ledger import LedgerRow


def added_after(columns: Since, table: str, row: LedgerRow, shard: str = "") -> frozenset[str]:
    """Returns columns that the commit has nothing in, on some shard where it is of several."""
    if row.shares:
        return frozenset[str]().union(
            *(added_after(columns, table, part, name) for name, part in row.shares if part is not None)
        )
    generations = columns.get((table, shard), {})
    return frozenset(column for column, first in generations.items() if row.generation < first)


def maybe_lost(
    target: Target, manifest: Manifest, types: Iterable[str], columns: Iterable[str]
) -> dict[str, int | None]:
    """Returns those of the columns whose fields the rows of `types` have, with the number of rows; None: the
    manifest has not counted them exactly."""
    by_type = {one.type: one for one in manifest.fields}
    type_fields = [by_type.get(name) for name in types]
    rows_by_column: dict[str, int | None] = {}
    for column in sorted(columns):
        keys = first_keys(path_of(column, target.columns))
        rows = [
            None
            if one is None or not one.exact or (one.others and not keys <= one.fields.keys())
            else sum(one.fields[key].filled for key in keys & one.fields.keys())
            for one in type_fields
        ]
        counted = [count for count in rows if count is not None]
        if len(counted) < len(rows):
            rows_by_column[column] = None
        elif sum(counted):
            rows_by_column[column] = sum(counted)
    return rows_by_column


def later_by_table(
    since: Since, targets: Iterable[Target], manifest: Manifest, rows: Mapping[str, LedgerRow]
) -> dict[str, dict[str, int | None]]:
    """Returns what each table's commit may have lost; without the tables that lack nothing."""
    lost_by_table: dict[str, dict[str, int | None]] = {}
    for target in targets if since else ():
        row = rows.get(target.table)
        columns = None if row is None else added_after(since, target.table, row)
        if row is not None and columns and (lost := maybe_lost(target, manifest, row.types, columns)):
            lost_by_table[target.table] = lost
    return lost_by_table
