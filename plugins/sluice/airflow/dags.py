"""The DAG factory: every pipeline file makes `<name>`, hourly, `<name>_backfill` and `<name>_watch`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pendulum
import structlog
from airflow.sdk import (
    DAG,
    CronDataIntervalTimetable,
    DeltaDataIntervalTimetable,
    chain,
    get_current_context,
    get_parsing_context,
    task,
    task_group,
)
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowSkipException

from sluice.airflow.assets import announce_hours, emit_events, hour_outlets, pipeline_alias
from sluice.airflow.land_operator import LandOperator, RunLink, page_url
from sluice.airflow.metrics import measured, measuring
from sluice.airflow.notifiers import deadline
from sluice.airflow.pipelines import (
    ALL,
    CLUSTER_TASK,
    Selection,
    backfill_dag_id,
    find_pipelines,
    load_task_id,
    note_folder,
    pipelines_of,
    read_pipeline,
    watch_dag_id,
)
from sluice.airflow.retries import extend, final_errors_fail, retries
from sluice.airflow.run_params import backfill_params, from_xcom, mode_of, over_elsewhere, tables_of
from sluice.airflow.tasks import (
    load,
    plan_backfill,
    plan_hour,
    publish,
    resolve,
    resolve_hour,
    settle,
    verify,
    verify_all,
)
from sluice.config.airflow import Channel
from sluice.config.pipeline import CATCH_ALL, Pipeline, Target
from sluice.config.target import Newest
from sluice.errors import WrongUse
from sluice.plan.batches import MAX_ROWS, OLDER_SLICES
from sluice.plan.step_limits import BASE
from sluice.safe_text import line
from sluice.slices import SliceRange

# What Airflow's UI shows as the documentation of a DAG.


def hourly(pipeline: Pipeline) -> str:
    healed = pendulum.duration(seconds=pipeline.lookback.total_seconds()).in_words()
    return f"""\
Lands every hour of **{pipeline.name}** in the lake and loads it into ClickHouse, each record exactly once.

{_pipeline(pipeline)}

A run takes its own hour and whatever is missing of the last {healed}. Then it takes a part of what is missing
of older hours, back to {_first(pipeline)}: at most {OLDER_SLICES} slices and {MAX_ROWS:,} rows, the oldest
first. So the runs catch up after an outage, or when this DAG was paused, while Kafka still has the records.
Records that Kafka has deleted need a decision: `on_expired` in the pipeline file.
[Its page]({page_url(pipeline.name)}) and
`{pipeline.name}_watch` tell of an hour until it is complete. Clearing a task or a run is always safe.
Past hours: `{pipeline.name}_backfill`.
{_clusters(pipeline)}"""


def _first(pipeline: Pipeline) -> str:
    if pipeline.since is None:
        return "the first hour that was ever resolved"
    return f"`start`, {pipeline.since:%Y-%m-%dT%H:%MZ}"


def backfill(pipeline: Pipeline) -> str:
    return f"""\
Does any past range of **{pipeline.name}** (again); overlapping ranges and repeated runs never duplicate.

{_pipeline(pipeline)}

| mode | does |
| --- | --- |
| `fill` | what is missing or stale |
| `reload` | loads ClickHouse again from the lake, and lands what has not landed |
| `reland` | reads Kafka again and replaces the hours in the lake and in ClickHouse, by their own rules |

With `missing_columns` a `reload` takes of what is loaded only what was loaded before a column was added and
may have its field. For experts: `repair` is a `reload` by the rules of each hour's own last load, and
`remake` makes what has landed again out of the lake, by the pipeline file as it is, without Kafka.


[Its page]({page_url(pipeline.name, view="/backfill")}) shows the plan before a start, and each run's steps.
`from` and `to` are widened to whole slices. `tables` names those that are loaded, each with its rollups;
the others keep their rows. Whole hours are verified and published, and none that another table lacks.
`dry_run` logs in the task `plan` what would be done, and stops.
The same from a shell: `sluice backfill {pipeline.name} --from 2026-11-20T00:00Z --to now --wait`
"""


def watch_doc(pipeline: Pipeline) -> str:
    bounds = pipeline.alarms
    channels = "".join(f"\n- {channel.name}" for channel in bounds.notify) or " none, for now."
    every = pendulum.duration(seconds=bounds.every.total_seconds()).in_words()
    healed = pendulum.duration(seconds=pipeline.lookback.total_seconds()).in_words()
    overdue = pendulum.duration(seconds=(pipeline.settle + bounds.overdue).total_seconds()).in_words()
    return f"""\
