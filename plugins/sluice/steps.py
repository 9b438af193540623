"""The steps `resolve → land → load → verify → publish` as plain functions over a range of slices.

Airflow's tasks and `sluice run` call the same ones. Each is safe to repeat at any time: what is done is
read from the lake and ClickHouse, never from the caller.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pendulum

from sluice import metrics_of, metrics_sink, points
from sluice.boundaries.log import BoundaryLog
from sluice.clickhouse.client import Client
from sluice.clickhouse.shards import connect_shards
from sluice.clusters import units_of
from sluice.contents.audit import auditor
from sluice.contents.report import Contents
from sluice.errors import Busy, Conservation, EndInFuture, Refused
from sluice.estimate import Expected, expected, rates
from sluice.lake.open import open_lake
from sluice.landing.event_hours import publish_event_hours
from sluice.landing.mover import finish_moves
from sluice.load.check import inspect_target
from sluice.load.result import LoadResult
from sluice.load.shards import load_shards
from sluice.load.sql import render
from sluice.load.system import check_owner, create_system_tables
from sluice.pipeline import Pipeline
from sluice.plain_text import line
from sluice.plan import Work, describe, work_of
from sluice.points import Publish
from sluice.resolve import resolve
from sluice.slices import Slice, SliceRange, floor
from sluice.state import State
from sluice.status import UnitStatus
from sluice.summary.store import note, note_verified
from sluice.survey import Preview, preview, raise_if_all, survey, survey_past
from sluice.timings import newest, timed
from sluice.verification.anomaly import Anomaly, Kind
from sluice.verification.audit import audit
from sluice.waiting import waiting

Say = Callable[[str], None]

log = logging.getLogger(__name__)


def hourly_range(pipeline: Pipeline, own: SliceRange) -> SliceRange:
    """The slices that the run of `own` looks at each time: `heal` back from its end, not before `start`.

    Of older ones `sluice.look_back` takes a part.
    """
    start = floor(own.end - pipeline.heal, pipeline.slice)
    if pipeline.start is not None:
        start = max(start, pendulum.instance(pipeline.start))
    return SliceRange(min(start, own.start), own.end, pipeline.slice)


def resolve_range(pipeline: Pipeline, slices: SliceRange) -> dict[str, Any]:
    """Stores every boundary of the range that is missing. `waiting` holds the error of each cluster that
    could not be asked: the others' boundaries are stored, and the range goes on with them.
    `stamped_ahead` and `held` have a line for each record from the future, and for each open transaction.

    Raises EndInFuture when the range is not over, and what Kafka raises when no cluster could be asked.
    """
    now = pendulum.now("UTC")
    if slices.end > now:
        raise EndInFuture(str(slices.end), str(now))
    lake = open_lake(pipeline)
    with timed(lake, "resolve", slices) as count:
        resolution = resolve(pipeline, lake, list(slices), now)
        raise_if_all(pipeline, resolution.unreachable)
        count({"units": resolution.stored, "rows": 0})
    metrics_sink.count("boundaries_resolved", resolution.stored, pipeline=pipeline.name)
    metrics_sink.count("future_records", len(resolution.future), pipeline=pipeline.name)
    ahead, held = map(str, resolution.future), map(str, resolution.held)
    edges = {"from": str(slices.start), "to": str(slices.end)}
    reports = {"stamped_ahead": list(ahead), "held": list(held)}
    return {"slices": len(slices), **edges, **reports, "waiting": dict(resolution.unreachable)}


def check_targets(pipeline: Pipeline) -> None:
    """Raises TargetRefused for the first target table that could not be loaded; writes nothing to any."""
    url = open_lake(pipeline).url
    with connect_shards(pipeline) as servers:
        for server in [server for server in servers if server.client]:
            client = server.reached
            for target in pipeline.targets:
                inspect_target(client, pipeline, target)
            create_system_tables(client, replicated=bool(server.shard.replicas))
            for target in pipeline.targets:
                check_owner(client, pipeline, url, target)


def batches(pipeline: Pipeline, slices: SliceRange, mode: str) -> list[SliceRange]:
    """What of the range has work to do in `mode`, cut by rows and by number of slices."""
    return list(work_in(pipeline, slices, mode).batches)


def work_in(pipeline: Pipeline, slices: SliceRange, mode: str) -> Work:
    found = survey(pipeline, slices)
    note(open_lake(pipeline), found)
    return work_of(found, mode)


def expected_time(pipeline: Pipeline, work: Work) -> Expected:
    """At the rates that earlier runs of the pipeline had."""
    return expected(work, rates(newest(open_lake(pipeline), pendulum.now("UTC"))))


def load_table(
    pipeline: Pipeline, table: str, slices: SliceRange, mode: str, token: str, say: Say
) -> dict[str, Any]:
    """Loads what of the range is landed into one target table. Raises what `sluice.load` raises.

    A lander that died after its manifest has not moved every file: that is finished first.
    """
    target = next(t for t in pipeline.targets if t.table == table)
    lake = open_lake(pipeline)
    rejected: list[tuple[str, int]] = []

    def look(client: Client, result: LoadResult) -> None:
        rejected.extend(_rejected(client, result))

    with timed(lake, "load", slices, table=table, mode=mode, run=token) as count:
        units = list(finish_moves(lake, units_of(pipeline, slices, BoundaryLog(lake).read())))
        result = load_shards(
            pipeline, target, units, lake, mode=mode, token=token, on_progress=say, then=look
        )
        found = result.summary()
        count({"units": found["loaded"], "rows": found["rows"] + found["misfits"]})
    metrics_sink.emit(metrics_of.loaded(pipeline.name, table, found))
    metrics_sink.emit(metrics_of.rejected(pipeline.name, table, rejected))
    return {"table": table, **found}


def _rejected(client: Client, result: LoadResult) -> list[tuple[str, int]]:
    """Misfits that were loaded now, by column."""
    slices = {int(unit.unit.slice.start.timestamp()) for unit in result.loaded if unit.misfits}
    known = {"target": result.table, "slices": sorted(slices)}
    return [(c, n) for c, n in client.rows(render("rejected_by_column"), known)] if slices else []


def verify_range(pipeline: Pipeline, slices: SliceRange) -> list[UnitStatus]:
    """The state of each unit. Raises Conservation, naming every place, when an equation of the range does not
    hold.

    That one of several clusters has not landed breaks none: `sluice.waiting` says so, cluster by cluster.
    """
    with timed(open_lake(pipeline), "verify", slices) as count:
        found, findings, notes = audit(pipeline, slices)
        contents = Contents() if findings else auditor(pipeline, None).sample(found)
        findings = [*findings, *contents.anomalies]
        count({"units": len(found), "rows": records_of(found)})
    metrics_sink.emit(metrics_of.verified(pipeline.name, len(found), records_of(found), findings))
    note_verified(open_lake(pipeline), slices, found, findings, pendulum.now("UTC"), contents.covered)
    apart = {(u.slice.id, u.cluster) for part in waiting(pipeline, found) for u in part.units}
    findings = [f for f in findings if f.kind is not Kind.INCOMPLETE or (f.slice, f.cluster) not in apart]
    for text in (*notes, *contents.busy):
        log.info("verify %s: %s", pipeline.name, line(text))
    for finding in [finding for finding in findings if finding.kind is Kind.FIELD_MISSING]:
        log.warning("%s", line(str(finding)))  # the hour is exact: it is told, and stops nothing
    findings = [finding for finding in findings if finding.kind is not Kind.FIELD_MISSING]
    if findings and all(_on_its_way(finding, found) for finding in findings):
        raise Busy(f"not loaded yet, or landed again meanwhile: {'; '.join(map(str, findings[:5]))}")
    if findings:
        more = f" (and {len(findings) - 5} more: `sluice verify`)" if len(findings) > 5 else ""
        raise Conservation("; ".join(str(finding) for finding in findings[:5]) + more)
    return found


def _on_its_way(finding: Anomaly, found: Iterable[UnitStatus]) -> bool:
    """A run verifies what it has loaded: where that is not loaded, somebody has landed it again meanwhile."""
    units = {(s.unit.slice.id, s.unit.cluster) for s in found if s.state in (State.LANDED, State.STALE)}
    return (
        finding.kind in (Kind.INCOMPLETE, Kind.FILE_NOT_MOVED) and (finding.slice, finding.cluster) in units
    )


def records_of(found: Iterable[UnitStatus]) -> int:
    """How many records of Kafka have landed."""
    return sum(status.manifest.read for status in found if status.manifest)


def publish_range(
    pipeline: Pipeline, slices: SliceRange, found: Sequence[UnitStatus] | None = None
) -> list[dict[str, Any]]:
    """Marks complete event hours, and returns for each table and complete slice what became available.

    `found` is what `verify_range` has just seen, where it was the same process that verified. A slice that
    waits for one of several clusters is left out: it is published when that has landed. Raises Refused for
    one that is not complete for another reason.
    """
    lake = open_lake(pipeline)
    with timed(lake, "publish", slices) as count:
        found = survey_past(pipeline, slices) if found is None else found
        points.reached(Publish.SURVEYED)
        publish_event_hours(pipeline, lake, slices)
        points.reached(Publish.HOURS_MARKED)
        count({"units": len(found), "rows": 0})
    events = []
    by_slice: dict[Slice, list[UnitStatus]] = {}
    for status in found:
        by_slice.setdefault(status.unit.slice, []).append(status)
    apart = {unit.slice for part in waiting(pipeline, found) for unit in part.units}
    for piece, units in ((piece, units) for piece, units in by_slice.items() if piece not in apart):
        if not all(s.state.done for s in units):
            raise Refused(f"slice {piece.id} is not complete: `sluice status` shows what is missing")
        manifests = {s.unit.cluster: s.manifest.id for s in units if s.manifest}
        for target in pipeline.targets:
            rows = sum(s.tables[target.table].rows for s in units)
            events.append({"table": target.table, "slice": piece.id, "rows": rows, "manifests": manifests})
    points.reached(Publish.GATHERED)
    return events


def plan_lines(pipeline: Pipeline, slices: SliceRange, mode: str) -> list[str]:
    """What a run over the range would do, a line per unit, and how long it would take; changes nothing."""
    seen: Preview = preview(pipeline, slices)
    work = work_of(seen.found, mode)
    took = expected_time(pipeline, work)
    return [
        *(describe(status, mode, pipeline.on_expired) for status in seen.found),
        *(f"cluster {cluster} waits: {error}" for cluster, error in seen.unreachable.items()),
        f"{work.units:,} units and {work.rows:,} rows in {len(work.batches)} batches; time: {took}",
    ]
