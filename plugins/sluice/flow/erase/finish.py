"""The end of an erasure: removes what is left of the units as they were, and writes the receipt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

import pendulum

from sluice import crash_points
from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import (
    ACCESS_DENIED,
    UNKNOWN_DATABASE,
    UNKNOWN_TABLE,
    ServerError,
)
from sluice.clients.clickhouse.inspect_tables import Refreshing, grant, read_refreshing, read_table
from sluice.clients.clickhouse.shards import Servers, connect_shards
from sluice.clients.clickhouse.sql import Sql, render, table
from sluice.clients.clickhouse.tables import called, view_target
from sluice.clients.lake.base import Lake, OfPipeline
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Erase
from sluice.flow.erase.erase import Eraser
from sluice.flow.erase.search import Tables, Where, covered, marks_of, unsearched_lines
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
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.departed_tables import named_by
from sluice.state.erasures import (
    Erasure,
    ErasureList,
    ErasureProgress,
    FoundUnit,
    read_progress,
    write_receipt,
)
from sluice.state.ledger import Ledger, manifests_in, unit_of
from sluice.state.rules import RulesReader, TableRules

# The places where a person's data may be: what was searched in each, and what cannot be.

SHORTEST = 4
"""Bytes of a value that is searched for in the lake's own objects: a shorter one is in many texts."""
_OF_UNITS = ("_slices/", "_attempts/", "_rejected/", "_counts/", "_erasures/", "_leases/")


@dataclass(frozen=True)
class Place:
    """`searched`: what was done there; `left`: what of it somebody still has to do, a line for each."""

    name: str
    searched: str
    left: tuple[str, ...] = ()

    @property
    def as_json(self) -> dict[str, Any]:
        return {"place": self.name, "searched": self.searched}


def lake_places(manifests: Mapping[Unit, Manifest], found: Mapping[str, FoundUnit]) -> Iterator[Place]:
    """Yields events, rejected records and counts of the lake, by numbers. Pure."""
    held = [m for m in manifests.values() if not m.forgotten_on]
    rows, rejected = (sum(getattr(unit, name) for unit in found.values()) for name in ("rows", "rejected"))
    events = sum(len(m.held_events) for m in held)
    yield Place("lake: events", f"{events:,} files of {len(held):,} units, row by row; {rows:,} rows matched")
    files = sum(len(m.held_rejected) for m in held)
    yield Place(
        "lake: _rejected",
        f"{files:,} files, record by record, and what is no event as a text; {rejected:,} records matched",
    )
    counts = sum(len(m.traffic) for m in held)
    yield Place("lake: _counts", f"{counts:,} files: each row that is erased is taken off its count")


def state_place(lake: Lake, wheres: Sequence[Where], found: Iterable[str]) -> Place:
    """Searches the lake's other objects for the values as texts: timings, the history of the pipeline file,
    rules, boundaries and whatever else there is, and the manifests of the units that held somebody, old ones
    included: a name of a field may be a person's."""
    values = {where.value.encode() for where in wheres if len(where.value.encode()) >= SHORTEST}
    searched, hits = 0, list[str]()
    state = (item for item in lake.list("_") if not item.key.startswith(_OF_UNITS))
    manifests = (item for unit in sorted(found) for item in lake.list(f"_slices/{unit}/"))
    for item in (*state, *manifests):
        stored = lake.read(item.key)
        searched += 1
        if stored is not None and any(value in stored.data for value in values):
            hits.append(f"{item.key} of the lake has the value as a text, and Sluice does not rewrite it")
    short = "; a value of fewer bytes is not searched for there" if len(values) < len({*wheres}) else ""
    what = "the history of the pipeline file, _rules, _timings, boundaries, other state and manifests"
    return Place("lake: state", f"{searched:,} objects: {what}{short}", tuple(hits))


