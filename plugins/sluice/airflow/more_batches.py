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

OLDER_ERROR, REMAKE_ERROR = "older_error", "remake_error"
"""XCom keys of `resolve`: what kept the run from older hours, and from remakes."""


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


def remakes(
    pipeline: Pipeline, slices: SliceRange, batches: Sequence[SliceRange], context: Any, older: bool
) -> list[dict[str, str]]:
    """Returns batches of the units that the run remakes by itself, where the pipeline file says `remake:
    auto`."""
    from sluice.flow.auto_remakes import hourly_remakes
    from sluice.plan.batches import spells
    from sluice.plan.unit_choice import choice_text

    params = context["params"]
    if mode_of(params) != "fill" or tables_of(pipeline, params) is not None:
        return []
    try:
        remade = hourly_remakes(pipeline, slices, batches, _turn(slices), older)
    except SluiceError as error:
        if error.retryable:
            raise
        log.error("remakes", error=str(error))
        context["ti"].xcom_push(REMAKE_ERROR, str(error))
        return []
    if remade:
        log.info("remakes", units=str(remade))
    units = [status.unit for status in remade.units]
    ranges = spells(sorted({unit.slice for unit in units}))
    return [batch_of_units(batch, "remake", choice_text(units, batch)) for batch in ranges]


def left_out(slices: SliceRange, context: Any) -> str:
    """Returns what the run for `slices` did not do beside its own hours, and why; empty where it did all."""
    consequences = {
        OLDER_ERROR: f"hours before {slices.start:%Y-%m-%dT%H:%MZ} were left out",
        REMAKE_ERROR: "what `remake: auto` asks for was not remade",
    }
    errors = {key: context["ti"].xcom_pull(task_ids="resolve", key=key) for key in consequences}
    return "; ".join(f"{consequences[key]}: {error}" for key, error in errors.items() if error is not None)


def is_newest(pipeline: Pipeline, slices: SliceRange) -> bool:
    """Returns whether `slices` are the newest ones, not those of a run for a past hour."""
    return slices.end + pipeline.heal >= pendulum.now("UTC")


def _turn(slices: SliceRange) -> int:
    return slices.end.int_timestamp // int(slices.length.total_seconds())
