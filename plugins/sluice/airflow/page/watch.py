"""What the watch knows of a pipeline: its open problems, and whether it is watching at all."""

from __future__ import annotations

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from sluice.airflow.page.tasks import text_of
from sluice.airflow.pipelines import watch_dag_id
from sluice.alarms.store import AlarmStore
from sluice.lake.open import open_lake
from sluice.page.models import ProblemRow, Problems
from sluice.pipeline import Pipeline


def problems_of(session: Session, pipeline: Pipeline) -> Problems:
    """The oldest first."""
    dag_id = watch_dag_id(pipeline.name)
    alarms = AlarmStore(open_lake(pipeline)).read().alarms.values()
    found = [
        ProblemRow(kind=str(a.problem.kind), place=a.problem.place, message=a.problem.message, since=a.since)
        for a in alarms
        if not a.over
    ]
    last = session.scalar(select(func.max(DagRun.start_date)).where(DagRun.dag_id == dag_id))
    paused = session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag_id))
    return Problems(
        problems=sorted(found, key=lambda row: (row.since, row.kind, row.place)),
        watched=text_of(last),
        paused=paused is not False,
        watch_dag=dag_id,
    )
