"""`sluice run`: the same steps as the DAGs, in this process, without Airflow."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pendulum
import typer

from sluice.cli.options import (
    Config,
    DayOption,
    From,
    Json,
    MissingColumns,
    ModeOption,
    PipelineArgument,
    TableOption,
    To,
    Verbose,
    Wide,
    YesOption,
    asked_range,
    check_mode,
    load_pipeline,
    refuse_yes,
    tables_of,
    user_name,
)
from sluice.cli.output import print_json, progress
from sluice.cli.status import as_json, marked, show_run
from sluice.clients.kafka.topic_facts import TopicsOf
from sluice.clients.kafka.topics import open_topics
from sluice.clients.lake.open import open_lake
from sluice.config.files import find
from sluice.config.pipeline import Cluster, Pipeline, Tables
from sluice.errors import Refused, SluiceError, Unavailable, WrongUse
from sluice.infer.values import far_instants
from sluice.plan.modes import MISSING_COLUMNS
from sluice.plan.plan import waiting, work_of
from sluice.slices import SliceRange, to_ms
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries
from sluice.state.boundaries.outside import outside
from sluice.state.notes import last_load, newest, noted_command
from sluice.state.row_balance import rejected_by_reason
from sluice.state.status import UnitStatus
from sluice.state.units import known_topics

if TYPE_CHECKING:
    from sluice.flow.batch_loop import LandBatch, Landings
    from sluice.flow.land.submit import Running, SubmitSpec


_ROUNDS = 5
_LOOK_SECONDS = 60.0
_MOST_OUTSIDE = 10_000  # slices on each side of a range whose manifests are read

Backfill = Annotated[
    bool,
    typer.Option(
        "--backfill",
        help="Then load again the slices that were loaded before `evolve: add` added a column, and may have "
        "its field. Slices outside of the range are named with their command.",
    ),
]
Lookback = Annotated[
    bool,
    typer.Option(
        "--lookback",
        help="Instead of a range: what a run of the hourly DAG does now. It waits until the newest slice has "
        "settled, does what is missing back to `lookback` and a part of what is older, and forgets as `keep` "
        "says.",
    ),
]


def run(
    pipeline: PipelineArgument,
    start: From = None,
    to: To = None,
    day: DayOption = None,
    lookback: Lookback = False,
    mode: ModeOption = "fill",
    missing_columns: MissingColumns = False,
    table: TableOption = None,
    backfill: Backfill = False,
    yes: YesOption = False,
    wide: Wide = False,
    verbose: Verbose = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Resolves, lands, loads and verifies [A, B) in this process; it starts Spark itself.

    Whatever is already done is skipped (mode fill); stopping it at any moment and starting it again
    continues. One of several clusters that does not answer does not hold up the others; the exit code is 3
    then. --table chooses what is loaded: the range is landed, verified and published for all tables.
    Example: sluice run adx --from 2026-11-20T10:00Z --to 2026-11-20T14:00Z
    """
    spec = load_pipeline(pipeline, config)
    mode = check_mode(mode, missing_columns)
    if lookback:
        if start or to or day or mode != "fill" or table or backfill or yes:
            raise WrongUse("--lookback does what the hourly DAG does: leave out hours, modes and tables")
        _run_hour(spec, find(pipeline, config), wide, verbose, json)
        return
    slices = asked_range(spec, start, to, day)
    tables, token = tables_of(spec, table, mode), uuid.uuid4().hex
    if backfill and mode != "fill":
        raise WrongUse(f"--backfill is for --mode fill, and {mode} loads more than it: leave one of them out")
    refuse_yes(yes, mode)
    from sluice.flow.steps import refuse_rejected

    path = find(pipeline, config)
    with _reported(spec, slices), _noted(spec, slices, mode, token, tables):
        statuses, silent = _steps(spec, path, slices, mode, token, tables, yes)
        if backfill:
            statuses = _filled(spec, path, slices, tables) or statuses
            _tell_outside(spec, slices, tables)
        statuses = marked(spec, statuses)
        _show(spec, slices, statuses, wide, verbose, json)
        refuse_missing(spec, statuses, mode, token, silent)
        refuse_rejected(spec, slices)


def _show(
    spec: Pipeline, slices: SliceRange, statuses: list[UnitStatus], wide: bool, verbose: bool, json: bool
) -> None:
    if json:
        units = [as_json(spec, status) for status in statuses]
        print_json({"pipeline": spec.name, "rejected": rejected_by_reason(statuses), "units": units})
    else:
        show_run(spec, statuses, f"{spec.name} {slices}", wide, verbose)
    _tell_far_times(spec, statuses)


