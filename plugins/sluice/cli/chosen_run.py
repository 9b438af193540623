"""The landings of `sluice run`, and a run over some units by the same loop."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sluice.cli.output import progress
from sluice.config.chosen_tables import Tables
from sluice.config.pipeline import Pipeline
from sluice.errors import Unavailable
from sluice.plan.modes import needs_landing
from sluice.plan.plan import work_of
from sluice.plan.unit_choice import choice_text
from sluice.slices import SliceRange, Unit
from sluice.state.status import UnitStatus

if TYPE_CHECKING:
    from sluice.flow.batch_loop import Landings

# What spark_jobs/land.py exits with when the error is retryable.
_TEMPORARY = 75


def landings(
    spec: Pipeline, path: Path, mode: str, token: str, only: Collection[Unit] | None = None
) -> Landings:
    """Returns the landings of all units, or of `only` some. Each gives the exit code of its application,
    which prints its own errors on stderr."""
    from sluice.flow import steps
    from sluice.flow.batch_loop import one_ahead
    from sluice.flow.land.submit import Running, SubmitSpec, run_locally

    running = Running()

    def submit(job: SubmitSpec) -> int:
        code = run_locally(job, progress, running)
        return Unavailable.exit_code if code == _TEMPORARY else code

    def land(batch: SliceRange) -> int:
        some = {} if only is None else {"only": choice_text(only, batch)}
        return steps.land_range(spec, path, batch, mode, token, submit, **some)

    return partial(one_ahead, land, running.stop)


def run_units(
    spec: Pipeline, path: Path, statuses: Sequence[UnitStatus], mode: str, tables: Tables | None = None
) -> None:
    """Lands and loads these units, and no other, verifies and publishes. Raises what the steps raise, and
    Exit with the code of a landing that failed."""
    from sluice.flow.batch_loop import landed_before, run_chosen

    units, token = frozenset(status.unit for status in statuses), uuid.uuid4().hex
    lands = any(needs_landing(status.manifest, mode, token) for status in statuses)
    chosen_landings = landings(spec, path, mode, token, units) if lands else landed_before
    code = run_chosen(spec, units, work_of(statuses, mode), mode, token, chosen_landings, progress, tables)
    if code:
        raise typer.Exit(code)
