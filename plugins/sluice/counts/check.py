"""sum of counts = rows landed, in the manifest and in the table. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sluice.counts.spec import Counts
from sluice.manifest import Manifest, Traffic
from sluice.status import UnitStatus
from sluice.verification.anomaly import Anomaly, Kind
from sluice.verification.current import is_current, targets_of
from sluice.verification.facts import Facts, TableFacts
from sluice.verification.repairs import Repairs


def check_counts(facts: Facts, repairs: Repairs) -> Iterator[Anomaly]:
    """Of what was counted when the slice landed: `plan` lists slices that were counted otherwise."""
    tables, targets = {table.table: table for table in facts.tables}, targets_of(facts.pipeline)
    for status, manifest in facts.landed:
        place = {"slice": status.unit.slice.id, "cluster": status.unit.cluster}
        for traffic in manifest.traffic:
            command = repairs.reland(status.unit.slice)
            own = {**place, "table": traffic.table, "command": command}
            yield from _differences(_landed(manifest, traffic), traffic.sums, "landed", own)
            table = tables.get(traffic.table)
            held = table is not None and is_current(facts.pipeline, targets[traffic.table], status)
            if held and not table.may_lack(status.unit):
                own = {**place, "table": traffic.table, "command": repairs.reload(status.unit.slice)}
                yield from _differences(traffic.sums, _held(table, status), "counted", own)


def _landed(manifest: Manifest, traffic: Traffic) -> dict[str, int]:
    spec = Counts(table=traffic.table, types=traffic.types)
    return {kind: rows for kind, rows in manifest.rows_by_type().items() if spec.counts(kind)}


def _held(table: TableFacts, status: UnitStatus) -> Mapping[str, int]:
    return table.counted.get(status.unit, {})


def _differences(
    expected: Mapping[str, int], seen: Mapping[str, int], what: str, place: Mapping[str, Any]
) -> Iterator[Anomaly]:
    for kind in sorted({*expected, *seen}):
        wanted, there = expected.get(kind, 0), seen.get(kind, 0)
        if wanted != there:
            rows = f"counts for {wanted:,} rows {what}"
            yield Anomaly(Kind.COUNTS, rows, f"{there:,}", type=kind, **place)
