"""`sluice backfill`: the same range through Airflow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    YesOption,
    asked_range,
    check_mode,
    load_pipeline,
    refuse_future,
    refuse_yes,
    tables_of,
)
from sluice.cli.output import print_json, print_line, progress
from sluice.cli.run import refuse_missing
from sluice.errors import WrongUse

if TYPE_CHECKING:
    from sluice.clients.airflow_rest.backfill_run import BackfillAsked
    from sluice.config.pipeline import Pipeline
    from sluice.slices import SliceRange

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only say what the run would do: with --wait here.")
]
WaitOption = Annotated[
    bool,
    typer.Option(
        "--wait",
        help="Wait for the run's end, and tell what its tasks do; exit code 1 if it fails or is deleted, 3 "
        "if only a cluster did.",
    ),
]


def backfill(
    pipeline: PipelineArgument,
    start: From = None,
    to: To = None,
    day: DayOption = None,
    mode: ModeOption = "fill",
    missing_columns: MissingColumns = False,
    table: TableOption = None,
    wait: WaitOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Triggers the DAG PIPELINE_backfill over [A, B) in Airflow, which the connection sluice_airflow names.

    Example: sluice backfill adx --from 2026-11-20T00:00Z --to now --wait
    """
    from sluice.clients.airflow_rest.backfill_run import BackfillAsked
    from sluice.state.survey import survey

    if config is not None:
        raise WrongUse(
            "--config: Airflow's tasks read their own copy of the pipeline file; let SLUICE_PIPELINES name "
            "its folder here, or let `run` load it"
        )
    spec = load_pipeline(pipeline, None)
    slices = asked_range(spec, start, to, day)
    refuse_future(slices)
    mode = check_mode(mode, missing_columns)
    chosen = tables_of(spec, table, mode)
    refuse_yes(yes, mode)
    names = tuple(sorted(chosen or ()))
    asked = BackfillAsked(spec.name, slices.start, slices.end, mode, dry_run, names, yes)
    answer = _ask(asked, str(slices), _how_far(spec, asked, slices, chosen) if wait else None)
    _print(asked, answer, json, wait)
    if answer["state"] == "failed" and not dry_run:
        refuse_missing(spec, survey(spec, slices), mode, answer["run_id"])
    if answer["state"] in ("failed", "deleted"):
        raise typer.Exit(1)


def _how_far(
    spec: Pipeline, asked: BackfillAsked, slices: SliceRange, chosen: Collection[str] | None
) -> Callable[[], str]:
    """Returns what says how far the run is; of what is done again, as it is before the run."""
    from sluice.flow.verify.facts import narrowed
    from sluice.plan.progress import RangeProgress, RedoneProgress
    from sluice.state.survey import survey

    if asked.dry_run:
        return lambda: ""
    if asked.mode == "fill":
        return RangeProgress(spec, slices, lambda *of: narrowed(spec, survey(*of), chosen), chosen).line
    return RedoneProgress(spec, slices, asked.mode, survey(spec, slices)).line


def _print(asked: BackfillAsked, answer: Mapping[str, Any], json: bool, waited: bool) -> None:
    if json:
        print_json({**answer, "from": asked.start, "to": asked.end})
    else:
        for line in answer.get("plan", ()):
            print_line(line)
    if asked.dry_run and not waited:
        progress("the task `plan` logs what the run would do; --wait shows it here")


def _ask(asked: BackfillAsked, span: str, how_far: Callable[[], str] | None) -> dict[str, Any]:
    """Triggers the run, and waits for it where there is a `how_far`. Raises Unavailable and WrongUse."""
    from sluice.clients.airflow_rest.backfill_run import Wait, planned, trigger
    from sluice.clients.airflow_rest.session import access, open_session

    with open_session(access()) as session:
        run = trigger(session, asked, progress)
        progress(f"{run.dag_id} {span}: run {run.run_id}, {run.url}")
        answer: dict[str, Any] = {"run_id": run.run_id, "state": "queued"}
        if how_far is None:
            return {**answer, **({"plan": []} if asked.dry_run else {})}
        waiting = Wait(session, run, progress, how_far)
        try:
            answer["state"] = waiting.until_end()
        except KeyboardInterrupt:
            progress(f"the run goes on in Airflow: {run.url}")
            raise
        if asked.dry_run:
            answer["plan"] = planned(session, run) if answer["state"] == "success" else []
        if answer["state"] == "failed":
            failed = waiting.failed()
            progress(f"failed: {', '.join(failed) or 'no task'}: {run.url}")
            answer["failed"] = failed
    return answer
