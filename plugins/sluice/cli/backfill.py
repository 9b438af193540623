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
from sluice.cli.output import print_json, progress
from sluice.cli.run import refuse_missing
from sluice.errors import WrongUse

Wait = Annotated[
    bool,
    typer.Option("--wait", help="Wait for the run's end; exit code 1 if it fails, 3 if only a cluster did."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only log what the run would do.")]


def backfill(
    pipeline: PipelineArgument,
    start: From = None,
    to: To = None,
    day: DayOption = None,
    mode: ModeOption = "fill",
    wait: Wait = False,
    dry_run: DryRun = False,
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
    run_id = airflow.trigger(spec.name, slices.start, slices.end, check_mode(mode), dry_run)
    progress(f"{spec.name}_backfill {slices}: run {run_id}")
    state = airflow.wait(run_id, spec.name, progress, RangeProgress(spec, slices).line) if wait else "queued"
    if json:
        print_json({"run_id": run_id, "state": state, "from": slices.start, "to": slices.end})
    if state == "failed":
        refuse_missing(spec, survey(spec, slices), mode, run_id)
        raise typer.Exit(1)
