"""One run of the watch: observes a pipeline and notifies its channels. Delivery is at least once."""

from __future__ import annotations

import logging
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import pendulum

from sluice.clients.lake.base import Lake
from sluice.config.airflow import Channel
from sluice.config.pipeline import Pipeline
from sluice.errors import LakeUnavailable, NotSent, SluiceError
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.causes import causes_of
from sluice.flow.verify.facts import lacking, targets_of
from sluice.metrics.meter import MetricSample, sample
from sluice.plan.backlog import Backlog
from sluice.plan.due import FirstForgotten
from sluice.safe_text import line
from sluice.slices import utc
from sluice.state.lease import Lease
from sluice.state.notes import note_lag
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from sluice.state.units import known_topics
from sluice.watch import problems, rules
from sluice.watch.expected import RowHistory, expected, habit_of, keep
from sluice.watch.look import look
from sluice.watch.observe import (
    FOR_EVER_SECONDS,
    WATCHED,
    Observation,
    log_starts,
    observe,
    retention,
    server_problems,
    threats,
    watched_range,
)
from sluice.watch.problems import (
    AlarmStore,
    LogStart,
    Looked,
    Notice,
    Problem,
    ProblemKind,
    ProblemSource,
    WatchState,
    bounded,
    decide,
    first_judged,
    forget,
    kept_open,
    pending,
    to_judge,
    with_notified,
)

# The gauges of one run of the watch. A gauge that is no longer set keeps its last value, so those of
# labels that are known are set also where they are 0.

MOST_PARTITIONS = 200


def watched(pipeline: Pipeline, outcome: Watched, lake_url: str, now: datetime) -> Iterator[MetricSample]:
    """Yields every gauge of one run of the watch, of which `outcome` is the result."""
    observation, name = outcome.observation, pipeline.name
    yield sample("watch_runs", 1, pipeline=name)
    yield from _hours(pipeline, observation, outcome.log_starts, now)
    yield from _partitions(name, observation)
    yield from _wrong(name, outcome, now)
    yield from _server(pipeline, observation)
    yield from newest_slices(pipeline, observation)
    yield sample("causes_open", len(causes_of(observation.verdict.anomalies)), pipeline=name)
    if lake_url.startswith("file://") and (folder := Path(lake_url.removeprefix("file://"))).exists():
        yield sample("lake_free_bytes", shutil.disk_usage(folder).free, pipeline=name)


def _hours(
    pipeline: Pipeline, observation: Observation, earlier: Mapping[str, LogStart], now: datetime
) -> Iterator[MetricSample]:
    name, statuses = pipeline.name, observation.statuses
    states = Counter(str(status.state) for status in statuses)
    for state in UnitState:
        yield sample("units_in_state", states[str(state)], pipeline=name, state=state)
    lost = sum(state is UnitState.EXPIRED for state in observation.older.states.values())
    yield sample("units_expired", states[str(UnitState.EXPIRED)] + lost, pipeline=name)
    yield sample("boundary_entries", observation.boundaries.entries, pipeline=name)
    deletions = [
        threat.at for threat in threats((*observation.oldest, *statuses), observation.topics, earlier, now)
    ]
    if deletions or ProblemSource.KAFKA not in observation.silent:
        left = (min(deletions) - now).total_seconds() if deletions else FOR_EVER_SECONDS
        yield sample("retention_seconds_left", left, pipeline=name)
    if observation.server is not None:
        yield from _complete(pipeline, statuses, observation.older, now)
    landed = [status for status in statuses if status.manifest is not None]
    if landed:
        newest = max(s.unit.slice.end for s in landed)
        yield sample("newest_landed_timestamp", newest.timestamp(), pipeline=name)
    for status in _newest(landed):
        rows = sum(status.manifest.rows_by_type().values()) if status.manifest else 0
        yield sample("rows_per_slice", rows, pipeline=name, cluster=status.unit.cluster)


