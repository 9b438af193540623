"""Each shard against its own ledger rows, and rows that are where they do not belong. Pure.

The sum over the shards is checked as one table (check_tables.py). As every shard holds only rows of its own,
no row is on two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.current import units_of
from sluice.flow.verify.facts import TableFacts, VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.slices import Unit


def check_shards(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    for part in facts.shards:
        for unit in sorted(units_of(facts, part.table)):
            command = repairs.repair(unit.slice)
            for anomaly in _share(part, unit):
                yield replace(
                    anomaly,
                    command=command,
                    slice=unit.slice.id,
                    cluster=unit.cluster,
                    table=part.table,
                    shard=part.shard,
                )
    yield from _left(facts)


def _share(part: TableFacts, unit: Unit) -> Iterator[Anomaly]:
    row = part.ledger.get(unit)
    if row is None:
        return
    rows, misfits = sum(part.rows.get(unit, {}).values()), sum(part.misfits.get(unit, {}).values())
    if rows != row.rows and not (part.may_lack(unit) and rows < row.rows):
        kind = AnomalyKind.ROWS_EXTRA if rows > row.rows else AnomalyKind.ROWS_MISSING
        yield Anomaly(kind, f"{row.rows:,} rows, by its ledger", f"{rows:,}")
    if misfits != row.misfits:
        yield Anomaly(AnomalyKind.MISFITS, f"{row.misfits:,} misfits, by its ledger", f"{misfits:,}")
    if away := part.misplaced.get(unit):
        yield Anomaly(AnomalyKind.MISPLACED, "rows of its own only", f"{away:,} rows of other shards")


def _left(facts: VerifyFacts) -> Iterator[Anomaly]:
    for left in facts.left:
        yield Anomaly(
            AnomalyKind.LEFT,
            expected="no rows: the pipeline file does not list the shard any more",
            seen=f"{left.rows:,} rows",
            advice=f"when the hours are complete on the other shards, DROP TABLE {left.table} SYNC on "
            f"connection {left.connection}; a Distributed table must not read it any more",
            table=left.table,
            shard=left.shard,
        )
