"""sum of counts = rows landed, in the manifest and in the table. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sluice.config.counts import Counts
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.current import is_current, targets_of, units_of
from sluice.flow.verify.facts import TableFacts, VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import Manifest, Traffic
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
                command = repairs.repair(status.unit.slice, traffic.table)
                fields = {**unit_fields, "table": traffic.table, "command": command}
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
    """rows in the table = rows in the ledger, per unit."""
    done = units_of(facts, table.table)
    statuses = {status.unit: status for status in facts.statuses}
    for unit, row in sorted(table.ledger.items(), key=lambda item: item[0]):
        if unit not in done:
            continue
        seen = sum(table.rows.get(unit, {}).values())
        if seen == row.rows or (table.may_lack(unit) and seen < row.rows):
            continue
        kind = AnomalyKind.ROWS_EXTRA if seen > row.rows else AnomalyKind.ROWS_MISSING
        command, advice = _made_again(facts, table, statuses[unit], repairs)
        yield Anomaly(
            kind,
            f"{row.rows:,} rows, by the ledger",
            f"{seen:,}",
            command,
            advice,
            slice=unit.slice.id,
            cluster=unit.cluster,
            table=table.table,
        )


def _made_again(
    facts: VerifyFacts, table: TableFacts, status: UnitStatus, repairs: Repairs
) -> tuple[str, str]:
    """Returns the command, or why nothing makes the unit again: its source lacks rows, the lake the files."""
    rollup, unit = facts.pipeline.rollups[table.table], status.unit
    source = next((one for one in facts.tables if one.table == rollup.source), None)
    committed = status.tables.get(rollup.source)
    held = 0 if source is None else sum(source.rows.get(unit, {}).values())
    whole = source is not None and source.steady and committed is not None and held == committed.rows
    if whole or not status.forgotten_on or source is None:
        return repairs.repair(unit.slice, table.table), ""
    return "", (
        f"nothing can make them again: rows of {rollup.source} that they are made from have expired, and the "
        "lake has forgotten the files; a backup of the table may have them"
    )
