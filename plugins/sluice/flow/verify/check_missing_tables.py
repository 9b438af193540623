"""Target tables that are not there, and readers' views of them. Pure.

No run starts while one is missing: until it is created, other anomalies have no command that works.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.current import is_current, targets_of
from sluice.flow.verify.facts import TableFacts, VerifyFacts
from sluice.flow.verify.repairs import Repairs, with_wait
from sluice.slices import Slice


def missing_tables(facts: VerifyFacts) -> frozenset[str]:
    return frozenset(table.table for table in facts.tables if table.missing)


def check_missing_tables(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    missing = [part for part in (facts.shards or facts.tables) if part.missing]
    targets = targets_of(facts.pipeline) if missing else {}
    for table in missing:
        waiting = [
            status.unit.slice
            for status, _ in facts.landed
            if not is_current(facts.pipeline, targets[table.table], status)
        ]
        yield Anomaly(
            AnomalyKind.TABLE_MISSING,
            expected="a table",
            seen=f"none, and {len(waiting):,} landed slices that are not in it" if waiting else "none",
            advice="; ".join(filter(None, (table.missing, _then(repairs, waiting)))),
            table=table.table,
            shard=table.shard,
        )


def check_readers_views(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    """Each load recreates the view where it differs from what it should be."""
    for part in facts.shards or facts.tables:
        if not part.viewed and part.ledger:
            yield Anomaly(
                AnomalyKind.READERS_VIEW,
                expected=f"the view sluice.`{part.table}` of its committed slices",
                seen="another one, or none",
                command=repairs.repair(max(unit.slice for unit in part.ledger), part.table),
                table=part.table,
                shard=part.shard,
            )


def _then(repairs: Repairs, waiting: list[Slice]) -> str:
    return f"then: {repairs.run([min(waiting), max(waiting)], 'fill')}" if waiting else ""


def after_creation(facts: VerifyFacts, anomaly: Anomaly) -> Anomaly:
    """Returns the anomaly with its command put off until the missing tables are created."""
    missing = missing_tables(facts)
    if not missing or not anomaly.command.startswith("sluice run"):
        return anomaly
    advice = with_wait(anomaly.advice, missing, anomaly.command)
    return replace(anomaly, command="", advice=advice, later=anomaly.command)


def explained_by(table: TableFacts) -> str:
    """Returns the table itself where it is missing: then it explains what is left of its slices."""
    return table.table if table.missing else ""


def explained_tables(facts: VerifyFacts) -> frozenset[str]:
    """Returns the missing tables, and the rollups that have no source without them."""
    missing = missing_tables(facts)
    return missing | {t for t, rollup in facts.pipeline.rollups.items() if rollup.source in missing}