Observes **{pipeline.name}** every {every} and notifies of a problem
once, and once more when it is over. [Its page]({page_url(pipeline.name)}) shows what is open.

| problem | when |
| --- | --- |
| hour overdue, hour not committed | {overdue} after the hour's end it is not landed, or not in a table |
| table missing | a target table is not there |
| older hours | hours before the last {healed} are not complete |
| retention | Kafka will soon delete an hour that has not landed |
| open transaction | records wait behind a transaction that does not end |
| lag | the newest complete hour, or the records not landed, are beyond a bound |
| partition stands still | no record while the topic's other partitions move |
| anomaly | the last verify of an hour has found a broken equation |
| too few events | an hour brought fewer rows of a type than is usual for it |
| rejects above share | more of an hour's records or rows were rejected than `alarms.rejected` allows |
| field missing | rows have no value for a column, in a larger share than before |
| schema changed | fields of events are new, have vanished, or have another kind: notified once |
| server error, replication queue, parts, disk | ClickHouse is in trouble |
| unavailable | Kafka or ClickHouse does not answer |
| more problems | over 1,000 are open; the others are counted |

Notified channels:{channels}

Bounds and channels are the `alarms:` block of the pipeline file; what is open is in the lake, `_alarms/`.
"""


def _clusters(pipeline: Pipeline) -> str:
    if len(pipeline.clusters) == 1:
        return ""
    return (
        "\nA cluster that is unavailable holds up no other: only its task `cluster[…]` fails, and the next "
        "run brings its hours.\n"
    )


def _pipeline(pipeline: Pipeline) -> str:
    topics = "\n".join(f"| Kafka `{c.cluster}` | {', '.join(c.topics)} |" for c in pipeline.kafka)
    tables = "\n".join(f"| `{target.table}` | {_taken(target)} |" for target in pipeline.targets)
    return f"| from, to | |\n| --- | --- |\n{topics}\n| lake | `{pipeline.lake}` |\n{tables}"


def _taken(target: Target) -> str:
    if isinstance(target.rollup, Newest):
        return f"the newest rows of `{target.rollup.source}`"
    if target.rollup is not None:
        return f"a rollup of `{target.rollup.source}`"
    if target.counted:
        return "traffic counts"
    return ", ".join([*target.types, *([CATCH_ALL] if target.catch_all else [])])


# Before it there was no Kafka; a pipeline without `start` has no earliest slice.
BEFORE_KAFKA = pendulum.datetime(2011, 1, 1)


def pipeline_dags(folder: Path | None = None, selection: Selection = ALL) -> dict[str, DAG]:
    """Returns the DAGs of all sound pipeline files in `folder`, by id; nothing but the files is read.

    In a task's process they are those of its own pipeline. Raises WrongUse for a mistake in that, and for a
    folder that is not there.
    """
    parsed_dag_id = get_parsing_context().dag_id
    files = find_pipelines(
        folder, replace(selection, among=pipelines_of(parsed_dag_id)) if parsed_dag_id else selection
    )
    dags: dict[str, DAG] = {}
    for _, pipeline in files.sound:
        note_folder(pipeline.name, folder)
        for dag in (hourly_dag(pipeline), backfill_dag(pipeline), watch_dag(pipeline)):
            dags[dag.dag_id] = dag
    if files.no_folder or (parsed_dag_id and parsed_dag_id not in dags and files.broken):
        raise WrongUse(files.broken[0][1].public)
    return dags


def hourly_dag(pipeline: Pipeline) -> DAG:
    with DAG(
        pipeline.name,
        schedule=timetable(pipeline.slice, pipeline.airflow.offset),
        max_active_runs=1,
        # One that hangs does not hold up the next one for good.
        dagrun_timeout=timedelta(days=1) + pipeline.settle,
        deadline=deadline(pipeline),
        description=f"Every hour of {pipeline.name}: Kafka to the lake to ClickHouse, each record once",
        doc_md=hourly(pipeline),
        **_common(pipeline),
    ) as dag:
        slices: Any = _linked(_set(plan_hour, pipeline, "plan")(pipeline.name))
        settled = _set(settle, pipeline, "settle")(pipeline.name, slices)
        batches = _set(resolve_hour, pipeline, "resolve")(pipeline.name, slices)
        chain(settled, batches)
        steps = _steps(pipeline, slices, batches)
        if pipeline.keep.forgets:
            steps >> _set(forget, pipeline, "forget")(pipeline.name)
    return dag


def backfill_dag(pipeline: Pipeline) -> DAG:
    with DAG(
        backfill_dag_id(pipeline.name),
        schedule=None,
        max_active_runs=pipeline.airflow.backfills,
        # It runs only when it is triggered, and must then not wait to be unpaused.
        is_paused_upon_creation=False,
        description=f"Any past range of {pipeline.name}, as often as wanted",
        doc_md=backfill(pipeline),
        **_common(pipeline),
    ) as dag:
        slices: Any = _linked(_set(plan_backfill, pipeline, "plan")(pipeline.name))
        _steps(pipeline, slices, _set(resolve, pipeline, "resolve")(pipeline.name, slices))
    # Last: each task would have a copy, which Airflow checks again and again when it serializes the DAG.
    dag.params = ParamsDict(backfill_params(pipeline))
    return dag


def _common(pipeline: Pipeline) -> dict[str, Any]:
    return {
        "start_date": pipeline.since or BEFORE_KAFKA,
        "max_active_tasks": 4,
        "on_failure_callback": callbacks(pipeline),
        **of_dag(pipeline),
    }


def _linked(given: Any) -> Any:
    """Returns what a task gives once it has run; the task links to the page."""
    given.operator.operator_extra_links = (RunLink(),)
    return given


def _set(task: Any, pipeline: Pipeline, step: str, **more: Any) -> Any:
    return task.override(**of_step(pipeline, step), **more)


def _steps(pipeline: Pipeline, slices: Any, batches: Any) -> Any:
    """Returns the group of the batches."""

    @task_group(group_id="batch", tooltip="One Spark application, then one load per table")
    def batch_steps(batch: dict[str, str]) -> None:
        landed = LandOperator(
            task_id="land",
            pipeline=pipeline.name,
            connection=pipeline.spark_connection,
            batch=batch,
            **of_step(pipeline, "land"),
        )
        loads = {
            target.table: _set(load, pipeline, "load", task_id=load_task_id(target.table))(
                pipeline.name, target.table, batch=batch
            )
            for target in pipeline.targets
        }
        verified = _set(verify, pipeline, "verify")(pipeline.name, batch=batch)
        outlets = [pipeline_alias(pipeline.name), *hour_outlets(pipeline)]
        outlet = _set(publish, pipeline, "publish", outlets=outlets)(pipeline.name, batch=batch)
        landed >> [*loads.values(), verified]
        for table, rollup in pipeline.derived.items():
            loads[rollup.source] >> loads[table]
        chain([*loads.values()], verified, outlet) if loads else chain(verified, outlet)

    verification = _set(verify_all, pipeline, "verify_all")(pipeline.name, slices)
    steps = batch_steps.expand(batch=batches)
    steps >> verification
    if len(pipeline.clusters) > 1:
        verification >> catch_up_of_each(pipeline, slices)
    return steps


# Notifies the channels of `airflow.on_failure` of a run that has failed, whatever the cause.
#
# Airflow calls it in its DAG processor, a channel at a time: one that cannot be reached keeps no other from
# its notice, and its error is in that process's log. Of the data's problems the watch notifies.
def callbacks(pipeline: Pipeline) -> list[Callable[[Any], None]] | None:
    """Returns a callback for each channel; None without any, so that Airflow asks for none."""
    return [partial(_notify, pipeline.name, channel) for channel in pipeline.airflow.on_failure] or None


def _notify(pipeline: str, channel: Channel, context: Any) -> None:
    """Raises NotSent."""
    from sluice.watch.notify import send

    send(channel, f"[sluice] {pipeline}: run failed", failure_text(context))


def failure_text(context: Any) -> str:
    """Formats the DAG, its run, Airflow's reason, and the task that Airflow names, where it does."""
    lines = [
        f"DAG {context['dag'].dag_id}, run {context['run_id']}",
        f"reason: {context.get('reason') or 'unknown'}",
    ]
    if task := context.get("ti"):
        number = "" if task.map_index < 0 else f"[{task.map_index}]"
        lines.append(f"last task: {task.task_id}{number}, try {task.try_number}")
    return "\n".join(map(line, lines))


