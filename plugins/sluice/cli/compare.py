"""`sluice compare`: one of the pipeline's tables against another table of the same events."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import pendulum
import typer

from sluice.cli.options import (
    Config,
    Json,
    KnownFrom,
    OptionalTo,
    PipelineArgument,
    Wide,
    known_range,
    load_pipeline,
)
from sluice.cli.output import Progress, TableColumn, print_json, print_line, print_verdict, show, table_of
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import WrongUse
from sluice.slices import SliceRange

_MOST_HOURS = 24
_COLUMNS = [
    TableColumn("hour (UTC)", 0, wraps=False),
    TableColumn("type", 3),
    TableColumn("here", 2),
    TableColumn("there", 2),
    TableColumn("missing", 0),
    TableColumn("extra", 0),
    TableColumn("doubled", 0),
    TableColumn("different", 0),
]

Other = Annotated[
    str, typer.Option("--with", metavar="DB.TABLE", help="The other table, on the same server.")
]
Key = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="COLUMN",
        help="What tells one event from another, in both tables; repeatable. Default: `_topic`, `_partition` "
        "and `_offset` where both have them, else the whole row.",
    ),
]
Time = Annotated[
    str | None,
    typer.Option("--time", metavar="COLUMN", help="The event time in both. Default: the pipeline's field."),
]
Table = Annotated[
    str | None,
    typer.Option(
        "--table", metavar="T", help="The pipeline's table, if it has several: database.table, or a type."
    ),
]
Samples = Annotated[int, typer.Option("--samples", min=0, max=1000, help="Keys to name of each kind.")]
Same = Annotated[bool, typer.Option("--same", help="Name keys that both have alike, too.")]


def compare(
    pipeline: PipelineArgument,
    other: Other,
    key: Key = None,
    time: Time = None,
    table: Table = None,
    start: KnownFrom = None,
    to: OptionalTo = "now",
    samples: Samples = 3,
    same: Same = False,
    wide: Wide = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Compares a table of the pipeline with one that something else has loaded with the same events.

    Says for each hour and type what is missing there, extra, there more often, or has other values. Columns
    that only one has are named. Changes nothing. The exit code is 1 if they differ, or rows have no time.
    Example: sluice compare adx --with old.clicks --table adx.clicks --key id
    """
    from sluice.clients.clickhouse.shards import connect_shards
    from sluice.flow.compare import KINDS, SAME
    from sluice.flow.compare import compare as compare_tables

    spec = load_pipeline(pipeline, config)
    if spec.clickhouse.shards:
        raise WrongUse(f"pipeline {spec.name} loads shards: compare reads the tables of one server")
    target, slices = _target(spec, table), known_range(spec, start, to)
    kinds = (*KINDS, SAME) if same else KINDS
    with connect_shards(spec) as (server,):
        arguments = (
            server.reached,
            spec,
            target,
            other,
            slices,
            tuple(key or ()),
            time or "",
            kinds,
            samples,
        )
        found = compare_tables(*arguments, say=Progress(verbose=False))
    notes = _not_complete(spec, slices)
    differing, total = [hour for hour in found.hours if hour.differs], found.total
    if json:
        counts = [asdict(hour) | {"hour": _hour(hour.hour)} for hour in found.hours]
        named = [asdict(sample) | {"hour": _hour(sample.hour)} for sample in found.samples]
        rest = {"untimed": found.untimed, "notes": notes}
        print_json({"how": asdict(found.how), "hours": counts, "samples": named, **rest})
    else:
        title = f"{target.table} and {other}: hours that differ, {len(differing):,} of {len(found.hours):,}"
        rows = [
            [_hour(h.hour), h.type, h.ours, h.theirs, h.missing, h.extra, h.doubled, h.different]
            for h in differing[:_MOST_HOURS]
        ]
        if rows:
            show(table_of(title, _COLUMNS, rows), wide=wide)
        if len(differing) > _MOST_HOURS:
            print_line(f"and {len(differing) - _MOST_HOURS:,} more: --json lists all")
        for sample in found.samples:
            values = ", ".join(
                f"{name}: {ours!r} here, {theirs!r} there" for name, (ours, theirs) in sample.columns.items()
            )
            name = ", ".join(f"{column}={value}" for column, value in sample.key.items())
            print_line(f"{sample.kind}, {_hour(sample.hour)}: {name}{'; ' if values else ''}{values}")
        if found.how.left_out:
            print_line(f"not compared: {', '.join(found.how.left_out)}")
        for name, count in zip((target.table, other), found.untimed, strict=True):
            if count:
                print_line(f"not compared: {count:,} rows of {name} without {found.how.time}")
        for note in notes:
            print_line(note)
        verdict = _verdict(target.table, other, total.counts, len(differing))
        print_verdict(verdict, not (differing or any(found.untimed)))
    if differing or any(found.untimed):
        raise typer.Exit(1)


def _verdict(ours: str, other: str, counts: tuple[int, ...], hours: int) -> str:
    here, there, same, missing, extra, doubled, different = counts
    if not hours:
        return f"{other} has the {same:,} rows of {ours} in these hours, and no others"
    said = {"missing": missing, "extra": extra, "doubled": doubled, "different": different}
    found = ", ".join(f"{count:,} {name}" for name, count in said.items() if count)
    return f"{other} differs in {hours:,} hours: {found} ({here:,} rows here, {there:,} there)"


def _not_complete(spec: Pipeline, slices: SliceRange) -> list[str]:
    """Says which hours are not loaded yet: what they lack here counts as extra there."""
    from sluice.state.survey import survey

    left = sorted({status.unit.slice for status in survey(spec, slices) if not status.state.done})
    if not left:
        return []
    hours = left[0].id if len(left) == 1 else f"{len(left):,} hours from {left[0].id} to {left[-1].id}"
    return [f"not complete: {hours}; what they still lack here counts as extra there"]


def _hour(seconds: int) -> str:
    return f"{pendulum.from_timestamp(seconds):%Y-%m-%d %H:%M}"


def _target(spec: Pipeline, name: str | None) -> Target:
    targets = [target for target in spec.targets if name in (None, target.table, *target.types)]
    if len(targets) != 1:
        tables = ", ".join(target.table for target in spec.targets)
        raise WrongUse(f"name one table by --table: pipeline {spec.name} has {tables or 'none'}")
    return targets[0]
