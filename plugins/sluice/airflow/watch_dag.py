"""The DAG `<name>_watch`: observes the pipeline every few minutes, notifies channels and sets gauges."""

from __future__ import annotations

import pendulum
import structlog
from airflow.sdk import DAG, task

from sluice.airflow import doc_md
from sluice.airflow.dag_settings import of_dag, of_step
from sluice.airflow.metrics import measured
from sluice.airflow.pipelines import read_pipeline, watch_dag_id
from sluice.airflow.retries import final_errors_fail
from sluice.config.pipeline import Pipeline
from sluice.safe_text import line

log = structlog.get_logger(__name__)

START = pendulum.datetime(2026, 1, 1)


def watch_dag(pipeline: Pipeline) -> DAG:
    """Returns the DAG. It starts no Spark, and writes nothing but `_alarms/` and `_history/lag.json` in the
    lake."""
    minutes = int(pipeline.alarms.every.total_seconds()) // 60
    with DAG(
        watch_dag_id(pipeline.name),
        schedule=f"*/{minutes} * * * *",
        start_date=START,
        max_active_runs=1,
        dagrun_timeout=pendulum.duration(minutes=max(10, 2 * minutes)),
        **of_dag(pipeline, "watch"),
        description=f"Notifies channels of the problems of {pipeline.name}, and of their end",
        doc_md=doc_md.watch(pipeline),
    ) as dag:
        watch.override(**of_step(pipeline, "watch"), retries=0)(pipeline.name)
    return dag


@task
@final_errors_fail
@measured("watch")
def watch(name: str) -> dict[str, int]:
    """Observes the pipeline and notifies each channel of `alarms.notify` of problems that are new or over.
    Notified channels are stored in the lake, so that none is notified twice."""
    from sluice.airflow.notifiers import send
    from sluice.clients.lake.open import open_lake
    from sluice.metrics.sink import emit
    from sluice.watch import gauges
    from sluice.watch.watch import watch as observe_and_notify

    pipeline, now = read_pipeline(name), pendulum.now("UTC")
    lake = open_lake(pipeline)
    watched = observe_and_notify(pipeline, lake, now, send)
    emit(gauges.watched(pipeline, watched, lake.url, now))
    for problem in watched.problems:
        log.warning(line(problem.message), problem=str(problem.kind), place=line(problem.place))
    for channel, (new, over) in watched.sent.items():
        log.info("notified", channel=channel, new=new, over=over)
    log.info("watched", slices=str(watched.observation.slices), problems=len(watched.problems))
    return {"problems": len(watched.problems), "notified": len(watched.sent)}
