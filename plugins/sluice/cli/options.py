"""The arguments that commands share, and what they become."""

from __future__ import annotations

import getpass
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import pendulum
import typer

from sluice.cli.output import progress
from sluice.config.files import find, pipeline_names, read
from sluice.config.pipeline import Pipeline, Tables, tables_for
from sluice.config.types import parse_duration
from sluice.errors import EndInFuture, WrongUse
from sluice.plan.modes import asked_mode
from sluice.slices import FIRST, SliceRange, bounded, floor, parse_instant, utc

PipelineArgument = Annotated[
    str,
    typer.Argument(
        metavar="PIPELINE",
        help="A pipeline: PIPELINE.yaml in SLUICE_PIPELINES, else in include/pipelines.",
        autocompletion=lambda: list(pipeline_names()),
    ),
]
Config = Annotated[Path | None, typer.Option("--config", help="A pipeline file outside that folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Wide = Annotated[
    bool, typer.Option("--wide", help="Show all columns, also those that the terminal cannot hold.")
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", help="Show details: every hour and anomaly, and each step on a line of its own."
    ),
]
TableOption = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="T",
        help="Only this table, with its views, its rollups and the traffic counts of its types alone: "
        "database.table, or a type. Repeatable.",
    ),
]
ModeOption = Annotated[
    str,
    typer.Option(
        "--mode",
        metavar="fill|reload|reland|repair|remake",
        help="fill: what is missing or stale. reload: ClickHouse again from the lake, by the pipeline file "
        "as it is. reland: Kafka again with the same boundaries, by each hour's own rules. For experts: "
        "repair is a reload by the rules of each hour's own last load, remake makes what has landed again "
        "out of the lake's own records, by the pipeline file as it is.",
    ),
]
MissingColumns = Annotated[
    bool,
    typer.Option(
        "--missing-columns",
        help="With --mode reload: of what is loaded only what was loaded before a column was added, and may "
        "have its field. No row leaves a table.",
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="A", help="First instant: ISO 8601, `yesterday`, or `-24h`; widened to slices."
    ),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="B", help="End (not included): ISO 8601, `today`, `-2h`, or `now`."),
]
DayOption = Annotated[
    str | None,
    typer.Option(
        "--day",
        metavar="DAY",
        help="A whole day (UTC) instead of --from and --to: 2026-11-20, `yesterday`, `last`, the last "
        "complete day, or `today` until now.",
    ),
]
OptionalFrom = Annotated[str | None, typer.Option("--from", metavar="A", help="Default: `lookback` ago.")]
KnownFrom = Annotated[
    str | None, typer.Option("--from", metavar="A", help="Default: the first hour that is known.")
]
NOW = "now"
NEWEST = 48
NewestFrom = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="A",
        help=f"Default: the {NEWEST} newest slices that are known, with --watch those that the screen holds.",
    ),
]
OptionalTo = Annotated[str, typer.Option("--to", metavar="B", help="Default: the last complete slice.")]

MODES = ("fill", "reload", "reland", "repair", "remake")


def tables_of(pipeline: Pipeline, names: list[str] | None, mode: str = "fill") -> Tables | None:
    """Returns the tables that --table names. Raises WrongUse as `tables_for` does."""
    return tables_for(pipeline, names or [], mode)


