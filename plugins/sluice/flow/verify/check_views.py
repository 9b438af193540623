"""The tables of materialized views against their source. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check_missing_tables import explained_by
from sluice.flow.verify.check_tables import cover, slice_text
from sluice.flow.verify.current import units_of
from sluice.flow.verify.facts import TableFacts, VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.flow.verify.view_sums import ViewSums

_NOTHING = "no rows"


def check_views(
    facts: VerifyFacts, repairs: Repairs, broken: Collection[tuple[str, str, str]]
) -> Iterator[Anomaly]:
    """`broken`: (slice, cluster, table) of sources that are wrong themselves: their `reload` repairs both."""
    for whole_table in facts.tables:
        for table in [part for part in facts.shards if part.table == whole_table.table] or [whole_table]:
            for anomaly in _of(facts, table, repairs, broken):
                yield replace(anomaly, shard=table.shard, cause=explained_by(whole_table))


def _of(
    facts: VerifyFacts, table: TableFacts, repairs: Repairs, broken: Collection[tuple[str, str, str]]
) -> Iterator[Anomaly]:
    """Yields the anomalies of one table, or of its part on a shard."""
    done = units_of(facts, table.table)
    for view_table in table.view_tables:
        units = {*view_table.stored, *view_table.selected}
        for unit in sorted(units & done & view_table.covered):
            if table.aged is not None and table.may_lack(unit):
                continue  # what the view gave of rows that are deleted is still there
            expected, seen = view_table.selected.get(unit), view_table.stored.get(unit)
            if not _same(expected, seen) and (unit.slice.id, unit.cluster, table.table) not in broken:
                expected_sums = f"counts and sums {expected or _NOTHING}"
                yield Anomaly(
                    AnomalyKind.VIEW,
                    expected=f"{expected_sums}, as {view_table.view} gives of {table.table}",
                    seen=str(seen or _NOTHING),
                    command=repairs.repair(unit.slice, table.table),
                    slice=unit.slice.id,
                    cluster=unit.cluster,
                    table=view_table.called,
                )
        for unit in sorted(set(view_table.stored) - set(table.ledger) - set(table.rows)):
            command, advice = cover(facts, unit, view_table.table, view_table.projections, repairs)
            yield Anomaly(
                AnomalyKind.ROWS_UNCOVERED,
                expected="none: no ledger row covers them",
                seen=f"counts and sums {view_table.stored[unit]}",
                command=command,
                advice=advice,
                slice=slice_text(unit.slice),
                cluster=unit.cluster,
                table=view_table.called,
            )


def _same(expected: ViewSums | None, seen: ViewSums | None) -> bool:
    return expected is seen is None or (expected is not None and seen is not None and expected.agrees(seen))
