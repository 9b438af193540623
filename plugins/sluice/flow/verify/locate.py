"""Which records a table lacks or has twice: located only for the few units whose counts are wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.clickhouse.client import Client
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Target
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.read_tables import RowsByOffsets, offsets_of
from sluice.manifest import LandedFile, Manifest
from sluice.safe_text import Say
from sluice.slices import Unit

MOST_UNITS = 20
MOST_ROWS = 2_000_000
_SOUGHT = (AnomalyKind.ROWS_MISSING, AnomalyKind.ROWS_DUPLICATE)
_COLUMNS = ["_type", "_topic", "_partition", "_offset", "_row"]
Places = dict[tuple[str, int], list[int]]
"""Offsets by (topic, partition)."""


def locate(
    facts: VerifyFacts, clients: Sequence[Client], lake: Lake, anomalies: Sequence[Anomaly], say: Say
) -> list[Anomaly]:
    """Returns the anomalies, with partition and offsets where those can be found out. `clients`: of all
    shards."""
    by_row_by_table = {table.table: table.identities[0].by_row for table in facts.tables if table.identities}
    units = {(s.unit.slice.id, s.unit.cluster): (s.unit, m) for s, m in facts.landed}
    placed: list[Anomaly] = []
    located: dict[tuple[str, str, str], tuple[Places, Places]] = {}
    for anomaly in anomalies:
        key = (anomaly.slice, anomaly.cluster, anomaly.table)
        if anomaly.kind not in _SOUGHT or anomaly.table not in by_row_by_table or key[:2] not in units:
            placed.append(anomaly)
            continue
        unit, manifest = units[key[:2]]
        if key not in located and (len(located) >= MOST_UNITS or manifest.landed > MOST_ROWS):
            placed.append(anomaly)
            continue
        if key not in located:
            say(f"locating the records of {anomaly.place}")
            target = next(t for t in facts.pipeline.targets if t.table == anomaly.table)
            by_row = by_row_by_table[target.table]
            located[key] = _locate(facts, clients, lake, target, unit, manifest, by_row)
        placed += _placed(anomaly, located[key][anomaly.kind is AnomalyKind.ROWS_DUPLICATE])
    return placed


def _locate(
    facts: VerifyFacts,
    clients: Sequence[Client],
    lake: Lake,
    target: Target,
    unit: Unit,
    manifest: Manifest,
    by_row: bool,
) -> tuple[Places, Places]:
    """Returns (records of which a row is missing, records of which one is there more than once)."""
    held, rejected = _held_offsets(clients, target.table, unit, by_row)
    duplicates = {place: sorted({o for (o, _), n in c.items() if n > 1}) for place, c in held.items()}
    if manifest.rows is not None and not by_row:
        duplicates = {}  # nothing tells one row of a record from another
    types = set(facts.pipeline.routed(target, manifest.rows_by_type()))
    missing: Places = {}
    for file in manifest.held_events:
        if types & set(file.types()) and facts.lake.sizes.get(file.key) == file.bytes:
            for place, offset, number in _records(lake, file, types):
                key = (offset, number if by_row else 0)
                if key not in held.get(place, {}) and key not in rejected.get(place, {}):
                    missing.setdefault(place, []).append(offset)
    return missing, {place: offsets for place, offsets in duplicates.items() if offsets}


def _held_offsets(
    clients: Sequence[Client], target: str, unit: Unit, by_row: bool
) -> tuple[RowsByOffsets, RowsByOffsets]:
    """`offsets_of` of all shards together."""
    held: tuple[RowsByOffsets, RowsByOffsets] = ({}, {})
    for client in clients:
        for summed, part in zip(held, offsets_of(client, target, unit, by_row), strict=True):
            for place, counts in part.items():
                totals = summed.setdefault(place, {})
                for key, count in counts.items():
                    totals[key] = totals.get(key, 0) + count
    return held


def _records(
    lake: Lake, file: LandedFile, types: Collection[str]
) -> Iterator[tuple[tuple[str, int], int, int]]:
    """Yields ((topic, partition), offset, row)."""
    try:
        with lake.local(file.key) as path, pq.ParquetFile(path) as parquet:
            columns = [name for name in _COLUMNS if name in parquet.schema_arrow.names]
            for row in parquet.read(columns=columns).to_pylist():
                if row["_type"] in types:
                    yield (row["_topic"], row["_partition"]), row["_offset"], row.get("_row", 0)
    except (OSError, pa.ArrowException):
        return  # missing or damaged: the file is an anomaly of its own, and the rows' counts stand


def _placed(anomaly: Anomaly, places: Mapping[tuple[str, int], Sequence[int]]) -> list[Anomaly]:
    """Returns one for each partition; the anomaly as it was when nothing was found."""
    mine = {
        place: sorted(offsets)
        for place, offsets in places.items()
        if anomaly.partition is None or place == (anomaly.topic, anomaly.partition)
    }
    return [
        replace(anomaly, topic=topic, partition=partition, offsets=(offsets[0], offsets[-1] + 1))
        for (topic, partition), offsets in sorted(mine.items())
    ] or [anomaly]
