"""One look at a pipeline, and what has to be told about it. Told is at least once, and as a rule once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from sluice.clients.lake.base import Lake
from sluice.config.alarms import Channel
from sluice.config.pipeline import Pipeline
from sluice.errors import NotSent
from sluice.slices import utc
from sluice.state.lease import Lease
from sluice.watch import notices, rules, transactions
from sluice.watch.notices import Notice, bounded, decide, forget, pending, told
from sluice.watch.observe import Observation, look
from sluice.watch.problems import LogStart, Problem, WatchState
from sluice.watch.retention import log_starts, retention
from sluice.watch.server import server_problems
from sluice.watch.store import AlarmStore

# One watcher at a time, so that nobody is told twice. A crashed one is waited for this long.
_TERM = timedelta(seconds=20)
_PATIENCE = timedelta(seconds=60)
_LEASE = "alarms"

T = TypeVar("T")
Send = Callable[[Channel, str, str], None]
"""Sends (subject, text) to a channel, or raises NotSent."""


@dataclass(frozen=True)
class Watched:
    """What a look has seen, its problems, and how many each channel has just been told (new, over).

    `log_starts` are those that earlier looks had seen.
    """

    sight: Observation
    problems: tuple[Problem, ...]
    log_starts: Mapping[str, LogStart]
    sent: Mapping[str, tuple[int, int]]


def watch(pipeline: Pipeline, lake: Lake, now: datetime, send: Send) -> Watched:
    """Raises NotSent after all channels were tried, Busy when another watch is at work, LakeUnavailable."""
    store = AlarmStore(lake)
    with Lease.acquire(lake, _LEASE, uuid.uuid4().hex, _TERM, _PATIENCE) as lease, lease.keep():
        sight = look(pipeline, lake, now)
        known = store.read()
        problems = bounded(problems_of(pipeline, sight, known, now), known.alarms)
        store.change(lambda known: after(pipeline, known, sight, problems, now))
        sent = _tell(pipeline, store, send)
    return Watched(sight, problems, known.log_starts, sent)


def problems_of(
    pipeline: Pipeline, sight: Observation, known: WatchState, now: datetime
) -> Iterator[Problem]:
    """Every problem that a look shows, after what earlier looks have seen. Pure."""
    yield from sight.unavailable()
    yield from rules.overdue(pipeline, sight.found, now)
    yield from rules.older(pipeline, sight.older)
    yield from retention(pipeline, (*sight.oldest, *sight.found), sight.topics, known.log_starts, now)
    yield from transactions.held_up(pipeline, sight.lag, known.open, now)
    yield from rules.anomalies(sight.verdict.anomalies)
    yield from rules.changed(pipeline, sight.changes)
    yield from rules.added(pipeline, sight.added)
    yield from rules.still(pipeline, sight.slices, sight.boundaries, sight.found, now)
    if sight.server is not None:
        missing = {table for table, _ in sight.server.missing}
        yield from rules.not_committed(pipeline, sight.found, now, missing)
        yield from rules.behind(pipeline, sight.found, sight.lag_records, now)
        yield from server_problems(pipeline, sight.server)


def after(
    pipeline: Pipeline, known: WatchState, sight: Observation, problems: tuple[Problem, ...], now: datetime
) -> WatchState:
    """What is known after the look. Pure."""
    channels = [channel.name for channel in pipeline.alarms.notify]
    at = utc(now).isoformat(timespec="seconds")
    unseen = rules.still_open(sight.older)
    alarms = decide(problems, forget(known.alarms, channels), sight.silent.keys(), at, unseen)
    starts = {f"{p.cluster}/{p.topic}/{p.partition}": p.log_start for p in sight.lag.partitions}
    open_now = transactions.seen(sight.lag, known.open, now)
    begins = log_starts(starts, known.log_starts, now)
    return WatchState(alarms, _own(pipeline, begins), _own(pipeline, open_now))


def _own(pipeline: Pipeline, places: Mapping[str, T]) -> dict[str, T]:
    """Without partitions of topics that the pipeline file no longer has."""
    topics = {(c.cluster, topic) for c in pipeline.kafka for topic in c.topics}
    return {name: place for name, place in places.items() if tuple(name.split("/")[:2]) in topics}


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


def _noted(known: WatchState, channel: str, notice: Notice) -> WatchState:
    return replace(known, alarms=told(known.alarms, channel, notice))
