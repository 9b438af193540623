"""Decides which anomalies stand while loads go on. Pure.

A load revokes a unit's ledger row before it touches its rows, and commits it with a higher generation. So
rows of a unit that is committed alike in two reads did not change between them. A unit without a row in both
may be under way: then only a lease that was not held, or that is unchanged for its term, says that it is
not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sluice.config.pipeline import Target
from sluice.flow.verify.anomaly import Anomaly
from sluice.flow.verify.current import lacking, targets_of
from sluice.flow.verify.facts import TableFacts, VerifyFacts
from sluice.slices import Unit
from sluice.state.ledger import LedgerRow
from sluice.state.status import UnitStatus


@dataclass(frozen=True)
class Settled:
    """`sure`: found by both reads while nothing of it changed. `pending` has to be read again."""

    sure: tuple[Anomaly, ...] = ()
    pending: tuple[Anomaly, ...] = ()


@dataclass(frozen=True)
class TwoReads:
    """Two reads of the same range; `quiet` are targets that no attempt loaded during the second one."""

    first: VerifyFacts
    second: VerifyFacts
    quiet: Collection[str]

    def settle(self, before: Iterable[Anomaly], after: Sequence[Anomaly]) -> Settled:
        """Judges the anomalies of both reads, `before` and `after`."""
        keys_before = {anomaly.key for anomaly in before}
        sure = [a for a in after if a.key in keys_before and self._stood_still(a)]
        sure_ids = {id(anomaly) for anomaly in sure}
        return Settled(tuple(sure), tuple(a for a in after if id(a) not in sure_ids))

    def _stood_still(self, anomaly: Anomaly) -> bool:
        unit = self._unit(anomaly)
        if not self._same_manifests(unit):
            return False
        return all(self._table_stood_still(anomaly, unit, name) for name in self._tables(anomaly, unit))

    def _unit(self, anomaly: Anomaly) -> Unit | None:
        """Returns None for an anomaly of no unit that is known."""
        return self._units.get((anomaly.slice, anomaly.cluster))

    @cached_property
    def _units(self) -> Mapping[tuple[str, str], Unit]:
        reads = (self.first, self.second)
        status_units = (status.unit for facts in reads for status in facts.statuses)
        ledger_units = (unit for facts in reads for table in facts.tables for unit in table.ledger)
        return {(unit.slice.id, unit.cluster): unit for unit in (*ledger_units, *status_units)}

    def _same_manifests(self, unit: Unit | None) -> bool:
        first, second = self._manifests
        return first == second if unit is None else first.get(unit) == second.get(unit)

    @cached_property
    def _manifests(self) -> tuple[Mapping[Unit, str], Mapping[Unit, str]]:
        first, second = (
            {status.unit: manifest.id for status, manifest in facts.landed} | dict(facts.unreadable)
            for facts in (self.first, self.second)
        )
        return first, second

    def _tables(self, anomaly: Anomaly, unit: Unit | None) -> Collection[str]:
        """Returns the targets whose load could explain the anomaly."""
        if not anomaly.table:
            return self._lacking(unit) if anomaly.slice else ()
        owners = {
            table.table
            for table in self.second.tables
            if anomaly.table in (table.table, *(view_table.called for view_table in table.view_tables))
        }
        return owners or {table.table for table in self.second.tables}

    def _lacking(self, unit: Unit | None) -> Collection[str]:
        status = None if unit is None else self._landed.get(unit)
        return () if status is None else lacking(self.second.pipeline, self._targets, status)

    @cached_property
    def _landed(self) -> Mapping[Unit, UnitStatus]:
        return {status.unit: status for status, _ in self.second.landed}

    @cached_property
    def _targets(self) -> Mapping[str, Target]:
        return targets_of(self.second.pipeline)

    def _table_stood_still(self, anomaly: Anomaly, unit: Unit | None, table: str) -> bool:
        first, second = (_row(facts, anomaly.shard, table, unit) for facts in (self.first, self.second))
        if first is None and second is None:
            return table in self.quiet
        return first == second


def _row(facts: VerifyFacts, shard: str, table: str, unit: Unit | None) -> LedgerRow | None:
    """Returns what is committed of the unit in the table, or in its part; None also where a shard lacks
    it."""
    parts: Iterable[TableFacts] = facts.shards if shard else facts.tables
    for part in parts:
        if part.table == table and part.shard == shard and unit is not None:
            row = part.ledger.get(unit)
            return None if row is None or row.lacking else row
    return None
