"""What an hourly run does beside its own hours: a part of the older ones, and what it remakes by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pendulum
import structlog

from sluice.airflow.run_params import batch_of_units, mode_of, tables_of
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.slices import SliceRange

log = structlog.get_logger(__name__)

OLDER_ERROR = "older_error"


def older(pipeline: Pipeline, asked: SliceRange, context: Any) -> Sequence[SliceRange]:
    """What this run does of hours before its own; nothing when it is a run for a past hour."""
    from sluice.flow.choose_backlog import older_batches

    if not is_newest(pipeline, asked):
        return ()
    try:
        found = older_batches(pipeline, asked.start, _turn(asked))
    except SluiceError as error:
        if error.retryable:
            raise
        # The run's own hours do not wait for what an older one needs: `verify_all` fails with it.
        log.error("older hours", error=str(error))
        context["ti"].xcom_push(OLDER_ERROR, str(error))
        return ()
    waiting = {cluster: str(error) for cluster, error in found.waiting.items()}
    log.info("batches of older hours", batches=list(map(str, found.batches)), waiting=waiting)
    return found.batches


def remakes(
    pipeline: Pipeline, asked: SliceRange, batches: Sequence[SliceRange], context: Any, older: bool
) -> list[dict[str, str]]:
    """What the run remakes by itself, where the pipeline file says `remake: auto`: batches of these units."""
    from sluice.flow.auto_remakes import hourly_remakes
    from sluice.plan.batches import spells
    from sluice.plan.unit_choice import choice_text

    params = context["params"]
    if mode_of(params) != "fill" or tables_of(pipeline, params) is not None:
        return []
    try:
        found = hourly_remakes(pipeline, asked, batches, _turn(asked), older)
    except SluiceError as error:
        if error.retryable:
            raise
        log.error("remakes", error=str(error))
        context["ti"].xcom_push(OLDER_ERROR, str(error))
        return []
    if found:
        log.info("remakes", units=str(found))
    units = [status.unit for status in found.units]
    ranges = spells(sorted({unit.slice for unit in units}))
    return [batch_of_units(one, "remake", choice_text(units, one)) for one in ranges]


def is_newest(pipeline: Pipeline, asked: SliceRange) -> bool:
    """Whether it is no run for a past hour."""
    return asked.end + pipeline.heal >= pendulum.now("UTC")


def _turn(asked: SliceRange) -> int:
    return asked.end.int_timestamp // int(asked.length.total_seconds())
