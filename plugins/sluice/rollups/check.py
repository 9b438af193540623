"""The tables of rollups against their ledger. Pure.

Whether a rollup is made of its source's commit is part of the slice's state.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from sluice.load.ledger import LedgerRow
from sluice.rollups.decide import is_hour
from sluice.slices import Slice, Unit
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
        yield _anomaly(facts, table, unit, row, there, repairs)


def _anomaly(
    facts: Facts, table: TableFacts, unit: Unit, row: LedgerRow, there: int, repairs: Repairs
) -> Anomaly:
    kind = Kind.ROWS_EXTRA if there > row.rows else Kind.ROWS_MISSING
    place = {"slice": unit.slice.id, "cluster": unit.cluster, "table": table.table}
    if is_hour(unit):
        expected = f"{row.rows:,} rows of event hour {unit.slice.id}, by the ledger"
        command, advice = _reload(facts, row, repairs)
        return Anomaly(kind, expected, f"{there:,}", command, advice, **place)
    expected = f"{row.rows:,} rows, by the ledger"
    if _by_hour(facts, table):
        expected = "no rows: those of this rollup belong to event hours, not to slices"
    return Anomaly(kind, expected, f"{there:,}", repairs.reload(unit.slice), **place)


def _by_hour(facts: Facts, table: TableFacts) -> bool:
    target = next(one for one in facts.pipeline.targets if one.table == table.table)
    return target.rollup is not None and target.rollup.grain == "hour"


def _reload(facts: Facts, row: LedgerRow, repairs: Repairs) -> tuple[str, str]:
    """The command that makes an event hour again, or which slices to reload where others lie between them."""
    length = facts.pipeline.slice
    pieces = sorted({Slice.from_id(name.partition("/")[0], length) for name in row.types})
    if not pieces:
        return "", "no slice brings rows to it now"
    if all(one.end == following.start for one, following in pairwise(pieces)):
        return repairs.run([pieces[0], pieces[-1]], "reload"), ""
    return "", f"reload the slices that brought its rows: {', '.join(piece.id for piece in pieces)}"


def _within(facts: Facts, unit: Unit) -> bool:
    """Whether the look has counted the hour's rows."""
    return facts.whole or facts.slices.start <= unit.slice.start < facts.slices.end
