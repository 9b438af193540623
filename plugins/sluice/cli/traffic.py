"""`sluice traffic`: how much came, how much was to be expected, and what is expected next."""

from __future__ import annotations

from dataclasses import asdict

import pendulum
from rich.console import Group

from sluice.cli.options import Config, Json, PipelineArgument, Wide, load_pipeline
from sluice.cli.output import TableColumn, console, print_json, show, table_of
from sluice.cli.traffic_report import TrafficHour, bar_width, by_value, hourly, plot
from sluice.config.counts import Counts
from sluice.errors import WrongUse

_VALUES = (
    TableColumn("seen in 24 h", 1),
    TableColumn("expected", 3),
    TableColumn("seen", 4),
    TableColumn("difference", 2),
    TableColumn("expected next", 5),
)
_HOURS = (
    TableColumn("hour (UTC)", 0, wraps=False),
    TableColumn("expected", 1),
    TableColumn("seen", 0),
    TableColumn("difference", 2),
    TableColumn("█ seen  ░ expected", 3),
)


def traffic(
    pipeline: PipelineArgument, wide: Wide = False, config: Config = None, json: Json = False
) -> None:
    """The traffic of the last 24 hours against what the days before let one expect, and of the 24 to come.

    Example: sluice traffic adx
    """
    from sluice.cli.traffic_report import traffic_of

    spec = load_pipeline(pipeline, config)
    if not spec.counts:
        raise WrongUse(f"pipeline {spec.name} counts nothing: `counts:` in its file does")
    hours_by_table = {counts.table: traffic_of(spec, counts) for counts in spec.counts}
    if json:
        print_json({table: [asdict(row) for row in rows] for table, rows in hours_by_table.items()})
    else:
        for counts in spec.counts:
            bar = bar_width(console(wide).width)
            show(
                _shown(counts, hours_by_table[counts.table], pendulum.now("UTC").int_timestamp, bar),
                wide=wide,
            )


def _shown(spec: Counts, hours: list[TrafficHour], now: int, bar: int) -> Group:
    field = next(iter(spec.by), "")
    title = f"{spec.table}: the last 24 hours, of them those for which something is expected, and the next 24"
    return Group(
        table_of(f"{spec.table}: rows by hour", _HOURS, plot(hourly(hours), now, bar)),
        table_of(title, (TableColumn(field or "all", 0), *_VALUES), by_value(hours)),
    )
