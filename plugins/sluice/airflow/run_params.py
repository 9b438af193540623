"""Turns what Airflow says about a run into whole slices. Pure."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

from airflow.sdk import Param

from sluice.config.pipeline import Pipeline, Tables, tables_for
from sluice.errors import ClockBehind, EndInFuture, WrongUse
from sluice.plan.modes import asked_mode
from sluice.safe_text import line
from sluice.slices import MOST_SLICES, SliceRange, bounded, floor, parse_instant, utc


def scheduled_slices(
    start: datetime | None, end: datetime | None, run_after: datetime, length: timedelta
) -> SliceRange:
    """Returns the complete slices of a scheduled DAG's run, at least one.

    Airflow 3.3 gives the data interval in several shapes: `[L, L + 1h)` from the scheduler and `backfill
    create`, `[L - 1h, L)` from `dags test L`, the last full hour before now from `dags trigger -l L`,
    an empty or crooked one from somebody's own API call, and none at all when the REST call's logical
    date is null; then `run_after`, the moment from which the run may start, stands in for its end.
    Raises WrongUse where such a call names more slices than a run takes, or years that have none.
    """
    last = floor(bounded(end or run_after), length)
    first = floor(bounded(start or last), length)
    return SliceRange(min(first, last - length), last, length).at_most()


def requested_slices(start: str, end: str, now: datetime, length: timedelta) -> SliceRange:
    """Returns the whole slices that hold a backfill's `[start, end)`.

    Raises WrongUse for texts that name no range, and for one of more slices than a run takes.
    """
    first, last = (parse_instant(text, now, length) for text in (start, end))
    return SliceRange.widen(first, last, length).at_most()


def refuse_future(slices: SliceRange, now: datetime, started: datetime | None = None) -> SliceRange:
    """Returns the slices. Raises EndInFuture, so that no run waits for an hour that is far from over.

    `started` is when the scheduler started the run, by its own clock: what was over then is over, and this
    machine's clock is behind.
    """
    if slices.end > max(utc(now), utc(started or now)):
        raise EndInFuture(f"{slices.end:%Y-%m-%dT%H:%MZ}", f"{utc(now):%Y-%m-%dT%H:%M:%SZ}")
    return slices


@contextmanager
def over_elsewhere() -> Iterator[None]:
    """Raises ClockBehind for an EndInFuture: for steps of a run whose range was over before they began."""
    try:
        yield
    except EndInFuture as error:
        raise ClockBehind(socket.gethostname(), error.now, error.instant) from error


def to_xcom(slices: SliceRange) -> dict[str, str]:
    return {"from": slices.start.to_iso8601_string(), "to": slices.end.to_iso8601_string()}


def from_xcom(value: dict[str, str], length: timedelta) -> SliceRange:
    start, end = (utc(datetime.fromisoformat(value[edge])) for edge in ("from", "to"))
    return SliceRange(start, end, length)


# The years are those of sluice.slices: no table's `_slice` holds others.
_DATE, _ZONE = r"(19[7-9]\d|20\d{2}|210[0-5])-\d{2}-\d{2}", r"(Z|[+-]\d{2}(:?\d{2})?)?"
INSTANT = rf"^(now|{_DATE}([T ]\d{{2}}(:?\d{{2}}(:?\d{{2}}(\.\d+)?)?)?{_ZONE})?)$"
DEFAULT_MODE = "fill"


def mode_of(params: Mapping[str, Any]) -> str:
    """Returns the backfill's mode; the hourly DAG has no params and always fills."""
    return asked_mode(str(params.get("mode", DEFAULT_MODE)), params.get("missing_columns") is True)


def accepts_loss(params: Mapping[str, Any]) -> bool:
    """Returns whether a remake or a reland may reject rows that are there."""
    return bool(params.get("accept_loss", False))


def refuse_unknown(params: Collection[str], dag_params: Collection[str]) -> None:
    """Raises WrongUse for a param that the DAG does not have. Airflow passes on every key of a run's conf,
    and a misspelled `dry-run` must not start a run that changes everything."""
    unknown = sorted(set(params) - set(dag_params))
    if not unknown:
        return
    near = get_close_matches(unknown[0], list(dag_params), 1)
    meant = f", did you mean {near[0]!r}?" if near else ""
    names, takes = line(", ".join(unknown), 200), ", ".join(dag_params) or "none"
    raise WrongUse(f"no such param: {names}{meant}; this DAG takes {takes}: nothing was done")


def tables_of(pipeline: Pipeline, params: Mapping[str, Any]) -> Tables | None:
    """Returns the backfill's tables with their rollups, None for all; the hourly DAG has no params.

    Raises WrongUse for a table that the pipeline file no longer has, and for a reland or a remake.
    """
    return tables_for(pipeline, params.get("tables") or (), mode_of(params))


def backfill_params(pipeline: Pipeline) -> dict[str, Param]:
    """Returns new params: Airflow keeps the value that a run resolved in the object, so every DAG has its
    own."""
    tables = [target.table for target in pipeline.targets]
    return _range_and_mode() | ({"tables": _tables_param(tables)} if tables else {})


def _tables_param(tables: list[str]) -> Param:
    return Param(
        [],
        type=["array", "null"],
        items={"type": "string", "enum": tables},
        examples=tables,  # Airflow's form makes a list to choose from of them
        description="Only these tables, each with its rollups and the traffic counts of its types alone; "
        "none means all. An hour that another table lacks is not published",
    )


def _range_and_mode() -> dict[str, Param]:
    return {
        "from": Param(
            type="string",
            pattern=INSTANT,
            maxLength=40,
            description="First instant, ISO 8601 (UTC without a zone), for example 2026-11-20T10:00Z. "
            f"A run takes at most {MOST_SLICES:,} slices",
        ),
        "to": Param(
            "now",
            type="string",
            pattern=INSTANT,
            maxLength=40,
            description="End, not included; `now` is the end of the last complete slice",
        ),
        "mode": Param(
            DEFAULT_MODE,
            type="string",
            enum=["fill", "reload", "reland", "repair", "remake"],
            description="fill: what is missing or stale. reload: ClickHouse again from the lake, by the "
            "pipeline file as it is. reland: Kafka again with the same boundaries, then the lake and "
            "ClickHouse, by each hour's own rules. For experts: repair is a reload by the rules of each "
            "hour's own last load, remake makes what has landed again from the lake's own records",
        ),
        "missing_columns": Param(
            False,
            type="boolean",
            description="With the mode reload: of what is loaded only what was loaded before a column was "
            "added, and may have its field. No row leaves a table",
        ),
        "accept_loss": Param(
            False,
            type="boolean",
            description="With the mode remake or reland: also where rows that are there would be rejected, "
            "and so leave lake and tables. Without it such slices stay as they are, and are named",
        ),
        "dry_run": Param(False, type="boolean", description="Only log what would be done"),
    }
