"""What is wrong, by cause, as the page shows it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sluice.flow.verify.causes import Cause, causes_of
from sluice.flow.verify.repairs import ranged
from sluice.flow.verify.verdict import OpenAnomaly, Verification
from sluice.page.models import AnomalyRow, CauseRow, RepairRow

MOST_CAUSES, MOST_EXAMPLES, MOST_COMMANDS = 200, 20, 20


def cause_rows(
    anomalies: Iterable[OpenAnomaly], verifications: Sequence[Verification] = ()
) -> list[CauseRow]:
    """Returns the causes, wrong counts before unfinished hours. `verifications` are in order, the newest
    last."""
    sound = [verification for verification in reversed(verifications) if not verification.found]
    return [_row(cause, sound) for cause in causes_of(anomalies)[:MOST_CAUSES]]


def _row(cause: Cause, sound: Sequence[Verification]) -> CauseRow:
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
        found_at=max(anomaly.found_at for anomaly in cause.anomalies),
        held_at=_held_at(slices, sound),
        anomalies=len(cause.anomalies),
        examples=[_example(anomaly) for anomaly in cause.anomalies[:MOST_EXAMPLES]],
    )


def _held_at(slices: Sequence[str], sound: Sequence[Verification]) -> str:
    """Returns when all of the slices were last verified without an anomaly. `sound` are the verifications
    without any, the newest first."""
    if not slices:
        return ""
    first, last = _minute(slices[0]), _minute(slices[-1])
    covering = (
        verification.at
        for verification in sound
        if verification.start[:16] <= first and last < verification.until[:16]
    )
    return next(covering, "")


def _minute(slice_id: str) -> str:
    """Returns 2026-11-20T10:00 for 2026-11-20T10Z, 2026-11-20T10:15 for 2026-11-20T1015Z: as text these are
    in the order of time, like the edges of verifications, which are in UTC, too."""
    return f"{slice_id[:13]}:{slice_id[13:-1] or '00'}"


def _repair(command: str) -> RepairRow:
    run = ranged(command)
    if run is None or not run.mode:
        return RepairRow(command=command)
    return RepairRow(command=command, mode=run.mode, start=run.start, end=run.until, tables=run.tables)


def _example(anomaly: OpenAnomaly) -> AnomalyRow:
    return AnomalyRow(
        kind=anomaly.kind,
        place=anomaly.place,
        message=anomaly.message,
        command=anomaly.command,
        advice=anomaly.advice,
        slices=list(anomaly.slices),
        found_at=anomaly.found_at,
    )
