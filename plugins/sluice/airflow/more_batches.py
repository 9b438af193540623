"""What an hourly run does beside its own hours: a part of the older ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pendulum
import structlog

from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.slices import SliceRange

log = structlog.get_logger(__name__)

OLDER_ERROR = "older_error"
"""XCom key of `resolve`: what kept the run from older hours."""


def older(pipeline: Pipeline, slices: SliceRange, context: Any) -> Sequence[SliceRange]:
    """Returns batches of hours before the run's own `slices`; none when it is a run for a past hour."""
    from sluice.flow.choose_backlog import older_batches

    if not is_newest(pipeline, slices):
        return ()
    try:
        backlog_work = older_batches(pipeline, slices.start, _turn(slices))
    except SluiceError as error:
        if error.retryable:
            raise
        # The run's own hours do not wait for what an older one needs: `verify_all` fails with it.
        log.error("older hours", error=str(error))
        context["ti"].xcom_push(OLDER_ERROR, str(error))
        return ()
    waiting = {cluster: str(error) for cluster, error in backlog_work.waiting.items()}
    log.info("batches of older hours", batches=list(map(str, backlog_work.batches)), waiting=waiting)
    return backlog_work.batches


def left_out(slices: SliceRange, context: Any) -> str:
    """Returns what the run for `slices` did not do beside its own hours, and why; empty where it did all."""
    error = context["ti"].xcom_pull(task_ids="resolve", key=OLDER_ERROR)
    return "" if error is None else f"hours before {slices.start:%Y-%m-%dT%H:%MZ} were left out: {error}"


def is_newest(pipeline: Pipeline, slices: SliceRange) -> bool:
    """Returns whether `slices` are the newest ones, not those of a run for a past hour."""
    return slices.end + pipeline.heal >= pendulum.now("UTC")


def _turn(slices: SliceRange) -> int:
    return slices.end.int_timestamp // int(slices.length.total_seconds())