def _complete(
    pipeline: Pipeline, statuses: Sequence[UnitStatus], older: Backlog, now: datetime
) -> Iterator[MetricSample]:
    """Yields the gauges that need the ledger."""
    name = pipeline.name
    open_slices = {s.unit.slice for s in statuses if not s.state.done and s.state is not UnitState.NOT_OVER}
    yield sample("hours_behind", len(open_slices) + len(older.slices), pipeline=name)
    done = [s.unit.slice.end for s in statuses if s.state.done]
    if done:
        yield sample("newest_complete_timestamp", max(done).timestamp(), pipeline=name)
        yield sample("lag_seconds", (now - max(done)).total_seconds(), pipeline=name)
    targets = targets_of(pipeline)
    landed = [s for s in statuses if s.manifest is not None and not s.state.done]
    behind = Counter(table for status in landed for table in lacking(pipeline, targets, status))
    for table in targets:
        yield sample("table_units_behind", behind[table], pipeline=name, table=table)


def _newest(statuses: Iterable[UnitStatus]) -> list[UnitStatus]:
    """Returns the newest unit of each cluster."""
    return list({status.unit.cluster: status for status in sorted(statuses, key=lambda s: s.unit)}.values())


def _partitions(name: str, observation: Observation) -> Iterator[MetricSample]:
    """Yields the lag, and what is known of the partitions that are furthest behind. Of one that is no longer
    among them the last values stay, until the receiver drops them."""
    partitions = sorted(observation.lag.partitions, key=lambda p: -p.records)
    if not observation.lag.errors:
        yield sample("lag_records", sum(p.records for p in partitions), pipeline=name)
        yield sample("lacking_records", sum(p.lacking for p in partitions), pipeline=name)
        yield sample("outside_records", sum(p.outside for p in partitions), pipeline=name)
    for cluster, count in Counter(p.cluster for p in partitions).items():
        yield sample("partitions", count, pipeline=name, cluster=cluster)
    for p in partitions[:MOST_PARTITIONS]:
        labels = {"pipeline": name, "cluster": p.cluster, "topic": p.topic, "partition": p.partition}
        yield sample("partition_lag_records", p.records, **labels)
        yield sample("partition_rate", p.rate, **labels)
        yield sample("partition_log_start", p.log_start, **labels)
        yield sample("partition_log_end", p.log_end, **labels)
        if p.seconds is not None:
            yield sample("partition_lag_seconds", p.seconds, **labels)


def _wrong(name: str, outcome: Watched, now: datetime) -> Iterator[MetricSample]:
    problems_by_kind = Counter(str(problem.kind) for problem in outcome.problems)
    for problem_kind in ProblemKind:
        yield sample("problems_open", problems_by_kind[str(problem_kind)], pipeline=name, kind=problem_kind)
    yield sample("partitions_still", problems_by_kind[str(ProblemKind.STILL)], pipeline=name)
    anomalies_by_kind = Counter(anomaly.kind for anomaly in outcome.observation.verdict.anomalies)
    for kind in AnomalyKind:
        yield sample("anomalies_open", anomalies_by_kind[str(kind)], pipeline=name, kind=kind)
    for source in (ProblemSource.KAFKA, ProblemSource.CLICKHOUSE):
        yield sample("unavailable", int(source in outcome.observation.silent), pipeline=name, source=source)
    yield sample("alarms_sent", len(outcome.sent), pipeline=name)
    yield sample("alarms_raised", sum(raised for raised, _ in outcome.sent.values()), pipeline=name)
    yield sample("alarms_cleared", sum(over for _, over in outcome.sent.values()), pipeline=name)
    if outcome.observation.verdict.verifications:
        last = utc(datetime.fromisoformat(outcome.observation.verdict.verifications[-1].at))
        yield sample("verify_age_seconds", (now - last).total_seconds(), pipeline=name)


