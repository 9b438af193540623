"""The end of an erasure: removes what is left of the units as they were, and writes the receipt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pendulum

from sluice import crash_points
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.lake.base import OfPipeline
from sluice.crash_points import Erase
from sluice.flow.erase.erase import Eraser
from sluice.flow.erase.places import (
    Place,
    lake_places,
    left_tables,
    left_view_tables,
    other_places,
    state_place,
    table_place,
)
from sluice.flow.erase.search import Tables, covered, marks_of, unsearched_lines
from sluice.flow.erase.what_is_left import (
    LeftInKafka,
    LeftOnDisk,
    Removed,
    ServerParts,
    Wait,
    forgotten_lines,
    left_in_kafka,
    left_lines,
    note_lines,
    remove_left,
)
from sluice.manifest import STAMP, Manifest
from sluice.slices import Slice, Unit
from sluice.state.erasures import (
    Erasure,
    ErasureList,
    ErasureProgress,
    FoundUnit,
    read_progress,
    write_receipt,
)


def finish(
    eraser: Eraser, number: int, erasures: ErasureList, force: bool, wrong: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the receipt, which is in the lake then. `force`: see `left_parts`. `wrong`: what verify has
    found of the units. Repeatable at any time."""
    lake, pipeline, entry = eraser.lake, eraser.pipeline, erasures.entries[number]
    progress, manifests = read_progress(lake, number), covered(pipeline, lake, entry)
    now = pendulum.now("UTC")

    def covers(slice_id: str) -> bool:
        slice_ = Slice.of_folder(slice_id, pipeline.slice)
        return slice_ is not None and entry.covers(slice_)

    removed = remove_left(lake, covers, manifests, progress, now)
    crash_points.reached(Erase.CLEANED)
    tables = eraser.loads.tables(manifests)
    bare = receipt_of(pipeline.name, number, entry, progress, manifests, tables, now.strftime(STAMP))
    kafka = left_in_kafka(pipeline, progress.found)
    receipt = with_what_is_left(lake, bare, removed, manifests, kafka, _on_disk(eraser, force), force)
    places = _places(eraser, manifests, progress.found)
    receipt["places"] = [place.as_json for place in places]
    receipt["not_searchable"] = eraser.request.unsearchable(manifests)
    receipt["left"] += [line for place in places for line in place.left]
    receipt["left"] += [f"not searchable: {line}" for line in receipt["not_searchable"]]
    receipt["left"] += [f"verify: {text}" for text in wrong]
    write_receipt(lake, number, receipt)
    crash_points.reached(Erase.RECEIPTED)
    return receipt


def waits(eraser: Eraser) -> list[Wait]:
    """Returns how long `force` will wait for each server, one after another. A load always drops tables."""
    return [left.wait(dropped=True) for left in _on_disk(eraser, force=False)]


def _places(
    eraser: Eraser, manifests: Mapping[Unit, Manifest], found: Mapping[str, FoundUnit]
) -> list[Place]:
    pipeline, lake = eraser.pipeline, eraser.lake
    ledgers = eraser.loads.ledgers(manifests) if manifests else {}
    with connect_shards(pipeline) as servers:
        left = left_tables(servers, pipeline, lake.url, eraser.request.slices)
        views = left_view_tables(servers, pipeline, lake, eraser.request.slices, manifests.keys())
    return [
        *lake_places(manifests, found),
        state_place(lake, eraser.request.wheres, found),
        table_place(pipeline, manifests, found, ledgers),
        left,
        views,
        *other_places(),
    ]


def _on_disk(eraser: Eraser, force: bool) -> list[LeftOnDisk]:
    with connect_shards(eraser.pipeline) as servers:
        servers_parts = [ServerParts(server.reached, eraser.pipeline, eraser.say) for server in servers]
        return [server_parts.force() if force else server_parts.left() for server_parts in servers_parts]


# The receipt of an erasure, as a value that becomes JSON. Pure.
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
    """Returns the rows of these units in each table, sluice.rejected with rejected rows, before and after."""
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
