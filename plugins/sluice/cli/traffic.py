"""`sluice traffic`: how much came, how much was to be expected, and what is expected next."""

from __future__ import annotations

from dataclasses import asdict

import pendulum
from rich.console import Group

from sluice.cli.options import Config, Json, PipelineArgument, load_pipeline
from sluice.cli.output import console, print_json, table_of
from sluice.cli.traffic_report import TrafficHour, by_value, hourly, plot
from sluice.config.counts import Counts
from sluice.errors import WrongUse

_VALUES = ("seen in 24 h", "expected", "seen", "difference", "expected next")
_HOURS = ("hour (UTC)", "expected", "seen", "difference", "█ seen  ░ expected")


def traffic(pipeline: PipelineArgument, config: Config = None, json: Json = False) -> None:
    """The traffic of the last 24 hours against what the days before let one expect, and of the 24 to come.

    Example: sluice traffic adx
    """
    from sluice.cli.traffic_report import traffic_of

    spec = load_pipeline(pipeline, config)
    if not spec.counts:
        raise WrongUse(f"pipeline {spec.name} counts nothing: `counts:` in its file does")
    found = {one.table: traffic_of(spec, one) for one in spec.counts}
    if json:
        print_json({table: [asdict(row) for row in rows] for table, rows in found.items()})
    else:
        for one in spec.counts:
            console().print(_shown(one, found[one.table], pendulum.now("UTC").int_timestamp))


def _shown(spec: Counts, found: list[TrafficHour], now: int) -> Group:
    field = next(iter(spec.by), "")
    title = f"{spec.table}: the last 24 hours, of them those for which something is expected, and the next 24"
    return Group(
        table_of(f"{spec.table}: rows by hour", _HOURS, plot(hourly(found), now)),
        table_of(title, (field or "all", *_VALUES), by_value(found)),
    )
