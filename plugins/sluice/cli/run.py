"""`sluice run`: the same steps as the DAGs, in this process, without Airflow."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sluice.cli.options import Config, From, Json, Mode, Name, To, check_mode, load_pipeline, slice_range
from sluice.cli.output import print_json, progress
from sluice.cli.status import as_json, show
from sluice.config.files import find
from sluice.config.pipeline import Pipeline
from sluice.errors import OutOfReach, ShardsWait, SluiceError
from sluice.plan.plan import Amount, Work
from sluice.plan.progress import Pace
from sluice.slices import SliceRange
from sluice.state.status import UnitStatus

if TYPE_CHECKING:
    from sluice.flow.land.submit import Running


from collections.abc import Sequence

from sluice.plan.waiting import waiting

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
    from sluice.flow import steps

    progress(f"resolve {slices}: {len(slices)} slices")
    resolved = steps.resolve_range(spec, slices)
    for line in (*resolved["stamped_ahead"], *resolved["held"]):
        progress(line)
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
    """Lands and loads batch after batch, each landing beside the load of the batch before; the exit code of
    the landing that failed, or 0.

    Raises ShardsWait at the end, when one of the shards could not be loaded now. Every other error stops the
    landing that is under way.
    """
    from sluice.flow import steps
    from sluice.flow.land.submit import Running

    pace = Pace(work, steps.expected_time(spec, work))
    started, failed, count = time.monotonic(), 0, len(work.batches)
    waits: list[ShardsWait] = []
    running = Running()
    parts: dict[int, Amount] = {}

    def say(number: int, what: str, landed: int, loaded: int) -> None:
        line = pace.line(landed, loaded, time.monotonic() - started, parts)
        progress(f"batch {number + 1} of {count}: {what}; {line}")

    def begin(number: int) -> Future[int]:
        say(number, f"land {work.batches[number]}", number, max(number - 1, 0))
        return ahead.submit(_land, spec, path, work.batches[number], mode, token, running)

    with ThreadPoolExecutor(1) as ahead, _stopped_by_errors(running):
        landings = [begin(0)] if count else []
        for number, batch in enumerate(work.batches):
            code = landings[number].result()
            failed = code or failed
            if number + 1 < count:
                landings.append(begin(number + 1))
            before = len(waits)
            for target in spec.targets:
                say(number, f"load {target.table}", number + 1, number)
                waits += _load(spec, target.table, batch, mode, token)
            if code or len(waits) > before:
                parts[number] = _done(spec, batch, work.load[number], mode)
            what = "not all of it landed" if code else "a shard waits" if number in parts else "done"
            say(number, what, number + 1, number + 1)
    if waits:
        raise waits[0]
    return failed


def _done(spec: Pipeline, batch: SliceRange, asked: Amount, mode: str) -> Amount:
    """What is done of a batch, some of which could not be landed or loaded. Of units that were complete
    before (other modes than fill), or where ClickHouse does not answer, nobody can tell, and none counts."""
    from sluice.flow import steps

    try:
        left = steps.work_in(spec, batch, mode) if mode == "fill" else None
    except OutOfReach:
        left = None
    if left is None:
        return 0, 0
    return max(0, asked[0] - left.units), max(0, asked[1] - left.rows)


def _load(spec: Pipeline, table: str, batch: SliceRange, mode: str, token: str) -> list[ShardsWait]:
    """What keeps one of its shards waiting: the others are loaded, and so are the other tables and batches
    before it is raised."""
    from sluice.flow import steps

    try:
        steps.load_table(spec, table, batch, mode, token, progress)
    except ShardsWait as error:
        progress(str(error))
        return [error]
    return []


@contextmanager
def _stopped_by_errors(running: Running) -> Iterator[None]:
    try:
        yield
    except BaseException:
        running.stop()
        raise


def _land(spec: Pipeline, path: Path, batch: SliceRange, mode: str, token: str, running: Running) -> int:
    """The exit code of the application, which says itself on stderr what went wrong.

    What has landed is loaded all the same: an hour that expired must not hold up those after it.
    """
    from sluice.flow.land.submit import run_locally, spark_submit_arguments

    code = run_locally(spark_submit_arguments(spec, path, batch, mode, token), progress, running)
    return OutOfReach.exit_code if code == _TEMPORARY else code


def refuse_missing(
    spec: Pipeline,
    found: Sequence[UnitStatus],
    mode: str,
    token: str,
    silent: Mapping[str, SluiceError] | None = None,
) -> None:
    """Raises ClusterWaits for the first cluster of which something has not landed; the others are told.

    `silent` says why clusters could not be resolved; one that went away later is asked again.
    """
    from sluice.clients.kafka.probe import knock_at

    left, known = waiting(spec, found, mode, token), silent or {}
    causes = {**known, **knock_at(spec, [part.cluster for part in left if part.cluster not in known])}
    errors = [part.error(spec, causes[part.cluster], mode) for part in left]
    for error in errors[1:]:
        progress(str(error))
    if errors:
        raise errors[0]
