"""sum of counts = rows landed, in the manifest and in the table. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

from sluice.config.counts import Counts
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.current import is_current, targets_of, units_of
from sluice.flow.verify.facts import TableFacts, VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import Manifest, Traffic
from sluice.slices import Slice, Unit
from sluice.state.ledger import LedgerRow
from sluice.state.rollup_commits import is_hour
from sluice.state.status import UnitStatus


def check_counts(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    """Checks what was counted when the slice landed; `plan` lists slices that are counted otherwise now."""
    tables, targets = {table.table: table for table in facts.tables}, targets_of(facts.pipeline)
    for status, manifest in facts.landed:
        unit_fields = {"slice": status.unit.slice.id, "cluster": status.unit.cluster}
        for traffic in manifest.traffic:
            command = repairs.reland(status.unit.slice)
            fields = {**unit_fields, "table": traffic.table, "command": command}
            yield from _differences(_landed(manifest, traffic), traffic.sums, "landed", fields)
            table = tables.get(traffic.table)
            if table is None or not is_current(facts.pipeline, targets[traffic.table], status):
                continue
            if not table.may_lack(status.unit):
                fields = {**unit_fields, "table": traffic.table, "command": repairs.repair(status.unit.slice)}
                yield from _differences(traffic.sums, _held(table, status), "counted", fields)


def _landed(manifest: Manifest, traffic: Traffic) -> dict[str, int]:
    spec = Counts(table=traffic.table, types=traffic.types)
    return {kind: rows for kind, rows in manifest.rows_by_type().items() if spec.counts(kind)}


def _held(table: TableFacts, status: UnitStatus) -> Mapping[str, int]:
    return table.counted.get(status.unit, {})


def _differences(
    expected: Mapping[str, int], seen: Mapping[str, int], what: str, fields: Mapping[str, Any]
) -> Iterator[Anomaly]:
    for kind in sorted({*expected, *seen}):
        expected_rows, seen_rows = expected.get(kind, 0), seen.get(kind, 0)
        if expected_rows != seen_rows:
            rows = f"counts for {expected_rows:,} rows {what}"
            yield Anomaly(AnomalyKind.COUNTS, rows, f"{seen_rows:,}", type=kind, **fields)


def check_rollup(facts: VerifyFacts, table: TableFacts, repairs: Repairs) -> Iterator[Anomaly]:
    """rows in the table = rows in the ledger, per unit and per event hour."""
    done = units_of(facts, table.table)
    for unit, row in sorted(table.ledger.items(), key=lambda item: item[0]):
        if not (unit in done or (is_hour(unit) and _within(facts, unit))):
            continue
        seen = sum(table.rows.get(unit, {}).values())
        if seen == row.rows or (table.may_lack(unit) and seen < row.rows):
            continue
        yield _anomaly(facts, table, unit, row, seen, repairs)


def _anomaly(
    facts: VerifyFacts, table: TableFacts, unit: Unit, row: LedgerRow, seen: int, repairs: Repairs
) -> Anomaly:
    kind = AnomalyKind.ROWS_EXTRA if seen > row.rows else AnomalyKind.ROWS_MISSING
    anomaly = partial(Anomaly, slice=unit.slice.id, cluster=unit.cluster, table=table.table)
    if is_hour(unit):
        expected = f"{row.rows:,} rows of event hour {unit.slice.id}, by the ledger"
        command, advice = _reload(facts, row, repairs)
        return anomaly(kind, expected, f"{seen:,}", command, advice)
    expected = f"{row.rows:,} rows, by the ledger"
    if _by_hour(facts, table):
        expected = "no rows: those of this rollup belong to event hours, not to slices"
    return anomaly(kind, expected, f"{seen:,}", repairs.repair(unit.slice))


def _by_hour(facts: VerifyFacts, table: TableFacts) -> bool:
    target = next(t for t in facts.pipeline.targets if t.table == table.table)
    return target.rollup is not None and target.rollup.grain == "hour"


def _reload(facts: VerifyFacts, row: LedgerRow, repairs: Repairs) -> tuple[str, str]:
    """Returns the command that recreates an event hour, or which slices to reload where others lie between
    them."""
    length = facts.pipeline.slice
    slices = sorted({Slice.from_id(name.partition("/")[0], length) for name in row.types})
    if not slices:
        return "", "no slice brings rows to it now"
    if all(earlier.end == later.start for earlier, later in pairwise(slices)):
        return repairs.run([slices[0], slices[-1]], "repair"), ""
    return "", f"reload the slices that brought its rows: {', '.join(slice_.id for slice_ in slices)}"


def _within(facts: VerifyFacts, unit: Unit) -> bool:
    """Returns whether the hour's rows were counted."""
    return facts.whole or facts.slices.start <= unit.slice.start < facts.slices.end