def _server(pipeline: Pipeline, observation: Observation) -> Iterator[MetricSample]:
    if observation.server is None:
        return
    name = pipeline.name
    errors = {error.code: error.count for error in observation.server.errors}
    for code in WATCHED:
        yield sample("server_errors", errors.get(code, 0), pipeline=name, code=code)
    parts, queues = dict(observation.server.parts), dict(observation.server.queues)
    for target in pipeline.targets:
        yield sample("table_parts", parts.get(target.table, 0), pipeline=name, table=target.table)
        yield sample("replication_queue", queues.get(target.table, 0), pipeline=name, table=target.table)
    for disk in observation.server.disks:
        yield sample("server_disk_free_bytes", disk.free, pipeline=name, disk=disk.name)
        yield sample("server_disk_total_bytes", disk.total, pipeline=name, disk=disk.name)


# Gauges of the newest landed slices: their size, how much of them fits, and what was expected. Pure.
def newest_slices(pipeline: Pipeline, observation: Observation) -> Iterator[MetricSample]:
    """Yields the gauges of each cluster's newest landed unit, of each table's newest commit, and of all."""
    yield from _units(pipeline.name, observation)
    yield from _tables(pipeline.name, observation.statuses)
    yield from _usual(pipeline, observation.rows)
    yield sample("schema_changes", len(observation.changes), pipeline=pipeline.name)
    yield sample("columns_added", len(observation.added), pipeline=pipeline.name)
    if not observation.lag.errors:
        held = [part.held for part in observation.lag.partitions if part.held]
        yield sample("transactions_open", len(held), pipeline=pipeline.name)
        yield sample("records_held", sum(held), pipeline=pipeline.name)
    if observation.server is not None:
        missing = {table for table, _ in observation.server.missing}
        yield sample("tables_missing", len(missing), pipeline=pipeline.name)


def _units(name: str, observation: Observation) -> Iterator[MetricSample]:
    landed = sorted(observation.landed.items(), key=lambda item: item[0])
    newest = {unit.cluster: manifest for unit, manifest in landed}
    for cluster, manifest in newest.items():
        labels, files = {"pipeline": name, "cluster": cluster}, manifest.files
        yield sample("slice_bytes", sum(file.bytes for file in files), **labels)
        yield sample("slice_files", len(files), **labels)
        yield sample("slice_types", len(manifest.rows_by_type()), **labels)
        rows = sum(file.rows for file in files)
        if rows + manifest.refused:
            yield sample("slice_rejected_share", manifest.refused / (rows + manifest.refused), **labels)
        if rows:
            yield sample("slice_late_share", manifest.late / rows, **labels)


def _tables(name: str, statuses: Iterable[UnitStatus]) -> Iterator[MetricSample]:
    newest = {t: row for s in sorted(statuses, key=lambda s: s.unit) for t, row in s.tables.items()}
    for table, row in newest.items():
        yield sample("table_slice_rows", row.rows, pipeline=name, table=table)
        if row.rows + row.rejected_rows:
            share = row.rejected_rows / (row.rows + row.rejected_rows)
            yield sample("table_rejected_share", share, pipeline=name, table=table)


def _usual(pipeline: Pipeline, history: RowHistory) -> Iterator[MetricSample]:
    name = pipeline.name
    yield sample("history_slices", len(history.slices), pipeline=name)
    if not history.slices:
        return
    newest, total = max(history.slices), history.total()
    at, newest_rows = int(newest.start.timestamp()), history.slices[newest]
    yield sample("rows_seen", newest_rows.rows, pipeline=name)
    for kind in pipeline.types:
        if kind in newest_rows.types or newest_rows.has_all:
            yield sample("type_rows_seen", newest_rows.types.get(kind, 0), pipeline=name, type=kind)
    usual = expected(at, total, habit_of(total, at))
    if usual is not None:
        yield sample("rows_expected", usual.count, pipeline=name)
        if usual.low is not None:
            yield sample("rows_usual_least", usual.low, pipeline=name)


