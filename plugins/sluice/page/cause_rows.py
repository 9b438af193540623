"""What is wrong, by cause, as the page shows it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.flow.verify.causes import Cause, causes_of
from sluice.flow.verify.repairs import ranged
from sluice.flow.verify.verdict import OpenAnomaly
from sluice.page.models import AnomalyRow, CauseRow, RepairRow

MOST_CAUSES, MOST_EXAMPLES, MOST_COMMANDS = 200, 20, 20


def cause_rows(found: Iterable[OpenAnomaly]) -> list[CauseRow]:
    """Wrong counts before hours that are only not done yet."""
    return [_row(cause) for cause in causes_of(found)[:MOST_CAUSES]]


def _row(cause: Cause) -> CauseRow:
    slices = cause.slices
    return CauseRow(
        name=cause.name,
        place=cause.place,
        message=cause.message,
        breaks=cause.breaks,
        advice=cause.advice,
        repairs=[_repair(command) for command in cause.commands[:MOST_COMMANDS]],
        slices=len(slices),
        first=slices[0] if slices else "",
        last=slices[-1] if slices else "",
        found_at=max(one.found_at for one in cause.anomalies),
        anomalies=len(cause.anomalies),
        examples=[_example(one) for one in cause.anomalies[:MOST_EXAMPLES]],
    )


def _repair(command: str) -> RepairRow:
    run = ranged(command)
    if run is None or not run.mode:
        return RepairRow(command=command)
    return RepairRow(command=command, mode=run.mode, start=run.start, end=run.until)


def _example(one: OpenAnomaly) -> AnomalyRow:
    return AnomalyRow(
        kind=one.kind,
        place=one.place,
        message=one.message,
        command=one.command,
        advice=one.advice,
        slices=list(one.slices),
        found_at=one.found_at,
    )