def _run_hour(spec: Pipeline, path: Path, wide: bool, verbose: bool, json: bool) -> None:
    from sluice.flow.hourly import newest_slices, run_hour
    from sluice.flow.steps import settled_at

    slices, token = newest_slices(spec, pendulum.now("UTC")), uuid.uuid4().hex
    if spec.since is not None and slices.start < spec.since:
        progress(f"nothing to do: the first slice begins at `start`, {spec.since:%Y-%m-%dT%H:%MZ}")
        return
    ready = settled_at(spec, slices)
    while (seconds := (ready - pendulum.now("UTC")).total_seconds()) > 0:
        progress(f"waiting until {ready:%Y-%m-%dT%H:%M:%SZ} for records that are on their way (`settle`)")
        time.sleep(min(seconds, _LOOK_SECONDS))
    with _reported(spec, slices), _noted(spec, slices, "fill", token, None):
        lands, alone = landings(spec, path, "fill", token), partial(_land_alone, spec, path, token)
        ran = run_hour(spec, path, slices, token, lands, alone, progress)
        if ran.code:
            raise typer.Exit(ran.code)
        _show(spec, slices, marked(spec, ran.statuses), wide, verbose, json)


def _tell_far_times(spec: Pipeline, statuses: Sequence[UnitStatus]) -> None:
    """Says it where all times are decades away: of what has landed, and of what lies before all slices."""
    from sluice.plan.lag import far_rows

    for line in (far_rows(spec, statuses), far_outside(spec)):
        if line:
            progress(line)


@contextmanager
def _reported(spec: Pipeline, slices: SliceRange) -> Iterator[None]:
    """Reports the run and its steps to OpenLineage, where that is configured."""
    from sluice.flow.lineage import command, from_environment, listening

    with listening(from_environment), command(spec, slices):
        yield


def _noted(
    spec: Pipeline, slices: SliceRange, mode: str, token: str, tables: Tables | None
) -> AbstractContextManager[None]:
    """Notes the command for the page's list of runs."""
    chosen = ", ".join(sorted(tables or ()))
    return noted_command(open_lake(spec), slices, user_name(), mode=mode, run=token, table=chosen)


def _filled(spec: Pipeline, path: Path, slices: SliceRange, tables: Tables | None) -> list[UnitStatus]:
    """Loads again what was loaded before a column was added. A slice that is loaded again may have columns
    added, too: those of earlier ones come with the next round."""
    from sluice.flow.verify.facts import narrowed
    from sluice.state.survey import survey

    statuses: list[UnitStatus] = []
    for _ in range(_ROUNDS):
        again = [status for status in narrowed(spec, survey(spec, slices), tables) if status.later]
        if not again:
            break
        progress(f"{len(again):,} slices were loaded before columns were added that their rows may have")
        statuses, _silent = _steps(spec, path, slices, MISSING_COLUMNS, uuid.uuid4().hex, tables)
    return statuses


def _tell_outside(spec: Pipeline, slices: SliceRange, tables: Tables | None) -> None:
    """Names the command for landed slices outside of the range that lack columns."""
    from sluice.clients.lake.open import open_lake
    from sluice.flow.verify.facts import narrowed
    from sluice.flow.verify.repairs import Repairs
    from sluice.state.additions import read_additions
    from sluice.state.manifests import landed_span
    from sluice.state.survey import survey

    lake = open_lake(spec)
    span = landed_span(lake, spec.slice) if read_additions(lake) else None
    if span is None:
        return
    near = _MOST_OUTSIDE * spec.slice
    start, end = max(span[0], slices.start - near), min(span[1], slices.end + near)
    around = [] if start >= end else survey(spec, SliceRange.widen(start, end, spec.slice))
    statuses = narrowed(spec, around, tables)
    lacking = {status.unit.slice for status in statuses if status.later}
    if outside := sorted(slice_ for slice_ in lacking if not slices.start <= slice_.start < slices.end):
        command = Repairs.of(spec).run(outside, MISSING_COLUMNS)
        progress(f"{len(outside):,} slices outside of the range lack columns that were added: {command}")


def _steps(
    spec: Pipeline,
    path: Path,
    slices: SliceRange,
    mode: str,
    token: str,
    tables: Tables | None,
    accept_loss: bool = False,
) -> tuple[list[UnitStatus], Mapping[str, SluiceError]]:
    """Returns the units as they are then, and the errors of clusters that did not answer, while others
    did."""
    from sluice.flow import steps
    from sluice.flow.batch_loop import resolve_and_note, run_work
    from sluice.flow.verify.causes import lacked_elsewhere, not_published

    silent = resolve_and_note(spec, path, slices, progress)
    steps.check_targets(spec, tables)
    work = steps.work_in(spec, slices, mode, tables)
    if not work.batches:
        others = ", or waits for its cluster" if silent else ""
        by = last_load(newest(open_lake(spec), pendulum.now("UTC")), slices)
        progress("; ".join(filter(None, (f"nothing to do: every slice is complete{others}", by))))
    lands = landings(spec, path, mode, token, accept_loss)
    ran = run_work(spec, slices, work, mode, token, lands, progress, tables)
    if ran.code:
        raise typer.Exit(ran.code)
    lacked = lacked_elsewhere(spec, ran.statuses, tables)
    if said := not_published(spec, lacked):
        progress(said)
    return ran.statuses, silent