# One watcher at a time, so that no channel is notified twice. A crashed one is waited for this long.
_TERM = timedelta(seconds=20)
_PATIENCE = timedelta(seconds=60)
_LEASE = "alarms"

log = logging.getLogger(__name__)
T = TypeVar("T")
Send = Callable[[Channel, str, str], None]
"""Sends (subject, text) to a channel, or raises NotSent."""


@dataclass(frozen=True)
class Watched:
    """The observation, its problems, and how many each channel has just been notified of (new, over).

    `log_starts` are those of earlier runs. `unsent` says of each channel that could not be notified why.
    """

    observation: Observation
    problems: tuple[Problem, ...]
    log_starts: Mapping[str, LogStart]
    sent: Mapping[str, tuple[int, int]]
    unsent: tuple[str, ...] = ()

    def refuse_unsent(self) -> None:
        """Raises NotSent for channels that could not be notified: the next watch tries them again."""
        if self.unsent:
            raise NotSent("; ".join(self.unsent))


def watch(pipeline: Pipeline, lake: Lake, now: datetime, send: Send) -> Watched:
    """Looks for damage, observes the pipeline, stores its lag and its alarms, and notifies the channels.

    Raises: Busy when another watch is at work, LakeUnavailable.
    """
    store = AlarmStore(lake)
    with Lease.acquire(lake, _LEASE, uuid.uuid4().hex, _TERM, _PATIENCE) as lease, lease.keep():
        state = store.read()
        looked = _look(pipeline, lake, state.looked, now)
        observation = observe(pipeline, lake, now)
        if (lag := observation.lag.sample(now)) is not None:
            note_lag(lake, lag)
        problems = bounded(problems_of(pipeline, observation, state, now), state.alarms)
        keep(lake, observation.rows)
        store.change(lambda state: replace(after(pipeline, state, observation, problems, now), looked=looked))
        sent, unsent = _tell(pipeline, store, send)
    return Watched(observation, problems, state.log_starts, sent, tuple(unsent))


def _look(pipeline: Pipeline, lake: Lake, before: Looked, now: datetime) -> Looked:
    """Returns what a look leaves. Without it the watch goes on: what does not answer is a problem of its own,
    and what a table refuses, the next run's verify says.

    Raises: LakeUnavailable.
    """
    recent = watched_range(pipeline, now)
    try:
        return look(pipeline, lake, recent, before, now) if len(recent) else before
    except LakeUnavailable:
        raise
    except SluiceError as error:
        log.warning("%s was not looked at: %s", pipeline.name, line(str(error)))
        return before


def problems_of(
    pipeline: Pipeline, observation: Observation, state: WatchState, now: datetime
) -> Iterator[Problem]:
    """Yields every problem of an observation; `state` is what earlier runs stored. Pure."""
    yield from observation.unavailable()
    yield from rules.overdue(pipeline, observation.statuses, now, kept_open(state.alarms, observation.silent))
    raised = {key for key, alarm in state.alarms.items() if not alarm.over}
    unlanded = (*observation.oldest, *observation.statuses)
    yield from retention(pipeline, unlanded, observation.topics, state.log_starts, now, raised)
    yield from rules.held_up(pipeline, observation.lag, state.open, now)
    yield from rules.anomalies(observation.verdict.anomalies, observation.server is not None)
    yield from rules.changed(pipeline, observation.changes)
    yield from rules.added(pipeline, observation.added)
    yield from forgets(pipeline, observation.forgets, raised)
    judged = to_judge(observation.rows.slices, state.judged)
    yield from rules.too_few(pipeline, observation.rows, judged)
    yield from rules.rejects(pipeline, observation.landed, observation.statuses, judged)
    yield from rules.missing(pipeline, observation.statuses, judged)
    yield from rules.failing(observation.statuses, judged)
    yield from rules.still(pipeline, observation.slices, observation.boundaries, observation.statuses, now)
    yield from rules.waiting(pipeline, observation.lag_records)
    if observation.server is not None:
        missing = {table for table, _ in observation.server.missing}
        yield from rules.older(pipeline, observation.older)
        yield from rules.held(pipeline, observation.held)
        yield from rules.not_committed(pipeline, observation.statuses, now, missing, observation.held)
        yield from rules.behind(pipeline, observation.statuses, now)
        yield from server_problems(pipeline, observation.server)


