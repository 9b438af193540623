"""The dry run of the page's backfill form: what `sluice plan` says, in numbers and lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.flow.resolve.preview import Preview
from sluice.page.models import PlanAsked, PlanLine, PlanView
from sluice.plan.estimate import Expected
from sluice.plan.plan import Work, action, to_land
from sluice.slices import SliceRange
from sluice.state.status import UnitStatus

MODES = ("fill", "reload", "reland")
MOST_LINES = 500
# As many hours as a year has: the plan asks Kafka for the boundaries of each.
MOST_SLICES = 9000


def check(asked: PlanAsked, slices: SliceRange) -> None:
    """Raises WrongUse for a mode that there is not, and for a range that is too long to plan here."""
    if asked.mode not in MODES:
        raise WrongUse(f"mode: expected one of {', '.join(MODES)}, not {asked.mode!r}")
    if len(slices) > MOST_SLICES:
        raise WrongUse(
            f"{len(slices):,} slices are too many for this form: plan at most {MOST_SLICES:,}, or use "
            "`sluice plan` and `sluice backfill`"
        )


def plan_view(
    pipeline: Pipeline, slices: SliceRange, mode: str, seen: Preview, work: Work, took: Expected
) -> PlanView:
    """`actions` counts units by what would be done; offsets and reads are of those to be landed, rows and
    batches of all `work`, and `took` is the time that it would take."""
    found: Sequence[UnitStatus] = seen.found
    actions = [action(status, mode, pipeline.on_expired) for status in found]
    landing = to_land(found, mode, pipeline.on_expired)
    return PlanView(
        start=slices.start.to_iso8601_string(),
        end=slices.end.to_iso8601_string(),
        mode=mode,
        slices=len(slices),
        units=len(found),
        actions=dict(Counter(actions).most_common()),
        offsets=sum(status.offsets for status in landing),
        reads=sum(status.reads for status in landing),
        rows=work.rows,
        batches=len(work.batches),
        time=str(took),
        waiting=[f"cluster {cluster} waits: {error}" for cluster, error in seen.unreachable.items()],
        lines=[_line(s, act) for s, act in zip(found, actions, strict=True)][:MOST_LINES],
    )


def _line(status: UnitStatus, act: str) -> PlanLine:
    losses = (
        f"{'' if x.exact else 'at most '}{x.topic}/{x.partition} [{x.start}, {x.until})"
        for x in status.losses
    )
    return PlanLine(
        slice=status.unit.slice.id,
        cluster=status.unit.cluster,
        state=str(status.state),
        action=act,
        offsets=status.offsets,
        reads=status.reads,
        lost="; ".join(losses),
        lacking=", ".join(status.lacking),
    )
