"""The receipt of an erasure, as a value that becomes JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sluice.clients.lake.base import OfPipeline
from sluice.flow.erase.left_files import Removed
from sluice.flow.erase.left_in_kafka import LeftInKafka
from sluice.flow.erase.left_parts import LeftOnDisk
from sluice.flow.erase.search import Tables, unsearched_lines
from sluice.flow.erase.search_unit import marks_of
from sluice.flow.erase.what_is_left import forgotten_lines, left_lines, note_lines
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.erasures.erasure_list import Erasure
from sluice.state.erasures.erasure_progress import ErasureProgress, FoundUnit

VERSION = 1


def receipt_of(
    pipeline: str,
    number: int,
    entry: Erasure,
    progress: ErasureProgress,
    manifests: Mapping[Unit, Manifest],
    tables: Tables,
    done_at: str,
) -> dict[str, Any]:
    """Returns what is known from the lake and the ledgers. `tables`: rows committed now."""
    units = [
        (unit, progress.found[str(unit)], m) for unit, m in manifests.items() if str(unit) in progress.found
    ]
    return {
        "version": VERSION,
        "pipeline": pipeline,
        "erasure": number,
        "asked_at": entry.at,
        "asked_by": entry.by,
        "reason": entry.reason,
        "done_at": done_at,
        "covers": {"from": entry.start, "to": entry.until, "type": entry.type},
        "fields": sorted({".".join(value.path) for value in entry.values}),
        "erased": {
            "units": len(units),
            "of_units": len(manifests),
            "records": sum(m.erased - before.erased for _, before, m in units),
            "rows": sum(before.rows for _, before, _ in units),
            "rejected": sum(before.rejected for _, before, _ in units),
        },
        "tables": table_rows(units, tables),
        "later_landings": "drop the person: the erasure list is read before anything lands of these slices",
        "units": [_unit(unit, before, manifest) for unit, before, manifest in units],
        "searched": {
            name: manifest for name, manifest in progress.clean.items() if name not in progress.found
        },
    }


def table_rows(
    units: Iterable[tuple[Unit, FoundUnit, Manifest]], tables: Tables
) -> dict[str, dict[str, int]]:
    """Returns the rows of these units in each table, sluice.rejected with misfits, before and after."""
    rows_by_table: dict[str, dict[str, int]] = {}
    for unit, before, _ in units:
        for name in sorted({*before.tables, *tables}):
            row = rows_by_table.setdefault(name, {"before": 0, "after": 0})
            row["before"] += before.tables.get(name, 0)
            row["after"] += tables.get(name, {}).get(unit, 0)
    return rows_by_table


def _unit(unit: Unit, before: FoundUnit, manifest: Manifest) -> dict[str, Any]:
    return {
        "slice": unit.slice.id,
        "cluster": unit.cluster,
        "manifest_before": before.manifest,
        "manifest_after": manifest.id,
        "records_erased": manifest.erased - before.erased,
        "rows_erased": before.rows,
        "rejected_erased": before.rejected,
        "rejected_forgotten": sum(manifest.forgotten_by_reason().values()),
        "files_before": [asdict(file) for file in before.files],
        "files_after": [asdict(file) for file in marks_of(manifest)],
    }


def with_what_is_left(
    lake: OfPipeline,
    receipt: Mapping[str, Any],
    removed: Removed,
    manifests: Mapping[Unit, Manifest],
    kafka: Sequence[LeftInKafka],
    servers: Sequence[LeftOnDisk],
    force: bool,
) -> dict[str, Any]:
    """Adds what is left. `left`: what somebody still has to do; `notes`: what vanishes by itself."""
    return {
        **receipt,
        "left": left_lines(removed, unsearched_lines(lake, manifests), servers, force),
        "notes": [*forgotten_lines(manifests.values()), *note_lines(kafka, servers, force)],
        "lake": {
            "superseded_files_removed": removed.files,
            "attempts_removed": removed.attempts,
            "attempts_left": [asdict(attempt) for attempt in removed.left],
        },
        "kafka": [asdict(offsets) for offsets in kafka],
        "clickhouse": [asdict(server) for server in servers],
    }