def after(
    pipeline: Pipeline,
    state: WatchState,
    observation: Observation,
    problems: tuple[Problem, ...],
    now: datetime,
) -> WatchState:
    """Returns what is stored after the observation. Pure."""
    channels = [channel.name for channel in pipeline.alarms.notify]
    at = utc(now).isoformat(timespec="seconds")
    unseen = rules.still_open(observation.older, observation.oldest)
    alarms = decide(problems, forget(state.alarms, channels), observation.silent.keys(), at, unseen)
    starts = {f"{p.cluster}/{p.topic}/{p.partition}": p.log_start for p in observation.lag.partitions}
    open_now = rules.open_transactions(observation.lag, state.open, now)
    begins = log_starts(starts, state.log_starts, now)
    judged = first_judged(observation.rows.slices, state.judged)
    known = {(c.cluster, topic) for c in pipeline.kafka for topic in known_topics(c, observation.boundaries)}
    return WatchState(alarms, _own(known, begins), _own(known, open_now), judged, state.looked)


def _own(topics: Container[tuple[str, str]], by_partition: Mapping[str, T]) -> dict[str, T]:
    """Leaves out partitions of topics that the pipeline no longer has."""
    return {name: value for name, value in by_partition.items() if tuple(name.split("/")[:2]) in topics}


def _tell(pipeline: Pipeline, store: AlarmStore, send: Send) -> tuple[dict[str, tuple[int, int]], list[str]]:
    sent: dict[str, tuple[int, int]] = {}
    failed: list[str] = []
    for channel in pipeline.alarms.notify:
        notice = pending(store.read().alarms, channel.name)
        if not notice:
            continue
        try:
            send(channel, problems.subject(pipeline.name, notice), problems.body(notice))
        except NotSent as error:
            failed.append(str(error))
            continue
        store.change(partial(_noted, channel=channel.name, notice=notice))
        sent[channel.name] = (len(notice.raised), len(notice.cleared))
    return sent, failed


def _noted(state: WatchState, channel: str, notice: Notice) -> WatchState:
    return replace(state, alarms=with_notified(state.alarms, channel, notice))


# A week before the lake forgets its first hours: one notice. Pure.
def forgets(
    pipeline: Pipeline, first: FirstForgotten | None, raised: Collection[str] = ()
) -> Iterator[Problem]:
    """Yields what the lake forgets first, for each `keep` of the file once. While a table lacks the hours
    that are old enough, only a problem that is in `raised`, by its key, stays."""
    if first is None:
        return
    problem = _problem(pipeline, first)
    if first.complete or problem.key in raised:
        yield problem


def _problem(pipeline: Pipeline, first: FirstForgotten) -> Problem:
    keep = pipeline.keep
    lengths = [
        f"{name} {_words(length)}"
        for name, length in (("lake", keep.lake), ("rejected", keep.rejected))
        if length is not None
    ]
    message = (
        f"from {utc(first.at):%Y-%m-%dT%H:%MZ} on runs of DAG {pipeline.name} delete files of hours that are "
        f"older than `keep` says, the first of slice {first.slice.id}; "
        f"`{pipeline.command('forget', '--dry-run')}` says which, and a longer `keep` keeps them"
    )
    return Problem(ProblemKind.FORGETS, f"keep: {', '.join(lengths)}", message, (ProblemSource.LAKE,))


def _words(length: timedelta) -> str:
    return pendulum.duration(seconds=length.total_seconds()).in_words()
