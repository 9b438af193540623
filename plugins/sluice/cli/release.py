"""`sluice release`: hours that a check holds."""

from __future__ import annotations

from typing import Annotated

import typer

from sluice.cli.options import (
    Config,
    DayOption,
    From,
    Json,
    PipelineArgument,
    To,
    asked_range,
    load_pipeline,
    user_name,
)
from sluice.cli.output import print_json, print_line
from sluice.config.pipeline import chosen_tables
from sluice.plan.modes import LOADS_AGAIN

TableOption = Annotated[
    str,
    typer.Option("--table", metavar="T", help="The table that lacks them: database.table, or a type."),
]


def release(
    pipeline: PipelineArgument,
    table: TableOption,
    start: From = None,
    to: To = None,
    day: DayOption = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Lets hours in that a check with `on_fail: hold` keeps out of a table; the next load takes them.

    It holds for what has landed of them by now, and for the checks that they fail: an hour that is landed
    again is held again.
    Example: sluice release adx --table adx.clicks --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z
    """
    from sluice.clients.lake.open import open_lake
    from sluice.state.held import release as release_held

    spec = load_pipeline(pipeline, config)
    slices = asked_range(spec, start, to, day)
    chosen = chosen_tables(spec, [table], counts=False)
    name = next(target.table for target in spec.chosen(chosen))  # before those that are made of it
    found = release_held(open_lake(spec), slices, name, user_name())
    if json:
        released = {slice_id: [one.words for one in held] for slice_id, held in found.items()}
        print_json({"table": name, "released": released})
        return
    for slice_id, held in sorted(found.items()):
        print_line(f"{slice_id} released: {', '.join(one.words for one in held)}")
    if not found:
        print_line(f"nothing of table {name} is held in {slices}")
    for mode in sorted({one.mode for held in found.values() for one in held}):
        asked = "reload" if mode in LOADS_AGAIN else "fill"  # what the run asked for is done no more
        print_line(f"load them: `{spec.command('run', *slices.words, '--table', name, '--mode', asked)}`")
