"""Each shard against its own ledger rows, and rows that are where they do not belong. Pure.

The sum over the shards is checked as one table (check_tables.py). As every shard holds only rows of its own,
no row is on two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.current import committed
from sluice.flow.verify.facts import LeftRows, TableFacts, VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.slices import Unit


def check_shards(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    for part in facts.shards:
        for unit in sorted(status.unit for status, _ in committed(facts, part.table)):
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
        only_there = f", {left.forgotten:,} hours of them there alone" if left.forgotten else ""
        yield Anomaly(
            AnomalyKind.LEFT,
            expected="no rows: the pipeline file does not list the shard any more",
            seen=f"{left.rows:,} rows{only_there}",
            advice=_advice(left),
            table=left.table,
            shard=left.shard,
        )


def _advice(left: LeftRows) -> str:
    if left.forgotten:
        return (
            f"rows of {left.forgotten:,} forgotten hours are on a shard that left the file: list "
            f"{left.shard} (connection {left.connection}) under `clickhouse.shards` again: the lake does not "
            "have them any more"
        )
    return (
        f"when the hours are complete on the other shards, DROP TABLE {left.table} SYNC on connection "
        f"{left.connection}; a Distributed table must not read it any more"
    )
