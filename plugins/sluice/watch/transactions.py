"""Transactions that stay open: what their producer and others have written since is in no hour yet. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import pendulum

from sluice.config.pipeline import Pipeline
from sluice.plan.lag import Lag, PartitionLag
from sluice.slices import utc
from sluice.watch.problems import Open, Problem, ProblemKind, ProblemSource


def held_up(pipeline: Pipeline, lag: Lag, earlier: Mapping[str, Open], now: datetime) -> Iterator[Problem]:
    """Partitions whose last stable offset has stood still before records for longer than an hour may take.

    Open transactions are usual, and end within seconds. Hours that end meanwhile are complete without them.
    """
    allowed = pipeline.settle + pipeline.alarms.overdue
    open_now = seen(lag, earlier, now)
    for p in (p for p in lag.partitions if p.held):
        since = timedelta(seconds=int(utc(now).timestamp()) - open_now[_name(p)].at)
        if since >= allowed:
            message = (
                f"{p.held:,} offsets wait behind an open transaction that begins at offset {p.log_end}, for "
                f"{pendulum.duration(seconds=since.total_seconds()).in_words()} at least: they come with a "
                "later hour; end the transaction (kafka-transactions.sh find-hanging, abort), or its producer"
            )
            yield Problem(ProblemKind.TRANSACTION, f"partition {_name(p)}", message, (ProblemSource.KAFKA,))


def seen(lag: Lag, earlier: Mapping[str, Open], now: datetime) -> dict[str, Open]:
    """Returns the open transactions, each with the instant at which it was seen first. Those of a cluster
    that does not answer are kept."""
    open_now = dict(earlier) if lag.errors else {}
    for p in lag.partitions:
        before = earlier.get(_name(p))
        open_now.pop(_name(p), None)
        if p.held:
            if before is None or before.offset != p.log_end:
                before = Open(p.log_end, int(utc(now).timestamp()))
            open_now[_name(p)] = before
    return open_now


def _name(p: PartitionLag) -> str:
    return f"{p.cluster}/{p.topic}/{p.partition}"