def left_tables(servers: Servers, pipeline: Pipeline, lake: str, covered: SliceRange) -> Place:
    """Names the tables that have left the pipeline file and still hold rows of the slices."""
    parameters = _parameters(pipeline, lake, covered)
    rows: dict[str, int] = {}
    for server in servers:
        for target, count in _rows(server.reached, "erase/left_tables", parameters):
            rows[target] = rows.get(target, 0) + int(count)
    lines = (
        f"table {table} is no longer in the pipeline file and has {count:,} rows of these slices, out of "
        "which nobody is taken: delete the person's rows there, or drop the table"
        for table, count in rows.items()
    )
    return Place("tables that left the pipeline file", f"{len(rows):,} by the ledger", tuple(lines))


def _parameters(pipeline: Pipeline, lake: str, covered: SliceRange) -> dict[str, Any]:
    return {
        "pipeline": pipeline.name,
        "lake": lake,
        "targets": [target.table for target in pipeline.targets],
        "start": int(covered.start.timestamp()),
        "until": int(covered.end.timestamp()),
    }


def _rows(client: Client, statement: str, parameters: dict[str, Any], **parts: Sql) -> list[Any]:
    """Returns nothing where the table is not there: a ledger, if nothing was ever loaded."""
    try:
        return list(client.rows(render(statement, **parts), parameters))
    except ServerError as error:
        if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            return []
        raise


def left_view_tables(
    servers: Servers, pipeline: Pipeline, lake: Lake, covered: SliceRange, units: Collection[Unit]
) -> Place:
    """Names the tables that a view wrote to when one of the units was loaded, and that have its rows still,
    because the view was not there when the unit was loaded for the last time."""
    parameters, reader = _parameters(pipeline, lake.url, covered), RulesReader(lake)
    rows: dict[tuple[str, str, str], Counter[Unit]] = {}
    lines = list[str]()
    for server in servers:
        left: dict[tuple[str, str, str], set[Unit]] = {}
        for target, start, cluster, newest, digests in _rows(server.reached, "erase/load_rules", parameters):
            unit, last = unit_of(pipeline, start, cluster), reader.table(newest)
            if unit not in units or last is None:
                continue
            written = {name: view for digest in digests for name, view in _written(reader.table(digest))}
            for name in written.keys() - dict(_written(last)):
                left.setdefault((target, written[name], name), set()).add(unit)
        for key, left_units in left.items():
            try:
                counts = _rows(server.reached, "erase/rows_by_unit", parameters, table=table(key[2]))
            except ServerError as error:
                if error.retryable:
                    raise
                lines.append(f"table {key[2]}, to which view {key[1]} wrote, cannot be read: {error.reason}")
                continue
            for start, cluster, count in counts:
                if (unit := unit_of(pipeline, start, cluster)) in left_units:
                    rows.setdefault(key, Counter())[unit] += int(count)
    lines += [
        f"table {name} has {counts.total():,} rows of {len(counts):,} units, {min(counts)} … {max(counts)}, "
        f"that view {view} of {target} wrote, which was not there when these units were loaded again: "
        "nobody is taken out of them, and they may hold the person; delete the person's rows there, or drop "
        "the table"
        for (target, view, name), counts in sorted(rows.items())
    ]
    return Place("tables of views that are gone", f"{len(rows):,} by the rules of the loads", tuple(lines))


def _written(rules: TableRules | None) -> Iterator[tuple[str, str]]:
    """Yields (table, view) of the rules' views. The table that the server makes for a view goes with it."""
    if rules is None:
        return
    for statement in rules.ddl:
        view = named_by(statement)
        if view is None or view not in rules.views:
            continue
        written = view_target(view.partition(".")[0], "", statement)
        if written is not None and not written[1].startswith(".inner"):
            yield ".".join(written), view


