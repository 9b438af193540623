"""`sluice run`: the same steps as the DAGs, in this process, without Airflow."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from pathlib import Path

import typer

from sluice.cli.missing import refuse_missing
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
from sluice.errors import OutOfReach, ShardsWait, SluiceError
from sluice.pace import Pace
from sluice.pipeline import Pipeline
from sluice.pipeline_files import find
from sluice.plan import Work
from sluice.slices import SliceRange
from sluice.status import UnitStatus

# What spark_jobs/land.py exits with when doing it again can cure the error.
_TEMPORARY = 75


def run(
    pipeline: Name, start: From, to: To, mode: Mode = "fill", config: Config = None, json: Json = False
) -> None:
    """Resolves, lands, loads and verifies [A, B) in this process; it starts Spark itself.

    Whatever is already done is skipped (mode fill); stopping it at any moment and starting it again
    continues. One of several clusters that does not answer does not hold up the others; the exit code is 3
    then. Example: sluice run adx --from 2026-11-20T10:00Z --to 2026-11-20T14:00Z
    """
    spec = load_pipeline(pipeline, config)
    check_mode(mode)
    slices = slice_range(spec, start, to)
    token = uuid.uuid4().hex
    found, silent = _steps(spec, find(pipeline, config), slices, mode, token)
    if json:
        print_json({"pipeline": spec.name, "units": [as_json(s) for s in found]})
    else:
        show(spec, found, f"{spec.name} {slices}")
    refuse_missing(spec, found, mode, token, silent)


def _steps(
    spec: Pipeline, path: Path, slices: SliceRange, mode: str, token: str
) -> tuple[list[UnitStatus], Mapping[str, SluiceError]]:
    """What verify has seen, and the errors of clusters that did not answer, while others did."""
    from sluice import steps

    progress(f"resolve {slices}: {len(slices)} slices")
    resolved = steps.resolve_range(spec, slices)
    for record in resolved["stamped_ahead"]:
        progress(record)
    for cluster, why in resolved["waiting"].items():
        progress(f"cluster {cluster} waits: {why}")
    steps.check_targets(spec)
    work = steps.work_in(spec, slices, mode)
    if not work.batches:
        others = ", or waits for its cluster" if resolved["waiting"] else ""
        progress(f"nothing to do: every slice is complete{others}")
    failed = _batches(spec, path, work, mode, token)
    if failed:
        raise typer.Exit(failed)
    progress(f"verify {slices}")
    found = steps.verify_range(spec, slices)
    steps.publish_range(spec, slices, found)
    return found, resolved["waiting"]


def _batches(spec: Pipeline, path: Path, work: Work, mode: str, token: str) -> int:
    """Lands and loads batch after batch; the exit code of the landing that failed, or 0.

    Raises ShardsWait at the end, when one of the shards could not be loaded now.
    """
    from sluice import steps

    pace = Pace(work, steps.expected_time(spec, work))
    started, failed = time.monotonic(), 0
    waits: list[ShardsWait] = []
    for number, batch in enumerate(work.batches):
        name = f"batch {number + 1} of {len(work.batches)}"
        progress(f"{name}: land {batch}; {pace.line(number, number, time.monotonic() - started)}")
        failed = _land(spec, path, batch, mode, token) or failed
        for target in spec.targets:
            line = pace.line(number + 1, number, time.monotonic() - started)
            progress(f"{name}: load {target.table}; {line}")
            try:
                steps.load_table(spec, target.table, batch, mode, token, progress)
            except ShardsWait as error:
                # Its other shards are loaded; the other tables' and batches' are, too, before it is raised.
                progress(str(error))
                waits.append(error)
        done = pace.line(number + 1, number + 1, time.monotonic() - started)
        progress(f"{name}: {'not all of it landed' if failed else 'done'}; {done}")
    if waits:
        raise waits[0]
    return failed


def _land(spec: Pipeline, path: Path, batch: SliceRange, mode: str, token: str) -> int:
    """The exit code of the application, which says itself on stderr what went wrong.

    What has landed is loaded all the same: an hour that expired must not hold up those after it.
    """
    from sluice.landing.submit import run_locally, spark_submit_arguments

    code = run_locally(spark_submit_arguments(spec, path, batch, mode, token), progress)
    return OutOfReach.exit_code if code == _TEMPORARY else code
