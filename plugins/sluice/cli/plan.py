"""`sluice plan`: what a backfill would do, per hour; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import pendulum
import typer

from sluice.cli import status_lines
from sluice.cli.options import (
    Config,
    DayOption,
    From,
    Json,
    MissingColumns,
    ModeOption,
    PipelineArgument,
    TableOption,
    To,
    Wide,
    asked_range,
    check_mode,
    load_pipeline,
    tables_of,
)
from sluice.cli.output import (
    TableColumn,
    print_facts,
    print_json,
    print_line,
    print_verdict,
    progress,
    show,
    table_of,
)
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError, WrongUse
from sluice.plan.dry_run import DryRun, lost, unit_json
from sluice.plan.plan import missing_lines, rows_of
from sluice.state.status import UnitStatus

Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="With --mode remake: what would change of every hour, and not of the few that were tried.",
    ),
]

_COLUMNS = (
    TableColumn("slice", 0),
    TableColumn("cluster", 2),
    TableColumn("state", 1, style=status_lines.style_of),
    TableColumn("does", 0),
    TableColumn("offsets", 6),
    TableColumn("rows", 5),
    TableColumn("reads", 7),
    TableColumn("Kafka no longer has", 3),
    TableColumn("lacks topics", 4),
)


def plan(
    pipeline: PipelineArgument,
    start: From = None,
    to: To = None,
    day: DayOption = None,
    mode: ModeOption = "fill",
    missing_columns: MissingColumns = False,
    table: TableOption = None,
    exact: Exact = False,
    wide: Wide = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """What a backfill of [A, B) would do, per hour: state, offsets, reads, what Kafka no longer has. Of more
    than 500 hours a line for each day, of more than 500 days for each month. With --mode remake also which
    rows and rejected records would change.

    Example: sluice plan adx --from 2026-11-20T00:00Z --to now
    """
    from sluice.flow.steps import dry_run
    from sluice.watch.obstacles import read_obstacles

    mode = check_mode(mode, missing_columns)
    if exact and mode != "remake":
        raise WrongUse(
            "--exact is for --mode remake: other modes change no row of the lake by the pipeline file"
        )
    spec = load_pipeline(pipeline, config)
    slices = asked_range(spec, start, to, day)
    tables = tables_of(spec, table, mode)
    dry = dry_run(spec, slices, mode, tables)
    obstacles = read_obstacles(spec, slices, tables, pendulum.now("UTC"))
    if json:
        print_json([unit_json(status, dry.does(status)) for status in dry.statuses])
        for line in obstacles:
            progress(f"in its way: {line}")
        return _raise_first(dry.silent)
    lines = status_lines.grouped(dry.statuses)
    title = status_lines.title(f"{spec.name} {slices}, mode {mode}", dry.statuses, lines)
    show(table_of(title, _COLUMNS, [_line(units, dry) for units in lines]), wide=wide)
    loads = ", ".join(target.table for target in spec.chosen(tables)) or "no table"
    print_facts({"slices": len(slices), **dry.facts, "loads": loads})
    for line in _remade(spec, dry, exact) if mode == "remake" else ():
        print_line(line)
    for line in (*dry.new_columns, *dry.mask, *dry.hints, *missing_lines(spec, dry.statuses)):
        print_line(line)
    for line in obstacles:
        print_line(f"in its way: {line}")
    print_verdict(_verdict(dry, obstacles), good=not obstacles)
    _raise_first(dry.silent)


def _verdict(dry: DryRun, obstacles: Sequence[str]) -> str:
    """Returns what the plan comes to, in a line."""
    units = dry.work.units
    if not units:
        return "nothing to do"
    does = f"{units:,} {'unit' if units == 1 else 'units'} to do, {dry.time}"
    if obstacles:
        return f"{does}; {len(obstacles):,} {'thing is' if len(obstacles) == 1 else 'things are'} in its way"
    return f"{does}; nothing is in its way"


def _remade(spec: Pipeline, dry: DryRun, exact: bool) -> Iterator[str]:
    """Yields how many units were tried, and what would change of each: those with most rejected records, or
    all."""
    from sluice.clients.lake.open import open_lake
    from sluice.flow.land.remake import forecast, sampled

    manifests = {s.unit: s.manifest for s in dry.statuses if s.manifest is not None and not s.gone}
    chosen = list(manifests) if exact else sampled(manifests)
    if len(chosen) < len(manifests):
        yield f"tried on {len(chosen):,} of {len(manifests):,} units; --exact tries all:"
    for change in forecast(spec, open_lake(spec), {unit: manifests[unit] for unit in chosen}):
        yield str(change)


def _line(units: Sequence[UnitStatus], dry: DryRun) -> tuple[object, ...]:
    lacking = dict.fromkeys(
        name for s in units for name in (*map(str, s.lacking), *(f"counts {table}" for table in s.uncounted))
    )
    return (
        status_lines.name_of(units),
        units[0].unit.cluster,
        status_lines.counted(status.planned for status in units),
        status_lines.counted(map(dry.does, units)),
        sum(status.offsets for status in units),
        sum(map(rows_of, units)),
        sum(status.reads for status in units),
        lost(loss for status in units for loss in status.losses),
        ", ".join(lacking),
    )


def _raise_first(unreachable: Mapping[str, SluiceError]) -> None:
    """The plan of a cluster that does not answer is not known: the other clusters' is printed before."""
    for error in unreachable.values():
        raise error