def user_name() -> str:
    """Returns who types the command; empty where the system has no name for the user, as in a container."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def load_pipeline(name: str, config: Path | None) -> Pipeline:
    return read(find(name, config), by_option=config is not None)


def check_mode(mode: str, missing_columns: bool = False) -> str:
    """Returns the mode with its flag."""
    if mode not in MODES:
        raise typer.BadParameter(f"--mode: expected {', '.join(MODES)}, not {mode!r}.")
    return asked_mode(mode, missing_columns)


def asked_range(pipeline: Pipeline, start: str | None, end: str | None, day: str | None) -> SliceRange:
    """Returns the range of a command that needs one. `now` is the end of the last slice that has been over
    for `settle`, as for the hourly runs: a newer one is named, and not in the range. Raises WrongUse without
    a range, as `day_or` and `slice_range` do."""
    if day is None and (start is None or end is None):
        raise WrongUse("name the range: --from A --to B, or --day DAY")
    first, until = day_or(pipeline, start, end or NOW, day)
    now = pendulum.now("UTC")
    if until != NOW:
        return slice_range(pipeline, first, until, now)
    if line := unsettled(pipeline, now):
        progress(line)
    return slice_range(pipeline, first, until, now - pipeline.settle)


def unsettled(pipeline: Pipeline, now: pendulum.DateTime) -> str:
    """Names the slice that is over and still settles; empty where there is none."""
    settled, newest = (floor(at, pipeline.slice) for at in (now - pipeline.settle, now))
    if settled == newest:
        return ""
    return (
        f"`now` is {settled:%Y-%m-%dT%H:%MZ}: the slice that ended at {newest:%H:%MZ} settles until "
        f"{newest + pipeline.settle:%H:%M:%SZ} (`settle`)"
    )


def refuse_future(slices: SliceRange) -> None:
    """Raises EndInFuture for a range that is not over."""
    now = pendulum.now("UTC")
    if slices.end > now:
        raise EndInFuture(f"{slices.end:%Y-%m-%dT%H:%MZ}", f"{now:%Y-%m-%dT%H:%M:%SZ}")


def day_or(pipeline: Pipeline, start: str | None, end: str, day: str | None) -> tuple[str | None, str]:
    """Returns the `day`'s start and end, or without one both as they are. Raises WrongUse for a day beside
    them."""
    if day is None:
        return start, end
    if start is not None or end != NOW:
        raise WrongUse("--day stands for --from and --to: leave the one or the others out")
    now = pendulum.now("UTC")
    if day == TODAY:
        return now.start_of("day").isoformat(), NOW
    first, until = read_day(day, now, pipeline.settle)
    return first.isoformat(), until.isoformat()


def slice_range(
    pipeline: Pipeline, start: str | None, end: str, now: pendulum.DateTime | None = None
) -> SliceRange:
    """Returns the whole slices that hold `[start, end)`; without a start, the `lookback`.

    Raises WrongUse for more than a command takes at once.
    """
    now = pendulum.now("UTC") if now is None else now
    until = read_instant(end, now, pipeline.slice)
    since = (
        max(until - pipeline.lookback, FIRST) if start is None else read_instant(start, now, pipeline.slice)
    )
    return SliceRange.widen(since, until, pipeline.slice).at_most()


def known_range(pipeline: Pipeline, start: str | None, end: str, newest: int | None = None) -> SliceRange:
    """As `slice_range`; without a start, from the first stored boundary to `end`, at most to the last one, or
    where there is none from the first landed slice to the last one: then the boundary log is gone.

    `newest` keeps that many slices at the end. Before anything is stored it is the `lookback`.
    """
    if start is not None:
        return slice_range(pipeline, start, end)
    from sluice.clients.lake.open import open_lake
    from sluice.state.boundaries.log import BoundaryLog
    from sluice.state.manifests import landed_span

    lake = open_lake(pipeline)
    span = BoundaryLog(lake).read().span() or landed_span(lake, pipeline.slice)
    if span is None:
        return slice_range(pipeline, None, end)
    first, last = span
    if end != NOW:
        last = min(last, read_instant(end, pendulum.now("UTC"), pipeline.slice))
    if newest is not None:
        first = max(first, last - newest * pipeline.slice)
    return SliceRange.widen(first, last, pipeline.slice)


YesOption = Annotated[
    bool,
    typer.Option(
        "--yes",
        help="With --mode remake or reland: also where rows that are there would be rejected, and so leave "
        "lake and tables. Without it such slices stay as they are, and are named.",
    ),
]


def refuse_yes(yes: bool, mode: str) -> None:
    """Raises WrongUse for a yes to what no other mode asks."""
    if yes and mode not in ("remake", "reland"):
        raise WrongUse("--yes is for --mode remake and reland: no other mode rejects rows that are there")


# Instants as a person types them: ISO 8601, `now`, `today`, `yesterday`, or `-24h`, so long before now.
TODAY = "today"
_DAYS_AGO = {TODAY: 0, "yesterday": 1}
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def read_instant(text: str, now: datetime, length: timedelta) -> pendulum.DateTime:
    """Returns the instant that `text` says, for slices of `length`.

    | text | at 2026-11-23T18:20Z, with slices of an hour |
    | --- | --- |
    | `now` | 2026-11-23T18:00Z: the end of the last complete slice |
    | `-24h` | 2026-11-22T18:00Z: so long before that |
    | `today`, `yesterday` | 2026-11-23T00:00Z, 2026-11-22T00:00Z |
    | `2026-11-20` | 2026-11-20T00:00Z |

    Raises WrongUse for anything else, and for years of which a table's `_slice` holds no hour.
    """
    if text in _DAYS_AGO:
        return bounded(utc(now).start_of("day").subtract(days=_DAYS_AGO[text]), text)
    if text.startswith("-"):
        try:
            return bounded(floor(utc(now), length) - parse_duration(text[1:]), text)
        except ValueError as error:
            raise WrongUse(f"{text[:60]!r} is not a time before now such as -24h or -7d") from error
    return parse_instant(text, now, length)


def read_day(text: str, now: datetime, settle: timedelta) -> tuple[pendulum.DateTime, pendulum.DateTime]:
    """Returns both ends of the day (UTC) that `text` says.

    | text | at 2026-11-23T18:20Z |
    | --- | --- |
    | `last` | 2026-11-22: the last day that has been over for `settle` |
    | `yesterday` | 2026-11-22, also right after midnight |
    | `2026-11-20` | 2026-11-20 |

    Raises WrongUse for anything else, and for years of which a table's `_slice` holds no hour.
    """
    if text in ("last", "yesterday"):
        over = utc(now) - settle if text == "last" else utc(now)
        start = bounded(over.start_of("day").subtract(days=1), text)
    elif _DATE.fullmatch(text):
        start = parse_instant(text, now)
    else:
        raise WrongUse(f"{text[:60]!r} is not a day such as 2026-11-20, `today`, `yesterday` or `last`")
    return start, start.add(days=1)
