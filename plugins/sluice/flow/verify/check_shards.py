"""Each shard against its own ledger rows, and rows that are where they do not belong. Pure.

The sum over the shards is checked as one table (check_tables.py). As every shard holds only rows of its own,
no row is on two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sluice.clients.clickhouse.sql import table
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.current import committed
from sluice.flow.verify.facts import LeftRows, TableFacts, VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.slices import Unit


def check_shards(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    for part in facts.shards:
        for unit in sorted(status.unit for status, _ in committed(facts, part.table)):
            command = repairs.repair(unit.slice, part.table)
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


def _advice(left: LeftRows) -> str:
    if left.only:
        return (
            f"{left.only:,} of them are of hours that the listed shards have not committed, and may be "
            f"nowhere else: list shard {left.shard} again, or load those hours first; until then keep the "
            "table"
        )
    return (
        "all of their hours are committed on the listed shards: take the table out of Distributed tables, "
        f"then on connection {left.connection} run: DROP TABLE {table(left.table)} SYNC"
    )


def _left(facts: VerifyFacts) -> Iterator[Anomaly]:
    for left in facts.left:
        yield Anomaly(
            AnomalyKind.LEFT,
            expected="no rows: the pipeline file does not list the shard any more",
            seen=f"{left.rows:,} rows",
            advice=_advice(left),
            table=left.table,
            shard=left.shard,
        )
