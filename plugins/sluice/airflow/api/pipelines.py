"""Endpoints of the overview, and of a backfill: its plan and its progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Annotated

import pendulum
import structlog
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from fastapi import APIRouter, Path, Query, Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from sluice.airflow.api.access import (
    MOST_NAME,
    Readable,
    Startable,
    Turn,
    may_edit,
    may_read,
    may_start,
    one_line,
)
from sluice.airflow.api.runs import progress_of, runs_of, startup_of_backfills, works_of
from sluice.airflow.pipelines import backfill_dag_id, find_pipelines, watch_dag_id
from sluice.airflow.run_params import refuse_future, requested_slices
from sluice.clients.lake.open import brief_lake
from sluice.config.pipeline import Pipeline, tables_for
from sluice.errors import WrongPipeline
from sluice.flow.verify.causes import broken_units
from sluice.flow.verify.verdict import read_verdict
from sluice.page import models
from sluice.page import plan as planning
from sluice.page.findings import by_need
from sluice.page.plan import PlanAsked, PlanView
from sluice.page.rows import RequestedRange, Schedule, legend, rows_of
from sluice.page.run_history import ProgressView
from sluice.page.status_cache import StatusCache
from sluice.slices import SliceRange, iso
from sluice.state import departed_tables

log = structlog.get_logger(__name__)
pipelines = APIRouter()
memory = StatusCache()

Start = Annotated[str, Query(alias="from", max_length=40)]
EndQuery = Annotated[str, Query(alias="to", max_length=40)]
RunId = Annotated[str, Query(max_length=MOST_NAME)]


def sound() -> list[Pipeline]:
    """Returns the pipelines whose files can be read."""
    return [pipeline for _, pipeline in find_pipelines().sound]


@pipelines.get("/overview")
def overview(user: GetUserDep, session: SessionDep, start: Start, _: Turn, end: EndQuery = "now") -> Response:
    """Answers `models.Overview` of every pipeline that the caller may read, over `[from, to)`; `now` as an
    end includes the open hour.

    A year has thousands of cells: what is 0 or empty in them is left out, and nothing is validated twice."""
    files = find_pipelines()
    requested = RequestedRange.of(start, end, pendulum.now("UTC"))
    mine = [pipeline for _, pipeline in files.sound if may_read(user, pipeline.name)]
    runs = {p.name: runs_of(session, p, requested.start) for p in mine}
    rows = [
        row.model_copy(update=_start_of(user, pipeline))
        for row, pipeline in zip(
            rows_of(memory, mine, requested, runs, schedules_of(session, mine)), mine, strict=True
        )
    ]
    view = models.Overview(
        now=iso(requested.now),
        start=requested.start.isoformat(),
        end=requested.end.isoformat(),
        zoom=requested.zoom,
        user=user.get_name(),
        legend=legend(),
        pipelines=by_need(rows),
        broken_files=_mistakes(user, files.broken),
    )
    return Response(view.model_dump_json(exclude_defaults=True), media_type="application/json")


def _mistakes(user: BaseUser, broken: Iterable[tuple[str, WrongPipeline]]) -> list[str]:
    """Returns a line for each mistake that the caller may correct, and one that counts the others."""
    lines = [one_line(e.public) if not name or may_edit(user, one_line(name)) else "" for name, e in broken]
    others = lines.count("")
    counted = f"{others:,} other pipeline {'file is' if others == 1 else 'files are'} wrong"
    return [*dict.fromkeys(filter(None, lines)), *([counted] if others else [])]


def _start_of(user: BaseUser, pipeline: Pipeline) -> dict[str, object]:
    if not may_start(user, pipeline.name):
        return {"can_start": False}
    return {"can_start": True, "tables": [target.table for target in pipeline.targets]}


def schedules_of(session: Session, mine: list[Pipeline]) -> dict[str, Schedule]:
    """Returns by pipeline what Airflow runs by itself."""
    names = {dag_id for pipeline in mine for dag_id in (pipeline.name, watch_dag_id(pipeline.name))}
    columns = DagModel.dag_id, DagModel.is_paused, DagModel.next_dagrun_create_after
    statement = select(*columns).where(DagModel.dag_id.in_(names))
    dags = {dag_id: (bool(paused), iso(after)) for dag_id, paused, after in session.execute(statement)}
    return {pipeline.name: _schedule(dags, pipeline.name) for pipeline in mine}


def _schedule(dags: dict[str, tuple[bool, str]], name: str) -> Schedule:
    watch_paused, _ = dags.get(watch_dag_id(name), (True, ""))
    paused, after = dags.get(name, (None, ""))
    return Schedule(paused, "" if paused else after, watched=not watch_paused)


@pipelines.post("/pipelines/{pipeline}/plan")
def plan(pipeline: Startable, asked: PlanAsked, session: SessionDep) -> PlanView:
    """Answers what a backfill would do, how long it would take, and what is in its way. Asks Kafka and
    changes nothing."""
    from sluice.flow.steps import dry_run
    from sluice.watch.obstacles import at_work_lines, read_obstacles

    now = pendulum.now("UTC")
    slices = refuse_future(requested_slices(asked.start, asked.end, now, pipeline.slice), now)
    mode = planning.check(asked, slices)
    tables = tables_for(pipeline, asked.tables, mode)
    dry = dry_run(pipeline, slices, mode, tables)
    lake, works = brief_lake(pipeline), works_of(session, pipeline)
    anomalies = read_verdict(lake).anomalies
    obstacles = [
        *_unscheduled(session, pipeline),
        *at_work_lines(works, slices, now),
        *read_obstacles(pipeline, slices, tables, now, lake),
        *planning.left_broken(dry, anomalies),
    ]
    time = dry.time.with_startup(startup_of_backfills(session, pipeline))
    broken = broken_units(anomalies)
    plan = planning.plan_view(pipeline, slices, replace(dry, obstacles=obstacles, time=time), tables, broken)
    more = asked.model_dump(include={"mode", "missing_columns", "tables"})
    at_work = [one.run for one in works if one.run and one.touches(slices)]
    return plan.model_copy(update={"dag_id": backfill_dag_id(pipeline.name), "at_work": at_work, **more})


class Recreated(models.Model):
    """How many servers lacked the table."""

    servers: int


@pipelines.post("/pipelines/{pipeline}/tables/{table}")
def recreate(
    pipeline: Startable, table: Annotated[str, Path(max_length=MOST_NAME)], user: GetUserDep
) -> Recreated:
    """Creates a table of the pipeline that is missing in ClickHouse, as it was at its last load."""
    servers = departed_tables.recreate(pipeline, table)
    log.info("table created again", table=table, servers=servers, user=user.get_name())
    return Recreated(servers=servers)


def _unscheduled(session: Session, pipeline: Pipeline) -> list[str]:
    """Returns why Airflow would start no task of a backfill; nothing where it would."""
    from sluice.watch.obstacles import Stops

    dag_id = backfill_dag_id(pipeline.name)
    paused = session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag_id))
    if paused is None:
        return [Stops(f"DAG {dag_id} is not in Airflow: `airflow dags list-import-errors` says why")]
    return [f"DAG {dag_id} is paused: a start on this page unpauses it"] if paused else []


@pipelines.get("/pipelines/{pipeline}/progress")
def progress(pipeline: Readable, session: SessionDep, run: RunId) -> ProgressView:
    """Answers how far a run of the backfill DAG is. 404 when there is no such run."""
    return progress_of(session, pipeline, run, partial(_cells_in, session, pipeline))


def _cells_in(session: Session, pipeline: Pipeline, slices: SliceRange) -> Counter[str]:
    """Returns how many slices have each state, as the overview of the range shows them; none where the
    overview has none, either."""
    requested = RequestedRange(slices.start, slices.end, pendulum.now("UTC"))
    runs = {pipeline.name: runs_of(session, pipeline, slices.start)}
    (row,) = rows_of(memory, [pipeline], requested, runs, schedules_of(session, [pipeline]))
    found: Counter[str] = Counter()
    for cell in row.cells:
        found.update(cell.counts or {str(cell.cell): 1})
    return found
