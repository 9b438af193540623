"""Endpoints about one slice: everything that is known of it, and samples of what it rejected."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Annotated

import pendulum
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, HTTPException, Path, Response

from sluice.airflow.api.access import MOST_NAME, Readable, ShownPayloads, Startable, may_start, one_line
from sluice.airflow.api.pipelines import memory, schedules_of
from sluice.airflow.api.runs import run_rows, runs_of, timings_of
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.lake import layout
from sluice.clients.lake.open import brief_lake
from sluice.config.pipeline import Pipeline
from sluice.flow.steps import rule_differences
from sluice.flow.verify.verdict import read_verdict, within
from sluice.page import rejected_samples
from sluice.page.airflow_runs import work_of
from sluice.page.models import Model
from sluice.page.odd import Odd, OddKind, UsualRows, with_reasons
from sluice.page.overview import (
    OverviewContext,
    OverviewSnapshot,
    expired_units,
    first_instant,
    hours_of,
    odd_of,
    with_expired,
)
from sluice.page.rejected_samples import Rejects, forgotten_counts, rejected_records_counts, rejects_of
from sluice.page.retention import forgets_at
from sluice.page.rows import open_alarms, usual_rows, with_history
from sluice.page.run_history import step_runs
from sluice.page.slice_findings import RunRow, SliceFacts
from sluice.page.slice_view import (
    HourTotals,
    SliceView,
    balance,
    change_rows,
    count_rows,
    event_hours_of,
    slice_view,
    table_counts,
    totals_of,
)
from sluice.page.status_cache import TimedCache
from sluice.page.tables import rows_of_slice
from sluice.safe_text import visible
from sluice.slices import FIRST, Slice, SliceRange, parse_instant, utc
from sluice.state.additions import additions_in
from sluice.state.field_changes import changes_of
from sluice.state.held import release, still_held
from sluice.state.months import read_summaries
from sluice.state.status import UnitStatus
from sluice.state.system_tables import read_claims
from sluice.state.unit_state import UnitState

log = logging.getLogger(__name__)
slices = APIRouter()
MOST_BYTES = 4 << 20  # of a manifest; a browser shows no more at once
SliceIdPath = Annotated[str, Path(max_length=40)]
_rows_now: TimedCache[RowsNow] = TimedCache(10)
NameQuery = Annotated[str, Path(max_length=MOST_NAME)]


@slices.get("/pipelines/{pipeline}/slices/{slice_id}")
def one_slice(pipeline: Readable, slice_id: SliceIdPath, user: GetUserDep, session: SessionDep) -> SliceView:
    """Answers the state of one slice and what is wrong; then counts, offsets, tables, files, timings and
    runs."""
    slice_, now = _slice_of(pipeline, slice_id), pendulum.now("UTC")
    only, lake = _only(slice_), brief_lake(pipeline)
    snapshot, noted = memory.snapshot(pipeline, only), read_summaries(lake, only)
    verdict = within(read_verdict(lake), only)
    runs = runs_of(session, pipeline, slice_.start)
    work = work_of(runs, (int(slice_.start.timestamp()),), pipeline.slice)
    states = {status.state for status in snapshot.statuses}
    whole = all(state.done for state in states)
    asked = memory.clients.gone(pipeline) if UnitState.LANDED in states else None
    gone: frozenset[str] | None = frozenset() if whole else asked
    # What the watch has seen is nothing to an hour that is done.
    alarms = () if whole else open_alarms(lake)
    expired, first = expired_units(alarms), first_instant(pipeline, snapshot.boundaries)
    around = OverviewContext(
        pipeline,
        work,
        verdict,
        first,
        now,
        gone=gone or frozenset(),
        expired=expired,
        usual=_usual(pipeline, only) if whole else {},
    )
    hour = next(iter(hours_of(snapshot, noted, around)), None)
    if hour is None:
        raise HTTPException(404, f"slice {slice_id} is before the first hour of every cluster")
    rows = run_rows(session, runs, int(slice_.start.timestamp()))
    facts = SliceFacts(
        pipeline=pipeline,
        cell=hour,
        statuses=with_expired(snapshot.statuses, expired),
        now=now,
        verdict=verdict,
        runs=rows,
        alarms=alarms,
        gone=gone,
        paused=schedules_of(session, [pipeline])[pipeline.name].paused,
        odd=_odd(pipeline, slice_, snapshot, around),
        differences=rule_differences(pipeline, lake, snapshot.statuses),
        held=() if whole else still_held(pipeline, lake, only, snapshot.statuses),
    )
    landed = {status.unit: status.manifest for status in snapshot.statuses if status.manifest}
    view = slice_view(facts, slice_, hour.running, noted, now)
    held = any(not status.forgotten_on for status in snapshot.statuses if status.manifest)
    return view.model_copy(
        update={
            **_counts(pipeline, slice_, snapshot),
            "can_start": may_start(user, pipeline.name),
            "forgets_at": forgets_at(pipeline, lake, slice_, now) if held else "",
            "event_hours": event_hours_of(
                lake, pipeline, slice_, any(status.forgotten_on for status in snapshot.statuses)
            ),
            "changes": change_rows(changes_of(lake, landed, landed, log.info), additions_in(lake, only)),
            "step_runs": step_runs(slice_, timings_of(lake, _days(snapshot.statuses, rows))),
        }
    )


def _odd(
    pipeline: Pipeline, slice_: Slice, snapshot: OverviewSnapshot, around: OverviewContext
) -> Sequence[Odd]:
    """Returns what is unusual; where that are rejected rows, asks for their columns and reasons."""
    odds = odd_of(snapshot, around).get(slice_.id, [])
    if not any(odd.kind is OddKind.REJECTED for odd in odds):
        return odds
    lake, tables = brief_lake(pipeline), [target.table for target in pipeline.targets]
    counts = []
    for client in [server.client for server in memory.clients.servers(pipeline) if server.client]:
        own = read_claims(client, pipeline, lake.url, tables).own
        counts += rejected_samples.rejected_row_counts(client, pipeline, own, slice_)
    return with_reasons(
        odds, counts, rejected_records_counts([s.manifest for s in snapshot.statuses if s.manifest])
    )


def _usual(pipeline: Pipeline, only: SliceRange) -> UsualRows:
    return usual_rows(
        only, read_summaries(brief_lake(pipeline), with_history(only), memory.of(pipeline).months)
    )


def _counts(pipeline: Pipeline, slice_: Slice, snapshot: OverviewSnapshot) -> dict[str, object]:
    """Returns the hour's numbers beside those of the same hour a day and a week before; nothing for an
    unlanded hour."""
    now = totals_of(pipeline, snapshot.statuses)
    if now is None:
        return {}
    before = [_earlier(pipeline, slice_, days) for days in (1, 7)]
    return {
        "counts": count_rows(now, *before),
        "tables": table_counts(now, *before),
        "balance": balance(now),
    }


def _earlier(pipeline: Pipeline, slice_: Slice, days: int) -> HourTotals | None:
    start = slice_.start - timedelta(days=days)
    if start < FIRST:
        return None
    return totals_of(pipeline, memory.snapshot(pipeline, _only(Slice(start, slice_.length))).statuses)


class Released(Model):
    """How many units of the slice were held."""

    units: int


@slices.post("/pipelines/{pipeline}/slices/{slice_id}/release/{table}")
def release_slice(pipeline: Startable, slice_id: SliceIdPath, table: NameQuery, user: GetUserDep) -> Released:
    """Lets a slice into a table out of which a check holds it; the next load takes it."""
    only = _only(_slice_of(pipeline, slice_id))
    found = release(brief_lake(pipeline), only, table, user.get_name())
    if not found:
        raise HTTPException(404, f"nothing of slice {slice_id} is held out of table {visible(table)}")
    log.info("slice %s released for table %s by %s", slice_id, visible(table), user.get_name())
    return Released(units=sum(map(len, found.values())))


@slices.get("/pipelines/{pipeline}/slices/{slice_id}/rejected")
def rejected(pipeline: Readable, slice_id: SliceIdPath, payloads: ShownPayloads) -> Rejects:
    """Answers what was rejected, by reason and column, with a few samples of each: rejected records from the
    lake, rejected rows from ClickHouse; of their payloads what the caller may see."""
    slice_ = _slice_of(pipeline, slice_id)
    statuses = memory.snapshot(pipeline, _only(slice_)).statuses
    manifests = [status.manifest for status in statuses if status.manifest]
    rejected_rows, counts = [], []
    lake, tables = brief_lake(pipeline), [target.table for target in pipeline.targets]
    with connect_shards(pipeline) as servers:
        for client in [server.client for server in servers if server.client]:
            own = read_claims(client, pipeline, lake.url, tables).own
            counts += rejected_samples.rejected_row_counts(client, pipeline, own, slice_)
            rejected_rows += rejected_samples.rejected_rows(client, pipeline, own, slice_, payloads)
    rejected_records = rejected_samples.rejected_records(lake, manifests, payloads)
    gone = forgotten_counts(manifests)
    without_files = bool(manifests) and all(manifest.forgotten_on for manifest in manifests)
    samples = [*rejected_records, *rejected_rows]
    return rejects_of(rejected_records_counts(manifests), counts, samples, payloads, gone, without_files)


class RowsNow(Model):
    """Rows of the slice that each table of events has now; a line for each server that does not answer."""

    rows: dict[str, int]
    errors: list[str]


@slices.get("/pipelines/{pipeline}/slices/{slice_id}/rows")
def rows_now(pipeline: Readable, slice_id: SliceIdPath) -> RowsNow:
    """Answers what the tables hold, whatever the ledger says. A table that a server lacks is left out."""
    slice_ = _slice_of(pipeline, slice_id)
    return _rows_now.get((pipeline.name, slice_), lambda: _read_rows(pipeline, slice_))


def _read_rows(pipeline: Pipeline, slice_: Slice) -> RowsNow:
    lake, servers = brief_lake(pipeline), memory.clients.servers(pipeline)
    gone = memory.clients.gone(pipeline)
    names = [target.table for target in pipeline.targets if target.table not in gone]
    clients = [server.client for server in servers if server.client]
    own = [(client, read_claims(client, pipeline, lake.url, names).own) for client in clients]
    errors = [str(server.error) for server in servers if server.error]
    return RowsNow(rows={} if errors else rows_of_slice(own, pipeline, slice_), errors=errors)


@slices.get("/pipelines/{pipeline}/slices/{slice_id}/manifests/{cluster}")
def manifest(pipeline: Readable, slice_id: SliceIdPath, cluster: NameQuery) -> Response:
    """Answers the manifest as it is in the lake. 404 where the unit has not landed, 409 for one that is too
    large."""
    lake, key = brief_lake(pipeline), layout.manifest(_slice_of(pipeline, slice_id).id, cluster)
    # Those of the pipeline file, and those that it no longer has.
    clusters = memory.of(pipeline).boundaries(lake).clusters | frozenset(pipeline.clusters)
    size = lake.size(key) if cluster in clusters else None
    if size is not None and size > MOST_BYTES:
        raise HTTPException(409, f"the manifest has {size:,} bytes: it is {lake.url}/{key}")
    stored = None if size is None else lake.read(key)
    if stored is None:
        raise HTTPException(404, f"{slice_id}/{one_line(cluster)} has no manifest")
    return Response(stored.data, media_type="application/json")


def _slice_of(pipeline: Pipeline, slice_id: str) -> Slice:
    """Returns the slice of an id. Raises WrongUse for an invalid id, or one of a year that no range can
    name."""
    slice_ = Slice.from_id(slice_id, pipeline.slice)
    parse_instant(slice_id, slice_.start, pipeline.slice)
    return slice_


def _only(slice_: Slice) -> SliceRange:
    return SliceRange(slice_.start, slice_.end, slice_.length)


def _days(statuses: Iterable[UnitStatus], rows: Iterable[RunRow]) -> list[date]:
    """Returns the days on which steps over the slice may have begun: its landing's and its newest runs', with
    the days beside."""
    instants = [s.manifest.landed_at for s in statuses if s.manifest] + [row.started for row in rows]
    days = {utc(datetime.fromisoformat(text)).date() for text in instants if text}
    return sorted({day + timedelta(days=more) for day in days for more in (-1, 0, 1)})
