"""`sluice backfill`: the same range through Airflow."""

from __future__ import annotations

from typing import Annotated

import typer

from sluice.cli.options import (
    Config,
    DayOption,
    From,
    Json,
    ModeOption,
    PipelineArgument,
    To,
    asked_range,
    check_mode,
    load_pipeline,
)
from sluice.cli.output import print_json, print_line, progress
from sluice.cli.run import refuse_missing
from sluice.errors import WrongUse

Wait = Annotated[
    bool,
    typer.Option("--wait", help="Wait for the run's end; exit code 1 if it fails, 3 if only a cluster did."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what the run would do: with --wait here.")]


def backfill(
    pipeline: PipelineArgument,
    start: From = None,
    to: To = None,
    day: DayOption = None,
    mode: ModeOption = "fill",
    wait: Wait = False,
    dry_run: DryRunOption = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Triggers the DAG PIPELINE_backfill over [A, B) in Airflow.

    Example: sluice backfill adx --from 2026-11-20T00:00Z --to now --wait
    """
    from sluice.clients import airflow_rest as airflow
    from sluice.plan.progress import RangeProgress
    from sluice.state.survey import survey

    if config is not None:
        raise WrongUse("a backfill through Airflow takes a pipeline of include/pipelines: use `sluice run`")
    spec = load_pipeline(pipeline, None)
    slices = asked_range(spec, start, to, day)
    edges = (slices.start, slices.end)
    run_id = airflow.trigger(spec.name, *edges, check_mode(mode), dry_run, progress)
    progress(f"{spec.name}_backfill {slices}: run {run_id}")
    how_far = (lambda: "") if dry_run else RangeProgress(spec, slices).line
    state = airflow.wait(run_id, spec.name, progress, how_far) if wait else "queued"
    plan = airflow.planned(run_id, spec.name) if dry_run and state == "success" else []
    if json:
        answer = {"run_id": run_id, "state": state, "from": slices.start, "to": slices.end}
        print_json({**answer, "plan": plan} if dry_run else answer)
    else:
        for line in plan:
            print_line(line)
    if dry_run and not wait:
        progress("the task `plan` logs what the run would do; --wait shows it here")
    if state == "failed" and not dry_run:
        refuse_missing(spec, survey(spec, slices), mode, run_id)
    if state == "failed":
        raise typer.Exit(1)
