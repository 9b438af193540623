"""`sluice run`: the same steps as the DAGs, in this process, without Airflow."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import typer

from sluice.cli.options import (
    Config,
    From,
    Json,
    Mode,
    Name,
    To,
    check_mode,
    load_pipeline,
    slice_range,
)
from sluice.cli.output import print_json, progress
from sluice.cli.status import as_json, show
from sluice.errors import OutOfReach
from sluice.pace import Pace
from sluice.pipeline import Pipeline
from sluice.pipeline_files import find
from sluice.plan import Work
from sluice.slices import SliceRange

# What spark_jobs/land.py exits with when doing it again can cure the error.
_TEMPORARY = 75


def run(
    pipeline: Name, start: From, to: To, mode: Mode = "fill", config: Config = None, json: Json = False
) -> None:
    """Resolves, lands, loads and verifies [A, B) in this process; it starts Spark itself.

    Whatever is already done is skipped (mode fill); stopping it at any moment and starting it again
    continues. Example: sluice run adx --from 2026-11-20T10:00Z --to 2026-11-20T14:00Z
    """
    spec = load_pipeline(pipeline, config)
    check_mode(mode)
    slices = slice_range(spec, start, to)
    _steps(spec, find(pipeline, config), slices, mode)
    from sluice.survey import survey

    found = survey(spec, slices)
    if json:
        print_json({"pipeline": spec.name, "units": [as_json(s) for s in found]})
    else:
        show(spec, found, f"{spec.name} {slices}")


def _steps(spec: Pipeline, path: Path, slices: SliceRange, mode: str) -> None:
    from sluice import steps

    token = uuid.uuid4().hex
    progress(f"resolve {slices}: {len(slices)} slices")
    for record in steps.resolve_range(spec, slices)["stamped_ahead"]:
        progress(record)
    steps.check_targets(spec)
    work = steps.work_in(spec, slices, mode)
    if not work.batches:
        progress("nothing to do: every slice is complete")
    failed = _batches(spec, path, work, mode, token)
    if failed:
        raise typer.Exit(failed)
    progress(f"verify {slices}")
    steps.verify_range(spec, slices)
    steps.publish_range(spec, slices)


def _batches(spec: Pipeline, path: Path, work: Work, mode: str, token: str) -> int:
    """Lands and loads batch after batch; the exit code of the landing that failed, or 0."""
    from sluice import steps

    pace = Pace(work, steps.expected_time(spec, work))
    started, failed = time.monotonic(), 0
    for number, batch in enumerate(work.batches):
        name = f"batch {number + 1} of {len(work.batches)}"
        progress(f"{name}: land {batch}; {pace.line(number, number, time.monotonic() - started)}")
        failed = _land(spec, path, batch, mode, token) or failed
        for target in spec.targets:
            line = pace.line(number + 1, number, time.monotonic() - started)
            progress(f"{name}: load {target.table}; {line}")
            steps.load_table(spec, target.table, batch, mode, token, progress)
        done = pace.line(number + 1, number + 1, time.monotonic() - started)
        progress(f"{name}: {'not all of it landed' if failed else 'done'}; {done}")
    return failed


def _land(spec: Pipeline, path: Path, batch: SliceRange, mode: str, token: str) -> int:
    """The exit code of the application, which says itself on stderr what went wrong.

    What has landed is loaded all the same: an hour that expired must not hold up those after it.
    """
    from sluice.landing.submit import run_locally, spark_submit_arguments

    code = run_locally(spark_submit_arguments(spec, path, batch, mode, token), progress)
    return OutOfReach.exit_code if code == _TEMPORARY else code