def left_refreshing(
    servers: Servers, pipeline: Pipeline, lake: str, covered: SliceRange, units: Collection[str]
) -> Place:
    """Names the tables that a view fills when it refreshes by itself, and in which `units`, which held the
    person, may be as they were: no load reaches them."""
    parameters, lines, count = _parameters(pipeline, lake, covered), dict[str, None](), 0
    for server in servers if units else ():
        loaded: dict[str, int] = {}
        for target, start, cluster, at in _rows(server.reached, "erase/loaded_at", parameters):
            if str(unit_of(pipeline, start, cluster)) in units:
                loaded[target] = max(int(at), loaded.get(target, 0))
        changed: dict[str, float] = {}
        for target, at in loaded.items():
            described = read_table(server.reached, *target.split(".", 1))
            for view_table in () if described is None else described.stored:
                changed[view_table.table] = max(at, changed.get(view_table.table, 0))
            changed[target] = max(at, changed.get(target, 0))
        views = read_refreshing(server.reached, [*changed]) if changed else []
        count += len(views)
        lines |= dict.fromkeys(refreshing_lines(views, _refreshes(server.reached) if views else {}, changed))
    return Place("tables of views that refresh by themselves", f"{count:,} by their definitions", (*lines,))


def _refreshes(client: Client) -> dict[str, tuple[int, int]] | str:
    """Returns when each view's newest refresh began and ended, in ms; where the user may not see that, the
    GRANT which allows it."""
    try:
        return {view: (began, ended) for view, began, ended in client.rows(render("erase/view_refreshes"))}
    except ServerError as error:
        if error.code == ACCESS_DENIED:
            return grant(client, ["SELECT"], Sql("system.view_refreshes"))
        raise


def refreshing_lines(
    views: Iterable[Refreshing],
    refreshes: Mapping[str, tuple[int, int]] | str,
    changed: Mapping[str, float],
) -> Iterator[str]:
    """`changed`: when the tables that they read lost the person, in ms; `refreshes` is as `_refreshes` says.
    Pure."""
    clean = dict(changed)
    known, allow = ({}, f"{refreshes}, then ") if isinstance(refreshes, str) else (refreshes, "")
    for of in views:
        began, ended = known.get(of.view, (0, 0))
        if not of.appends and began > max(clean.get(source, inf) for source in of.sources):
            clean[of.table] = ended
            continue
        clean[of.table] = inf
        what = f"table {called(of.table, of.view)} may hold the person: view {of.view} refreshes by itself"
        if of.appends:
            yield f"{what}, and keeps the rows of each time (APPEND): delete the person's rows there"
            continue
        refresh = f"SYSTEM REFRESH VIEW {table(of.view)}"
        yield f"{what}, and has not since: {allow}{refresh}, and when it is done the same erasure again"


def table_place(
    pipeline: Pipeline,
    manifests: Mapping[Unit, Manifest],
    found: Mapping[str, FoundUnit],
    ledgers: Mapping[str, Ledger],
) -> Place:
    """Names the tables that still have rows of a unit as it was: of one that could not be loaded again, such
    as a derived table whose source has expired. Pure."""
    lines = []
    for name, ledger in sorted(ledgers.items()):
        old = [
            unit
            for unit, row in ledger.items()
            if str(unit) in found and unit in manifests and manifests_in(row) - {manifests[unit].id}
        ]
        if old:
            lines.append(
                f"table {name} still has the rows of {len(old):,} units, {min(old)} … {max(old)}, as they "
                "were before: it could not be loaded again; delete the person's rows there"
            )
    names = ", ".join(target.table for target in pipeline.targets) or "none"
    return Place(
        "tables",
        f"{names}: the units that held somebody are loaded again, rejected rows included",
        tuple(lines),
    )


def other_places() -> Iterator[Place]:
    """Yields those that are not searched row by row."""
    yield Place(
        "sluice.rejected", "rejected rows of these units are replaced by the load, and searched with them"
    )
    yield Place("Kafka", "not searched: `kafka` names the offsets, and until when they are there")
    yield Place("copies outside of Sluice", "not searched: backups, exports, and tables that others fill")


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
        refreshing = left_refreshing(servers, pipeline, lake.url, eraser.request.slices, found.keys())
    return [
        *lake_places(manifests, found),
        state_place(lake, eraser.request.wheres, found),
        table_place(pipeline, manifests, found, ledgers),
        left,
        views,
        refreshing,
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
