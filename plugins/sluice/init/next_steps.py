"""The three commands that follow, exactly as they are typed, and when they have something to do. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sluice.plan.estimate import duration_text
from sluice.slices import HOUR, ceil, floor, from_ms

_AFTER = timedelta(milliseconds=1)
_ROOM = 0.1  # of the sampled time, behind a sample that ends before what it is of
COMMANDS = 3


@dataclass(frozen=True)
class Made:
    """What stands after `init`. `config` is the pipeline file where `sluice` does not find it by its name,
    `file` what was sampled and is still to be published, `applied`: the tables are there."""

    name: str
    config: Path | None
    folder: str | None
    file: str | None
    applied: bool


def commands(outcome: Made, stamps: Sequence[int], now: datetime, cut: bool = False) -> list[str]:
    """Returns the commands that follow. `stamps` are the times of records in ms, as far as they are known;
    `cut`: later ones may follow."""
    pipeline = [outcome.name] + (["--config", str(outcome.config)] if outcome.config else [])
    start, end = span(stamps, now, cut)
    arguments = [] if outcome.applied else [_init(outcome)]
    if outcome.file is not None:
        source = outcome.file if outcome.file == "-" else str(outcome.file)
        arguments.append(["publish", *pipeline[:1], source, *pipeline[1:]])
    elif outcome.applied:
        arguments.append(["plan", *pipeline, "--from", start, "--to", end])
    arguments.append(["run", *pipeline, "--from", start, "--to", end])
    arguments.append(["verify", *pipeline, "--contents"])
    return [shlex.join(["sluice", *words]) for words in arguments[:COMMANDS]]


def _init(outcome: Made) -> list[str]:
    folder = ["--into", outcome.folder] if outcome.folder else []
    return ["init", outcome.name, *folder, "--apply"]


def span(stamps: Sequence[int], now: datetime, cut: bool = False) -> tuple[str, str]:
    """Returns the whole hours from the first time to the last, with room behind it where the sample is `cut`;
    `now` where they reach to it."""
    if not stamps:
        return _hour(floor(now, HOUR)), "now"
    first, last = from_ms(min(stamps)), from_ms(max(stamps))
    room = (last - first) * (_ROOM if cut else 0)
    end = ceil(last + timedelta(milliseconds=1) + room, HOUR)
    return _hour(floor(first, HOUR)), "now" if end > floor(now, HOUR) else _hour(end)


def runnable_from(stamps: Sequence[int], now: datetime) -> datetime | None:
    """Returns the end of the first hour with events, where it is not over; without `stamps` they get the time
    at which they are published. None where `run` has something to do now."""
    first = from_ms(min(stamps)) if stamps else now
    return None if first < floor(now, HOUR) else ceil(max(first, now) + _AFTER, HOUR)


def waiting_line(stamps: Sequence[int], now: datetime) -> str:
    """Says from when on `run` has something to do; empty where it has now."""
    over = runnable_from(stamps, now)
    if over is None:
        return ""
    why = "the hour of these events is not over"
    if not stamps:
        why = "each record gets the time at which it is published, and an hour is landed when it is over"
    left = duration_text((over - now).total_seconds())
    return f"{why}: a run has nothing to do before {_hour(over)}, in {left}"


def _hour(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:00Z}"
