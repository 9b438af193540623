"""Endpoints about one slice: everything that is known of it, and samples of what it rejected."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Annotated

import pendulum
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, HTTPException, Path, Response

from sluice.airflow.api.access import MOST_NAME, Readable, ShownPayloads, may_start
from sluice.airflow.api.gate import one_line
from sluice.airflow.api.pipelines import memory
from sluice.airflow.api.runs import runs_of
from sluice.airflow.api.task_history import run_rows
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.flow.verify.verdict import within
from sluice.flow.verify.verdict_store import read_verdict
from sluice.page import rejected_samples
from sluice.page.airflow_runs import work_of
from sluice.page.cause_rows import cause_rows
from sluice.page.overview import OverviewContext, first_instant, hours_of
from sluice.page.slice_models import RunRow, Samples, SliceView
from sluice.page.slice_view import change_rows, event_hours_of, timings_of, unit_view
from sluice.slices import Slice, SliceRange, parse_instant, utc
from sluice.state.additions import additions_in
from sluice.state.month_store import read_summaries
from sluice.state.schema.history import changes_of
from sluice.state.status import UnitStatus
from sluice.state.timings import Timing, of_day
from sluice.state.unit_state import UnitState

log = logging.getLogger(__name__)
slices = APIRouter()
MOST_BYTES = 4 << 20  # of a manifest; a browser shows no more at once
SliceIdPath = Annotated[str, Path(max_length=40)]
NameQuery = Annotated[str, Path(max_length=MOST_NAME)]


@slices.get("/pipelines/{pipeline}/slices/{slice_id}")
def one_slice(pipeline: Readable, slice_id: SliceIdPath, user: GetUserDep, session: SessionDep) -> SliceView:
    """Offsets, rows, tables, files, timings, runs and anomalies of one slice."""
    piece, now = _piece(pipeline, slice_id), pendulum.now("UTC")
    only, start = _only(piece), int(piece.start.timestamp())
    lake, snapshot = open_lake(pipeline), memory.snapshot(pipeline, _only(piece))
    noted, verdict = read_summaries(lake, only), within(read_verdict(lake), only)
    runs = runs_of(session, pipeline, piece.start)
    work = work_of(runs, (start,), pipeline.slice)
    waiting = any(status.state is UnitState.LANDED for status in snapshot.statuses)
    gone = memory.clients.gone(pipeline) if waiting else frozenset()
    landed = {status.unit: status.manifest for status in snapshot.statuses if status.manifest}
    first = first_instant(pipeline, snapshot.boundaries)
    around = OverviewContext(pipeline, work, verdict, first, now, gone=bool(gone))
    hour = next(iter(hours_of(snapshot, noted, around)), None)
    if hour is None:
        raise HTTPException(404, f"slice {slice_id} is before the first hour of every cluster")
    rows = run_rows(session, runs, start)
    return SliceView(
        pipeline=pipeline.name,
        can_start=may_start(user, pipeline.name),
        slice=piece.id,
        start=str(piece.start),
        end=str(piece.end),
        cell=hour.cell,
        running=hour.work.phase if hour.work else "",
        before=Slice(piece.start - piece.length, piece.length).id,
        after=Slice(piece.end, piece.length).id if piece.end <= now else "",
        units=[unit_view(pipeline, status, noted, gone) for status in snapshot.statuses],
        event_hours=event_hours_of(lake, pipeline, piece),
        causes=cause_rows(verdict.anomalies),
        changes=change_rows(changes_of(lake, landed, landed, log.info), additions_in(lake, only)),
        timings=timings_of(piece, _timings(lake, _days(snapshot.statuses, rows))),
        runs=rows,
    )


@slices.get("/pipelines/{pipeline}/slices/{slice_id}/rejected")
def rejected(pipeline: Readable, slice_id: SliceIdPath, payloads: ShownPayloads) -> Samples:
    """A few rejected records of each reason: unparsed ones from the lake, misfits from ClickHouse; of their
    payloads what the caller may see."""
    piece = _piece(pipeline, slice_id)
    found = memory.snapshot(pipeline, _only(piece)).statuses
    manifests = [status.manifest for status in found if status.manifest]
    with connect_shards(pipeline) as servers:
        asked = [server.client for server in servers if server.client]
        misfits = [
            one for client in asked for one in rejected_samples.misfits(client, pipeline, piece, payloads)
        ]
    unparsed = rejected_samples.unparsed(open_lake(pipeline), manifests, payloads)
    return Samples(payloads=payloads, samples=[*unparsed, *misfits])


@slices.get("/pipelines/{pipeline}/slices/{slice_id}/manifests/{cluster}")
def manifest(pipeline: Readable, slice_id: SliceIdPath, cluster: NameQuery) -> Response:
    """The manifest as it is in the lake. 404 where the unit has not landed, 409 for one that is too large."""
    lake, key = open_lake(pipeline), layout.manifest(_piece(pipeline, slice_id).id, cluster)
    size = lake.size(key) if cluster in _clusters(pipeline, lake) else None
    if size is not None and size > MOST_BYTES:
        raise HTTPException(409, f"the manifest has {size:,} bytes: it is {lake.url}/{key}")
    stored = None if size is None else lake.read(key)
    if stored is None:
        raise HTTPException(404, f"{slice_id}/{one_line(cluster)} has no manifest")
    return Response(stored.data, media_type="application/json")


def _clusters(pipeline: Pipeline, lake: Lake) -> frozenset[str]:
    """Also those that the pipeline file no longer has."""
    return memory.of(pipeline).boundaries(lake).clusters | frozenset(pipeline.clusters)


def _piece(pipeline: Pipeline, slice_id: str) -> Slice:
    """Raises WrongUse for what is no id, or of a year that no range can name."""
    piece = Slice.from_id(slice_id, pipeline.slice)
    parse_instant(slice_id, piece.start, pipeline.slice)
    return piece


def _only(piece: Slice) -> SliceRange:
    return SliceRange(piece.start, piece.end, piece.length)


def _days(found: Iterable[UnitStatus], rows: Iterable[RunRow]) -> list[date]:
    """The days on which steps over the slice may have begun: its landing's, and its newest runs'."""
    known = [s.manifest.landed_at for s in found if s.manifest] + [row.started for row in rows]
    days = {utc(datetime.fromisoformat(text)).date() for text in known if text}
    return sorted({day + timedelta(days=more) for day in days for more in (-1, 0, 1)})


def _timings(lake: Lake, days: Iterable[date]) -> list[Timing]:
    return [timing for day in days for timing in of_day(lake, day)]
