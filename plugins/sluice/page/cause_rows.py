"""What is wrong, by cause, as the page shows it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from sluice.flow.verify.causes import Cause, causes_of
from sluice.flow.verify.repairs import ranged
from sluice.flow.verify.verdict import OpenAnomaly, Verification
from sluice.page.models import Model

MOST_CAUSES, MOST_EXAMPLES, MOST_COMMANDS = 200, 20, 20


class RepairRow(Model):
    """A command that repairs. What a run of the backfill DAG has to be given for the same: a mode,
    `[start, end)`, and tables, none for all; all are empty for a command that is no run."""

    command: str
    mode: str = ""
    start: str = ""
    end: str = ""
    tables: list[str] = Field(default_factory=list)


class CauseRow(Model):
    """What is wrong, once for all `slices` hours, from `first` to `last`, that have it. `breaks`: a count is
    wrong; `examples` are the first of `anomalies`. `held_at`: when all of these hours were last verified
    without an anomaly, empty where no verification that is kept says so."""

    name: str
    place: str
    message: str
    breaks: bool
    advice: str
    repairs: list[RepairRow]
    slices: int
    first: str
    last: str
    found_at: str
    held_at: str
    anomalies: int
    examples: list[OpenAnomaly]


class Anomalies(Model):
    """What is open, by cause, and the last verifications, the newest first."""

    causes: list[CauseRow]
    verifications: list[Verification]


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
        repairs=[repair_row(command) for command in cause.commands[:MOST_COMMANDS]],
        slices=len(slices),
        first=slices[0] if slices else "",
        last=slices[-1] if slices else "",
        found_at=max(anomaly.found_at for anomaly in cause.anomalies),
        held_at=_held_at(slices, sound),
        anomalies=len(cause.anomalies),
        examples=list(cause.anomalies[:MOST_EXAMPLES]),
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


def repair_row(command: str) -> RepairRow:
    run = ranged(command)
    if run is None or not run.mode or run.yes:  # a yes is for a shell
        return RepairRow(command=command)
    return RepairRow(command=command, mode=run.mode, start=run.start, end=run.until, tables=run.tables)
