"""`sluice doctor`: is everything fit for this pipeline?"""

from __future__ import annotations

from typing import Annotated

import typer

from sluice.cli.options import (
    Config,
    DayOption,
    Json,
    OptionalFrom,
    OptionalTo,
    PipelineArgument,
    day_or,
    load_pipeline,
    slice_range,
)
from sluice.cli.output import print_checks, print_json, print_line
from sluice.config.files import find
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse

NewestOption = Annotated[
    int, typer.Option("--sample", min=0, help="Newest records of each partition to read.")
]
Ddl = Annotated[
    str | None, typer.Option("--ddl", metavar="TYPE", help="Only propose a CREATE TABLE for this type.")
]
_SAMPLED = 500
_NOTES = 100


def doctor(
    pipeline: PipelineArgument,
    start: OptionalFrom = None,
    to: OptionalTo = "now",
    day: DayOption = None,
    sample: NewestOption = _SAMPLED,
    ddl: Ddl = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Checks Kafka, lake, Spark, ClickHouse and the tables' columns against real events; changes nothing.

    Exit code 1 when something has to be corrected, 3 when something does not answer. --from is the
    beginning of the range that shall be filled. Example: sluice doctor adx --from 2026-11-01
    """
    from sluice.doctor.check import exit_code
    from sluice.doctor.examine import Examination

    spec = load_pipeline(pipeline, config)
    if ddl is not None:
        return _propose(spec, ddl, sample, json)
    start, to = day_or(spec, start, to, day)
    since = start or (spec.since.isoformat() if spec.since else None)
    slices = slice_range(spec, since, to)
    examination = Examination(spec, find(pipeline, config), slices, sample)
    checks = list(examination.checks()) if json else print_checks(examination.checks())
    if json:
        print_json(
            {"pipeline": spec.name, "exit_code": exit_code(checks), "checks": [c.as_json() for c in checks]}
        )
    if code := exit_code(checks):
        raise typer.Exit(code)


def _propose(spec: Pipeline, kind: str, count: int, json: bool) -> None:
    from sluice.doctor.clickhouse import types_beside
    from sluice.doctor.examine import sampled
    from sluice.doctor.proposed_tables import propose
    from sluice.flow.load.casts.columns import RULES
    from sluice.state.departed_tables import to_begin_with

    sample = sampled(spec, count)
    kinds = types_beside(spec, kind)
    events = [item.event for item in sample.events if item.type in kinds]
    if not events:
        sampled_types = ", ".join(sample.types()) or "none"
        target = next((target for target in spec.targets if kind in target.types), None)
        begin = f"; create the table {to_begin_with(spec, target)}" if target else ""
        raise WrongUse(
            f"no event of type {kind!r} among the newest records; there are: {sampled_types}{begin}"
        )
    proposal = propose(spec, kind, events, RULES)
    notes = proposal.columns.notes()
    if json:
        left_out = proposal.columns.left_out
        answer = {
            "statement": proposal.statement,
            "entry": proposal.entry,
            "left_out": left_out,
            "notes": notes,
        }
        print_json({"type": kind, "events": len(events), **answer})
        return
    source = f"{len(events):,} events of type {', '.join(sorted(kinds))}"
    print_line(f"-- from {source}; below `tables:` in the pipeline file:")
    print_line(f"-- {proposal.entry}")
    for note in notes[:_NOTES]:
        print_line(f"-- {note}")
    print(f"{proposal.statement};")
