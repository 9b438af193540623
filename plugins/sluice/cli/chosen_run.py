"""The landings of `sluice run`, and a run over some units by the same loop."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.cli.output import progress
from sluice.config.chosen_tables import Tables
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError, Unavailable
from sluice.plan.plan import work_of
from sluice.slices import SliceRange
from sluice.state.status import UnitStatus

if TYPE_CHECKING:
    from sluice.flow.batch_loop import Landings

# What spark_jobs/land.py exits with when the error is retryable.
_TEMPORARY = 75


def landings(spec: Pipeline, path: Path, mode: str, token: str, accept_loss: bool = False) -> Landings:
    """Returns the landings of a run. Each gives the exit code of its application, which prints its own errors
    on stderr."""
    from sluice.flow import steps
    from sluice.flow.batch_loop import one_ahead
    from sluice.flow.land.submit import Running, SubmitSpec, run_locally

    running = Running()

    def submit(job: SubmitSpec) -> int:
        code = run_locally(job, progress, running)
        return Unavailable.exit_code if code == _TEMPORARY else code

    def land(batch: SliceRange) -> int:
        return steps.land_range(spec, path, batch, mode, token, submit, accept_loss=accept_loss)

    return partial(one_ahead, land, running.stop)


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
