"""The tables and sluice.rejected against the manifests and the ledger. Pure.

rows landed = rows committed + rejected rows, per unit, type and table: in the ledger and in the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from sluice.clients.clickhouse.sql import literal
from sluice.clients.clickhouse.sql import table as sql_table
from sluice.config.counts import COUNTS, Counts
from sluice.config.pipeline import Target
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.facts import (
    ByType,
    LeftRows,
    RowIdentities,
    TableFacts,
    VerifyFacts,
    committed,
    is_current,
    targets_of,
    units_of,
)
from sluice.flow.verify.repairs import Repairs, with_wait
from sluice.manifest import Manifest, Traffic
from sluice.slices import Slice, Unit, floor
from sluice.state.ledger import LedgerRow
from sluice.state.status import UnitStatus
from sluice.state.units import awaits

REJECTED = "sluice.rejected"
_UNKNOWN = ""  # the type of a row in a table without `_type`


def check_tables(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    targets = {target.table: target for target in facts.pipeline.targets}
    for table in facts.tables:
        identities: dict[Unit, list[RowIdentities]] = {}
        for identity in table.identities:
            identities.setdefault(identity.unit, []).append(identity)
        rollup = targets[table.table].rollup is not None
        if table.table in facts.pipeline.rollups:
            yield from check_rollup(facts, table, repairs)
        yield from _newest(facts, table, repairs)
        for status, manifest in () if rollup or table.missing else committed(facts, table.table):
            for anomaly in _unit(facts, targets[table.table], table, status, manifest, identities):
                yield replace(anomaly, command=repairs.repair(status.unit.slice, table.table))
        for part in [part for part in facts.shards if part.table == table.table] or [table]:
            for anomaly in _uncovered(facts, part, repairs):
                yield replace(anomaly, shard=part.shard, cause=explained_by(table))


def _unit(
    facts: VerifyFacts,
    target: Target,
    table: TableFacts,
    status: UnitStatus,
    manifest: Manifest,
    identities: Mapping[Unit, list[RowIdentities]],
) -> Iterator[Anomaly]:
    row, unit = status.tables[target.table], status.unit
    landed = _landed_by_type(target, manifest, row)
    total, rejected_rows = sum(landed.values()), table.rejected_rows.get(unit, {})
    anomaly_of = partial(Anomaly, slice=unit.slice.id, cluster=unit.cluster, table=table.table)
    if row.rows + row.rejected_rows != total:
        seen = f"{row.rows:,} rows and {row.rejected_rows:,} rejected rows in the ledger"
        yield anomaly_of(AnomalyKind.LEDGER, f"{total:,} rows landed", seen)
    if sum(rejected_rows.values()) != row.rejected_rows:
        seen = f"{sum(rejected_rows.values()):,} in {REJECTED}"
        yield anomaly_of(
            AnomalyKind.REJECTED_ROWS, f"{row.rejected_rows:,} rejected rows, by the ledger", seen
        )
        rejected_rows = {}
    duplicates = 0
    for anomaly, amount in _records(manifest, identities.get(unit, [])):
        duplicates += amount
        yield replace(anomaly, slice=unit.slice.id, cluster=unit.cluster, table=table.table)
    for name, expected, held in _rows(table.rows.get(unit, {}), landed, rejected_rows, row.rows):
        if held > expected and held - expected != duplicates:
            yield anomaly_of(AnomalyKind.ROWS_EXTRA, f"{expected:,} rows", f"{held:,}", type=name)
        elif held < expected and not table.may_lack(unit):
            yield anomaly_of(AnomalyKind.ROWS_MISSING, f"{expected:,} rows", f"{held:,}", type=name)


def _landed_by_type(target: Target, manifest: Manifest, row: LedgerRow) -> dict[str, int]:
    """Returns the rows that landed for the target, by what `_type` says of them."""
    if target.counted:
        traffic = manifest.traffic_for(target.table)
        return {COUNTS: sum(file.rows for file in traffic.files)} if traffic and traffic.files else {}
    landed = manifest.rows_by_type()
    return {name: landed[name] for name in row.types}


def _rows(
    rows: ByType, landed: ByType, rejected_rows: ByType, committed: int
) -> Iterator[tuple[str, int, int]]:
    """Yields (type, expected, seen) of what differs: by type where the table has it and the rejected rows are
    known."""
    adds_up = committed + sum(rejected_rows.values()) == sum(landed.values())
    if _UNKNOWN in rows or not rows or not adds_up:
        if len(landed) == 1 and adds_up:
            yield next(iter(landed)), committed, sum(rows.values())
        elif sum(rows.values()) != committed:
            yield _UNKNOWN, committed, sum(rows.values())
        return
    for name in sorted({*landed, *rows}):
        yield name, landed.get(name, 0) - rejected_rows.get(name, 0), rows.get(name, 0)


def _records(manifest: Manifest, identities: list[RowIdentities]) -> Iterator[tuple[Anomaly, int]]:
    """Yields records that are there twice, or that the unit has not read, and how many rows are too many."""
    ranges = {(r.topic, r.partition): (r.start, r.until) for r in manifest.ranges}
    for identity in identities:
        start, until = ranges.get((identity.topic, identity.partition), (0, 0))
        anomaly_of = partial(Anomaly, topic=identity.topic, partition=identity.partition)
        if identity.rows > identity.different and (identity.by_row or manifest.rows is None):
            what, expected = "records", "a row for each record"
            if manifest.rows is not None:
                what, expected = "different ones", "each row of a record once"
            seen = f"{identity.rows:,} rows of {identity.different:,} {what}"
            duplicates = identity.rows - identity.different
            yield anomaly_of(AnomalyKind.ROWS_DUPLICATE, expected, seen), duplicates
        if identity.first < start or identity.last >= until:
            expected = f"offsets in [{start}, {until})"
            seen = f"offsets from {identity.first} to {identity.last}"
            span = (identity.first, identity.last + 1)
            yield anomaly_of(AnomalyKind.ROWS_FOREIGN, expected, seen, offsets=span), 0


def _uncovered(facts: VerifyFacts, table: TableFacts, repairs: Repairs) -> Iterator[Anomaly]:
    for name, held in ((table.table, table.rows), (REJECTED, table.rejected_rows)):
        for unit, rows in sorted(held.items(), key=lambda item: item[0]):
            if unit in table.ledger or not unit.cluster:  # what was there before Sluice has none
                continue
            noun = "row" if sum(rows.values()) == 1 else "rows"
            what = noun if name == table.table else f"rejected {noun} of {table.table}"
            projections = table.projections and name == table.table
            command, advice = cover(facts, unit, name, projections, repairs)
            yield Anomaly(
                AnomalyKind.ROWS_UNCOVERED,
                "none: no ledger row covers them",
                f"{sum(rows.values()):,} {what}",
                command,
                advice,
                slice=slice_text(unit.slice),
                cluster=unit.cluster,
                table=name,
            )


def cover(facts: VerifyFacts, unit: Unit, table: str, projections: bool, repairs: Repairs) -> tuple[str, str]:
    """Returns the command, and advice, for rows that no ledger row covers. A unit of the pipeline's hours is
    loaded over them, now or when it lands. Of others only a person knows more: a run would resolve them, and
    all up to them.

    A lightweight DELETE refuses a table with projections.
    """
    if _aligned(unit.slice) and _is_known(facts, unit):
        return repairs.fill(unit.slice), ""
    if _aligned(unit.slice) and _is_next(facts, unit):
        return "", _NOT_YET
    column, cluster = ("_slice", "_cluster") if table != REJECTED else ("slice", "cluster")
    where = f"{column} = {int(unit.slice.start.timestamp())} AND {cluster} = {literal(unit.cluster)}"
    name = sql_table(table)
    statement = f"ALTER TABLE {name} DELETE" if projections else f"DELETE FROM {name}"  # noqa: S608 - printed
    delete = f"{statement} WHERE {where}"
    return "", f"Sluice has no such slice, and did not write them; if they are not needed: {delete}"


_NOT_YET = "Sluice did not write them, and the slice has not landed: its load takes them away"


def _is_next(facts: VerifyFacts, unit: Unit) -> bool:
    """Returns whether the unit has begun and will land: a DELETE, pasted after that, would take its rows."""
    end = facts.boundaries.end(unit.cluster)
    begun = end is not None and end <= unit.slice.start <= facts.now
    return begun and awaits(facts.pipeline, unit)


def _is_known(facts: VerifyFacts, unit: Unit) -> bool:
    """Returns whether the unit has landed, or is between the first hour, which is the file's `start` or else
    the first resolved one, and the newest resolved one."""
    start, known = facts.pipeline.since, facts.boundaries
    if start is not None and unit.slice.start < start:
        return False
    if unit in {status.unit for status, _ in facts.landed}:
        return True
    begin, end = known.begin(unit.cluster), known.end(unit.cluster)
    if begin is None or end is None or not awaits(facts.pipeline, unit):
        return False
    first = start or facts.pipeline.cluster(unit.cluster).since or begin
    return first <= unit.slice.start and unit.slice.end <= end


def _aligned(slice_: Slice) -> bool:
    return floor(slice_.start, slice_.length) == slice_.start


def slice_text(slice_: Slice) -> str:
    return slice_.id if _aligned(slice_) else slice_.start.strftime("%Y-%m-%dT%H:%M:%SZ")


# sum of counts = rows landed, in the manifest and in the table. Pure.
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


def _newest(facts: VerifyFacts, table: TableFacts, repairs: Repairs) -> Iterator[Anomaly]:
    """Of each key the newest row of the log is there, and no row that is not one of the log."""
    done = units_of(facts, table.table) if table.newest else frozenset()
    for unit, found in sorted(table.newest.items(), key=lambda item: item[0]):
        if unit not in done:
            continue
        anomaly_of = partial(
            Anomaly,
            command=repairs.repair(unit.slice, table.table),
            slice=unit.slice.id,
            cluster=unit.cluster,
            table=table.table,
        )
        if found.outdated:
            seen = f"keys without it: {found.outdated:,}"
            yield anomaly_of(AnomalyKind.ROWS_MISSING, "each key's newest row", seen)
        if found.foreign:
            seen = f"rows that the log lacks: {found.foreign:,}"
            yield anomaly_of(AnomalyKind.ROWS_FOREIGN, "only rows of its log", seen)


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


# Target tables that are not there, and readers' views of them. Pure.
#
# No run starts while one is missing: until it is created, other anomalies have no command that works.
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


def check_lost_views(facts: VerifyFacts) -> Iterator[Anomaly]:
    """Materialized views that are gone since the table's last load: the next one feeds them no more."""
    for part in facts.shards or facts.tables:
        for view, creation in part.lost_views.items():
            yield Anomaly(
                AnomalyKind.VIEW_MISSING,
                expected=f"materialized view {view}, as at the last load",
                seen="none",
                advice=f"create it as it was: {creation}; the next load goes on without it",
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
    return missing | {t for t, rollup in facts.pipeline.derived.items() if rollup.source in missing}


# Each shard against its own ledger rows, and rows that are where they do not belong. Pure.
#
# The sum over the shards is checked as one table (check_tables.py). As every shard holds only rows of its
# own, no row is on two.
def check_shards(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    merging = facts.pipeline.derived.keys() - facts.pipeline.rollups.keys()
    for part in facts.shards:
        if part.table in merging:
            continue
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
    rows, rejected_rows = (
        sum(part.rows.get(unit, {}).values()),
        sum(part.rejected_rows.get(unit, {}).values()),
    )
    if rows != row.rows and not (part.may_lack(unit) and rows < row.rows):
        kind = AnomalyKind.ROWS_EXTRA if rows > row.rows else AnomalyKind.ROWS_MISSING
        yield Anomaly(kind, f"{row.rows:,} rows, by its ledger", f"{rows:,}")
    if rejected_rows != row.rejected_rows:
        yield Anomaly(
            AnomalyKind.REJECTED_ROWS,
            f"{row.rejected_rows:,} rejected rows, by its ledger",
            f"{rejected_rows:,}",
        )
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
        f"then on connection {left.connection} run: DROP TABLE {sql_table(left.table)} SYNC"
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
