"""The tables and sluice.rejected against the manifests and the ledger. Pure.

rows landed = rows committed + misfits, per unit, type and table: in the ledger and in the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from sluice.clients.clickhouse.sql import literal
from sluice.clients.clickhouse.sql import table as sql_table
from sluice.config.counts import COUNTS
from sluice.config.pipeline import Target
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check_derived import check_rollup
from sluice.flow.verify.check_missing_tables import explained_by
from sluice.flow.verify.current import committed
from sluice.flow.verify.facts import ByType, RowIdentities, TableFacts, VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import Manifest
from sluice.slices import Slice, Unit, floor
from sluice.state.ledger import LedgerRow
from sluice.state.status import UnitStatus

REJECTED = "sluice.rejected"
_UNKNOWN = ""  # the type of a row in a table without `_type`


def check_tables(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    targets = {target.table: target for target in facts.pipeline.targets}
    for table in facts.tables:
        identities: dict[Unit, list[RowIdentities]] = {}
        for identity in table.identities:
            identities.setdefault(identity.unit, []).append(identity)
        rollup = targets[table.table].rollup is not None
        if rollup:
            yield from check_rollup(facts, table, repairs)
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
    total, misfits = sum(landed.values()), table.misfits.get(unit, {})
    anomaly_of = partial(Anomaly, slice=unit.slice.id, cluster=unit.cluster, table=table.table)
    if row.rows + row.misfits != total:
        seen = f"{row.rows:,} rows and {row.misfits:,} misfits in the ledger"
        yield anomaly_of(AnomalyKind.LEDGER, f"{total:,} rows landed", seen)
    if sum(misfits.values()) != row.misfits:
        seen = f"{sum(misfits.values()):,} in {REJECTED}"
        yield anomaly_of(AnomalyKind.MISFITS, f"{row.misfits:,} misfits, by the ledger", seen)
        misfits = {}
    duplicates = 0
    for anomaly, amount in _records(manifest, identities.get(unit, [])):
        duplicates += amount
        yield replace(anomaly, slice=unit.slice.id, cluster=unit.cluster, table=table.table)
    for name, expected, held in _rows(table.rows.get(unit, {}), landed, misfits, row.rows):
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


def _rows(rows: ByType, landed: ByType, misfits: ByType, committed: int) -> Iterator[tuple[str, int, int]]:
    """Yields (type, expected, seen) of what differs: by type where the table has it and the misfits are
    known."""
    adds_up = committed + sum(misfits.values()) == sum(landed.values())
    if _UNKNOWN in rows or not rows or not adds_up:
        if len(landed) == 1 and adds_up:
            yield next(iter(landed)), committed, sum(rows.values())
        elif sum(rows.values()) != committed:
            yield _UNKNOWN, committed, sum(rows.values())
        return
    for name in sorted({*landed, *rows}):
        yield name, landed.get(name, 0) - misfits.get(name, 0), rows.get(name, 0)


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
    for name, held in ((table.table, table.rows), (REJECTED, table.misfits)):
        for unit, rows in sorted(held.items(), key=lambda item: item[0]):
            # Earlier versions made rows of event hours, over all clusters.
            if unit in table.ledger and unit.cluster:
                continue
            what = "rows" if name == table.table else f"misfits of {table.table}"
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
    """Returns the command, and advice, for rows that no ledger row covers. A unit that can be landed is
    loaded over them. Of others only a person knows more.

    A lightweight DELETE refuses a table with projections.
    """
    begun = facts.pipeline.start is None or facts.pipeline.start <= unit.slice.start
    landed = {status.unit for status, _ in facts.landed}
    reachable = unit.cluster in facts.pipeline.clusters or unit in landed
    landable = reachable and _aligned(unit.slice) and begun
    if landable and unit.slice.end <= facts.now:
        return repairs.fill(unit.slice), ""
    column, cluster = ("_slice", "_cluster") if table != REJECTED else ("slice", "cluster")
    where = f"{column} = {int(unit.slice.start.timestamp())} AND {cluster} = {literal(unit.cluster)}"
    name = sql_table(table)
    statement = f"ALTER TABLE {name} DELETE" if projections else f"DELETE FROM {name}"  # noqa: S608 - printed
    delete = f"{statement} WHERE {where}"
    return "", f"Sluice lands no such slice, and did not write them; if they are not needed: {delete}"


def _aligned(slice_: Slice) -> bool:
    return floor(slice_.start, slice_.length) == slice_.start


def slice_text(slice_: Slice) -> str:
    return slice_.id if _aligned(slice_) else slice_.start.strftime("%Y-%m-%dT%H:%M:%SZ")
