"""One run of the watch: observes a pipeline and notifies its channels. Delivery is at least once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

import pendulum

from sluice.clients.lake.base import Lake
from sluice.config.airflow import Channel
from sluice.config.pipeline import Pipeline
from sluice.errors import NotSent
from sluice.plan.due import FirstForgotten
from sluice.slices import utc
from sluice.state.lease import Lease
from sluice.state.notes import note_lag
from sluice.watch import notices, rules
from sluice.watch.expected import keep
from sluice.watch.notices import Notice, bounded, decide, forget, kept_open, pending, with_notified
from sluice.watch.observe import Observation, observe, server_problems
from sluice.watch.problems import (
    AlarmStore,
    LogStart,
    Problem,
    ProblemKind,
    ProblemSource,
    WatchState,
    first_judged,
    to_judge,
)
from sluice.watch.retention import log_starts, retention

# One watcher at a time, so that no channel is notified twice. A crashed one is waited for this long.
_TERM = timedelta(seconds=20)
_PATIENCE = timedelta(seconds=60)
_LEASE = "alarms"

T = TypeVar("T")
Send = Callable[[Channel, str, str], None]
"""Sends (subject, text) to a channel, or raises NotSent."""


@dataclass(frozen=True)
class Watched:
    """The observation, its problems, and how many each channel has just been notified of (new, over).

    `log_starts` are those of earlier runs.
    """

    observation: Observation
    problems: tuple[Problem, ...]
    log_starts: Mapping[str, LogStart]
    sent: Mapping[str, tuple[int, int]]


def watch(pipeline: Pipeline, lake: Lake, now: datetime, send: Send) -> Watched:
    """Observes the pipeline, stores its lag and its alarms, and notifies the channels.

    Raises: NotSent after all channels were tried, Busy when another watch is at work, LakeUnavailable.
    """
    store = AlarmStore(lake)
    with Lease.acquire(lake, _LEASE, uuid.uuid4().hex, _TERM, _PATIENCE) as lease, lease.keep():
        observation = observe(pipeline, lake, now)
        if (lag := observation.lag.sample(now)) is not None:
            note_lag(lake, lag)
        state = store.read()
        problems = bounded(problems_of(pipeline, observation, state, now), state.alarms)
        keep(lake, observation.rows)
        store.change(lambda state: after(pipeline, state, observation, problems, now))
        sent = _tell(pipeline, store, send)
    return Watched(observation, problems, state.log_starts, sent)


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
    yield from rules.still(pipeline, observation.slices, observation.boundaries, observation.statuses, now)
    yield from rules.waiting(pipeline, observation.lag_records)
    if observation.server is not None:
        missing = {table for table, _ in observation.server.missing}
        yield from rules.older(pipeline, observation.older)
        yield from rules.not_committed(pipeline, observation.statuses, now, missing)
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
    return WatchState(alarms, _own(pipeline, begins), _own(pipeline, open_now), judged)


def _own(pipeline: Pipeline, by_partition: Mapping[str, T]) -> dict[str, T]:
    """Leaves out partitions of topics that the pipeline file no longer has."""
    topics = {(c.cluster, topic) for c in pipeline.kafka for topic in c.topics}
    return {name: value for name, value in by_partition.items() if tuple(name.split("/")[:2]) in topics}


def _tell(pipeline: Pipeline, store: AlarmStore, send: Send) -> dict[str, tuple[int, int]]:
    sent: dict[str, tuple[int, int]] = {}
    failed: list[str] = []
    for channel in pipeline.alarms.notify:
        notice = pending(store.read().alarms, channel.name)
        if not notice:
            continue
        try:
            send(channel, notices.subject(pipeline.name, notice), notices.body(notice))
        except NotSent as error:
            failed.append(str(error))
            continue
        store.change(partial(_noted, channel=channel.name, notice=notice))
        sent[channel.name] = (len(notice.raised), len(notice.cleared))
    if failed:
        raise NotSent("; ".join(failed))
    return sent


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
