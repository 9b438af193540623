"""The dry run of the page's backfill form: what `sluice plan` says, in numbers and lines."""

from __future__ import annotations

from collections import Counter

from sluice.config.chosen_tables import Tables
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.page.backfill_models import PlanAsked, PlanLine, PlanView
from sluice.page.replaced import bytes_of, replaced_by
from sluice.plan.dry_run import DryRun, lost
from sluice.plan.modes import MODES
from sluice.slices import SliceRange
from sluice.state.status import UnitStatus

MOST_LINES = 500
# As many hours as a year has: the plan asks Kafka for the boundaries of each.
MOST_SLICES = 9000


def check(request: PlanAsked, slices: SliceRange) -> None:
    """Raises WrongUse for an unknown mode, and for a range that is too long to plan here."""
    if request.mode not in MODES:
        raise WrongUse(f"mode: expected one of {', '.join(MODES)}, not {request.mode!r}")
    if len(slices) > MOST_SLICES:
        raise WrongUse(
            f"{len(slices):,} slices are too many for this form: plan at most {MOST_SLICES:,}, or use "
            "plan and backfill on the command line"
        )


def plan_view(pipeline: Pipeline, slices: SliceRange, dry: DryRun, tables: Tables | None = None) -> PlanView:
    """Returns the plan as the form shows it. `actions` counts units by action; offsets and reads are of units
    to land, rows, bytes and batches of all with work. `tables` are the chosen ones, None: all."""
    size, estimated = bytes_of(dry)
    return PlanView(
        start=slices.start.to_iso8601_string(),
        end=slices.end.to_iso8601_string(),
        mode=dry.mode,
        slices=len(slices),
        units=len(dry.statuses),
        actions=dict(Counter(map(dry.does, dry.statuses)).most_common()),
        offsets=dry.offsets,
        reads=dry.reads,
        rows=dry.work.rows,
        bytes=size,
        estimated=estimated,
        batches=len(dry.work.batches),
        time=str(dry.time),
        replaces=replaced_by(pipeline, dry, tables),
        waiting=dry.waiting,
        lines=[_line(status, dry.does(status)) for status in dry.statuses[:MOST_LINES]],
    )


def _line(status: UnitStatus, does: str) -> PlanLine:
    return PlanLine(
        slice=status.unit.slice.id,
        cluster=status.unit.cluster,
        state=str(status.state),
        action=does,
        offsets=status.offsets,
        reads=status.reads,
        lost=lost(status.losses),
        lacking=", ".join(map(str, status.lacking)),
    )