# The `forget` task of the hourly DAG, where the pipeline file has a `keep`.
log = structlog.get_logger(__name__)


# An hour that does not land is no reason to keep old ones, and `verify_all` does not wait for it.
@task(task_id="forget", trigger_rule="all_done")
@final_errors_fail
@measured("forget")
def forget(name: str) -> dict[str, int]:
    """Deletes files of hours that are older than `keep` in the pipeline file says; each is verified before.
    Skipped where nothing is due. A run takes a part of them."""
    from sluice.clients.lake.open import open_lake
    from sluice.flow.forget import forget_hourly

    pipeline, now = read_pipeline(name), pendulum.now("UTC")
    turn = int(get_current_context()["dag_run"].run_after.timestamp() // pipeline.slice.total_seconds())
    forgotten = forget_hourly(pipeline, open_lake(pipeline), turn, now, log.info)
    if forgotten is None:
        raise AirflowSkipException("nothing is due")
    for unit, why in forgotten.waiting.items():
        log.warning("keeps its files for now", unit=str(unit), why=why)
    counts = {"units": len(forgotten.units), "files": forgotten.files, "bytes": forgotten.bytes}
    log.info("forgotten", **counts, waiting=len(forgotten.waiting))
    return counts


# When the scheduler makes the hourly DAG's runs: at the end of each slice, and `offset` after it. Pure.
_MINUTE = timedelta(minutes=1)
_HOUR, _DAY = 60, 1440


def cron(length: timedelta, offset: timedelta = timedelta(0)) -> str | None:
    """Returns the cron expression of a slice length, or None for 45 and 90 minutes, which have none.

    15m: `*/15 * * * *`. 1h and 5m after it: `5 * * * *`. 6h and 70m: `10 1-23/6 * * *`.
    """
    minutes, (hours, late) = length // _MINUTE, divmod(offset // _MINUTE, _HOUR)
    if _HOUR % minutes == 0:
        return f"{late if minutes == _HOUR else _every(minutes, late, _HOUR)} * * * *"
    if minutes % _HOUR == 0:
        return f"{late} {hours if minutes == _DAY else _every(minutes // _HOUR, hours, 24)} * * *"
    return None


def _every(step: int, first: int, most: int) -> str:
    return f"{first}-{most - 1}/{step}" if first else f"*/{step}"


def timetable(
    length: timedelta, offset: timedelta = timedelta(0)
) -> CronDataIntervalTimetable | DeltaDataIntervalTimetable:
    """Returns the timetable: a cron string alone would give data intervals of zero width. Intervals with an
    offset are later than the slice by it, and `scheduled_slices` rounds them down.

    Without catch-up the delta timetable rounds to multiples of its delta since the epoch, as slices do.
    """
    expression = cron(length, offset)
    if expression is None:
        return DeltaDataIntervalTimetable(length)
    return CronDataIntervalTimetable(expression, timezone="UTC")


# The `cluster` tasks: one for each cluster of a pipeline that has several, after all that needs no more
# than the others. The graph shows which of them a run did without, and only there it is tried again.
DOC = """\
Has everything landed from this cluster? If not, it is tried once more: landed, loaded, verified and
published by this task alone. A cluster that is still unavailable fails here, with what is missing of it;
the other clusters' hours are done, and the next run catches up. Safe to clear at any time."""


CLUSTER_NAME = "{{ task.cluster }}"


class CatchUp(LandOperator):
    """`batch` is the whole range of the run; `cluster` what it is mapped over."""

    template_fields = ("batch", "cluster")

    def __init__(self, *, cluster: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.map_index_template = CLUSTER_NAME
        self.cluster = cluster

    @final_errors_fail
    def execute(self, context: Any) -> None:
        """Raises ClusterWaits (AirflowFailException where it is permanent), and what the steps raise."""
        from sluice.flow.batch_loop import catch_up

        pipeline, mode = read_pipeline(self.pipeline), mode_of(context["params"])
        slices = from_xcom(self.batch, pipeline.slice)
        extend(pipeline, "cluster", slices, context)

        def land(batch: SliceRange) -> int:
            return self._land(pipeline, batch, context, cluster=self.cluster)

        with measuring(pipeline.name, "cluster"), over_elsewhere():
            published = catch_up(
                pipeline,
                self.cluster,
                slices,
                mode,
                context["run_id"],
                land,
                self.log.info,
                tables=tables_of(pipeline, context["params"]),
            )
        emit_events(pipeline.name, published, context["outlet_events"])
        announce_hours(pipeline, published, context)


def catch_up_of_each(pipeline: Pipeline, slices: Any) -> MappedOperator:
    """Airflow shows them as `cluster[dc1]`, `cluster[dc2]`."""
    return CatchUp.partial(
        task_id=CLUSTER_TASK,
        pipeline=pipeline.name,
        connection=pipeline.spark_connection,
        batch=slices,
        outlets=[pipeline_alias(pipeline.name), *hour_outlets(pipeline)],
        trigger_rule="none_failed",
        max_active_tis_per_dag=1,
        map_index_template=CLUSTER_NAME,
        doc_md=DOC,
        **of_step(pipeline, "cluster"),
    ).expand(cluster=list(pipeline.clusters))


# The DAG `<name>_watch`: observes the pipeline every few minutes, notifies channels and sets watch.
START = pendulum.datetime(2026, 1, 1)


def watch_dag(pipeline: Pipeline) -> DAG:
    """Returns the DAG. It starts no Spark, and writes to the lake no more than alarms (`_alarms/`), lag
    (`_history/`) and what a verify writes."""
    minutes = int(pipeline.alarms.every.total_seconds()) // 60
    with DAG(
        watch_dag_id(pipeline.name),
        schedule=f"*/{minutes} * * * *",
        start_date=START,
        max_active_runs=1,
        dagrun_timeout=pendulum.duration(minutes=max(10, 2 * minutes)),
        **of_dag(pipeline, "watch"),
        description=f"Notifies channels of the problems of {pipeline.name}, and of their end",
        doc_md=watch_doc(pipeline),
    ) as dag:
        _linked(watch.override(**of_step(pipeline, "watch"), retries=0)(pipeline.name))
    return dag


@task
@final_errors_fail
@measured("watch")
def watch(name: str) -> dict[str, int]:
    """Observes the pipeline and notifies each channel of `alarms.notify` of problems that are new or over.
    Notified channels are stored in the lake, so that none is notified twice."""
    from sluice.clients.lake.open import open_lake
    from sluice.metrics.meter import emit
    from sluice.watch import watch
    from sluice.watch.notify import send
    from sluice.watch.watch import watch as observe_and_notify

    pipeline, now = read_pipeline(name), pendulum.now("UTC")
    lake = open_lake(pipeline)
    watched = observe_and_notify(pipeline, lake, now, send)
    emit(watch.watched(pipeline, watched, lake.url, now))
    for problem in watched.problems:
        log.warning(line(problem.message), problem=str(problem.kind), place=line(problem.place))
    for channel, (new, over) in watched.sent.items():
        log.info("notified", channel=channel, new=new, over=over)
    log.info("watched", slices=str(watched.observation.slices), problems=len(watched.problems))
    watched.refuse_unsent()
    return {"problems": len(watched.problems), "notified": len(watched.sent)}


# What the pipeline file's `airflow` block gives to DAGs and tasks, in Airflow's words. Pure.
def of_dag(pipeline: Pipeline, *tags: str) -> dict[str, Any]:
    """Returns the settings that all DAGs of the pipeline have."""
    settings = pipeline.airflow
    roles = {role: set(rights) for role, rights in settings.access_control.items()}
    return {
        "catchup": False,
        "default_args": {"owner": settings.owner, **retries(settings.retries, settings.retry_delay)},
        "tags": ["sluice", pipeline.name, *tags, *settings.tags],
        "access_control": roles or None,
    }


def of_step(pipeline: Pipeline, step: str) -> dict[str, Any]:
    """Returns the settings of each task of a step. Without a queue of its own it gets Airflow's. The step
    itself extends the timeout that `auto` gives it (retries.py)."""
    settings = pipeline.airflow.of(step)
    limit = BASE if settings.timeout == "auto" else None
    return {
        "pool": settings.pool,
        "priority_weight": settings.priority,
        "execution_timeout": settings.timeout if isinstance(settings.timeout, timedelta) else limit,
        **({"queue": settings.queue} if settings.queue else {}),
    }