def refuse_missing(
    spec: Pipeline,
    statuses: Sequence[UnitStatus],
    mode: str,
    token: str,
    silent: Mapping[str, SluiceError] | None = None,
) -> None:
    """Raises ClusterWaits for the first cluster of which something has not landed; prints the others.

    `silent` says why clusters could not be resolved; one that went away later is asked again.
    """
    from sluice.clients.kafka.topics import probe_clusters

    left, unresolved = waiting(spec, statuses, mode, token), silent or {}
    causes = {
        **unresolved,
        **probe_clusters(spec, [part.cluster for part in left if part.cluster not in unresolved]),
    }
    errors = [part.error(spec, causes[part.cluster], mode) for part in left]
    for error in errors[1:]:
        progress(str(error))
    if errors:
        raise errors[0]


# What spark_jobs/land.py exits with when the error is retryable.
_TEMPORARY = 75


def landings(spec: Pipeline, path: Path, mode: str, token: str, accept_loss: bool = False) -> Landings:
    """Returns the landings of a run. Each gives the exit code of its application, which prints its own errors
    on stderr."""
    from sluice.flow import steps
    from sluice.flow.batch_loop import one_ahead
    from sluice.flow.land.submit import Running

    running = Running()

    def land(batch: SliceRange) -> int:
        submit = partial(_submit, running)
        return steps.land_range(spec, path, batch, mode, token, submit, accept_loss=accept_loss)

    return partial(one_ahead, land, running.stop)


def _submit(running: Running, job: SubmitSpec) -> int:
    from sluice.flow.land.submit import run_locally

    code = run_locally(job, progress, running)
    return Unavailable.exit_code if code == _TEMPORARY else code


def _land_alone(spec: Pipeline, path: Path, token: str, cluster: str) -> LandBatch:
    """Returns what lands a batch of one cluster; it raises where that has failed."""
    from sluice.flow import steps
    from sluice.flow.land.submit import Running

    def land(batch: SliceRange) -> int:
        submit = partial(_submit, Running())
        code = steps.land_range(spec, path, batch, "fill", token, submit, cluster=cluster)
        if code:
            error = Unavailable if code == Unavailable.exit_code else Refused
            raise error(f"cluster {cluster}: {batch} has not landed; the landing has said why")
        return code

    return land


def run_units(
    spec: Pipeline, statuses: Sequence[UnitStatus], mode: str, tables: Tables | None = None
) -> list[SluiceError]:
    """Loads these units, which have landed, and no other; verifies and publishes. Returns what verify finds
    wrong, or not complete. Raises what loads raise."""
    from sluice.flow.batch_loop import landed_before, run_batches, verify_chosen

    units, token = frozenset(status.unit for status in statuses), uuid.uuid4().hex
    work = work_of(statuses, mode)
    run_batches(spec, work, mode, token, landed_before, progress, tables, only=units)
    return verify_chosen(spec, units, progress, tables)


# Looks at a record of each topic that lies before its first boundary: where it is stamped decades ago,
# who published it read its time in another unit.


def far_outside(pipeline: Pipeline, topics_of: TopicsOf = open_topics) -> str:
    """Returns a line on the first such record; empty where there is none, or a cluster does not answer."""
    if pipeline.event.time.record:
        return ""
    boundaries = BoundaryLog(open_lake(pipeline)).read()
    for cluster in pipeline.kafka:
        try:
            if line := _of_cluster(pipeline, cluster, boundaries, topics_of):
                return line
        except SluiceError:  # the run has said what it has to say of the cluster
            continue
    return ""


def _of_cluster(pipeline: Pipeline, cluster: Cluster, boundaries: Boundaries, topics_of: TopicsOf) -> str:
    known = known_topics(cluster, boundaries)
    topics = [topic for topic in known if outside(boundaries, cluster.cluster, topic)]
    if not topics:
        return ""
    now = to_ms(pendulum.now("UTC"))
    with topics_of(cluster) as reader:
        for topic in topics:
            log_starts = reader.describe(topic).log_starts
            for part in outside(boundaries, cluster.cluster, topic, log_starts)[:1]:
                records = reader.records(topic, part.partition, part.start, part.until)
                stamp = next((at for _, at in islice(records, 1)), -1)
                line = far_instants(pipeline.event.time, stamp, stamp, now) if stamp >= 0 else ""
                if line:
                    return f"records of {part.name} before the first boundary: {line}"
    return ""
