"""The tables of rollups against their ledger. Pure.

Whether a rollup is made of its source's commit is part of the slice's state.
"""

from __future__ import annotations

from collections.abc import Iterator

from sluice.rollups.decide import is_hour
from sluice.slices import Unit
from sluice.verification.anomaly import Anomaly, Kind
from sluice.verification.current import units_of
from sluice.verification.facts import Facts, TableFacts
from sluice.verification.repairs import Repairs


def check_rollup(facts: Facts, table: TableFacts, repairs: Repairs) -> Iterator[Anomaly]:
    """rows in the table = rows in the ledger, per unit and per event hour."""
    done = units_of(facts, table.table)
    for unit, row in sorted(table.ledger.items(), key=lambda item: item[0]):
        if not (unit in done or (is_hour(unit) and _within(facts, unit))):
            continue
        there = sum(table.rows.get(unit, {}).values())
        if there == row.rows or (table.may_lack(unit) and there < row.rows):
            continue
        kind = Kind.ROWS_EXTRA if there > row.rows else Kind.ROWS_MISSING
        hour = is_hour(unit)
        yield Anomaly(
            kind,
            f"{row.rows:,} rows, by the ledger",
            f"{there:,}",
            "" if hour else repairs.reload(unit.slice),
            f"of event hour {unit.slice.id}: reload {', '.join(row.types)}" if hour else "",
            slice=unit.slice.id,
            cluster=unit.cluster,
            table=table.table,
        )


def _within(facts: Facts, unit: Unit) -> bool:
    """Whether the look has counted the hour's rows."""
    return facts.whole or facts.slices.start <= unit.slice.start < facts.slices.end
