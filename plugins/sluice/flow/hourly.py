"""The hourly run in one process: what the hourly DAG's tasks do, in their order.

A batch is landed, loaded, verified and published; the next one does not wait for what a person has to mend
of it. Then the whole range is verified, clusters that were away are tried again, and old files are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path

import pendulum

from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.errors import Busy, Refused, SluiceError
from sluice.flow import steps
from sluice.flow.batch_loop import LandBatch, Landings, Ran, catch_up, resolve_and_note, run_batches
from sluice.flow.choose_backlog import left_out, older_of, turn_of
from sluice.flow.forget import forget_hourly
from sluice.plan.plan import PlannedWork, waits
from sluice.safe_text import Remark, Say
from sluice.slices import SliceRange, floor
from sluice.state.survey import survey_past

_FILL = "fill"


def newest_slices(pipeline: Pipeline, now: datetime) -> SliceRange:
    """Returns the range of the run that begins `now`: the newest slice that is over, back to `lookback`."""
    end = floor(now, pipeline.slice)
    return steps.hourly_range(pipeline, SliceRange(end - pipeline.slice, end, pipeline.slice))


def run_hour(
    pipeline: Pipeline,
    path: Path,
    slices: SliceRange,
    token: str,
    landings: Landings,
    land_alone: Callable[[str], LandBatch],
    say: Say,
) -> Ran:
    """Does the run of these slices, which have settled. `path` is the pipeline file; `land_alone` gives what
    lands a batch of one cluster, or raises.

    Raises what the steps raise: what a retry cures at once, other errors when nothing else is left to do.
    """
    with _then_forgets(pipeline, slices, say):
        silent = resolve_and_note(pipeline, path, slices, say)
        older = older_of(pipeline, slices)
        for cluster, why in older.waiting.items():
            say(waits(cluster, why))
        work = steps.work_in(pipeline, slices, _FILL)
        for batch in older.batches:
            say(f"older hours: {batch}")
            work = _with_batch(work, batch, steps.work_in(pipeline, batch, _FILL))
        if not work.batches:
            others = ", or waits for its cluster" if silent else ""
            say(f"nothing to do: every slice is complete{others}")
        finish = partial(_finish, pipeline, say)
        code = run_batches(pipeline, work, _FILL, token, landings, say, finish=finish)
        if code:
            return Ran(code, [], [])
        say(f"verify {slices}")
        statuses = steps.verify_range(pipeline, slices)
        steps.refuse_rejected(pipeline, slices)
        if older.error is not None:
            raise Refused(left_out(slices, older.error))
        if len(pipeline.clusters) > 1:
            _catch_up_each(pipeline, slices, token, land_alone, say)
            statuses = survey_past(pipeline, slices)
        return Ran(0, statuses, [])


def _with_batch(work: PlannedWork, batch: SliceRange, of_batch: PlannedWork) -> PlannedWork:
    """Adds a batch of older hours; `check` stays the run's own."""
    return PlannedWork(
        batches=(*work.batches, batch),
        land=(*work.land, (sum(n for n, _ in of_batch.land), sum(rows for _, rows in of_batch.land))),
        load=(*work.load, (of_batch.units, of_batch.rows)),
        check=work.check,
    )


def _finish(pipeline: Pipeline, say: Say, batch: SliceRange) -> list[SluiceError]:
    """Verifies and publishes a batch. Returns what is wrong of it, or not complete. Raises what else a retry
    cures."""
    try:
        steps.publish_range(pipeline, batch, steps.verify_range(pipeline, batch))
    except SluiceError as error:
        if error.retryable and not isinstance(error, Busy):
            raise
        say(Remark(error))
        return [error]
    return []


def _catch_up_each(
    pipeline: Pipeline, slices: SliceRange, token: str, land_alone: Callable[[str], LandBatch], say: Say
) -> None:
    """Raises the first error when each cluster was tried, and says the others."""
    errors: list[SluiceError] = []
    for cluster in pipeline.clusters:
        try:
            catch_up(pipeline, cluster, slices, _FILL, token, land_alone(cluster), say)
        except SluiceError as error:
            errors.append(error)
    for further in errors[1:]:
        say(str(further))
    if errors:
        raise errors[0]


@contextmanager
def _then_forgets(pipeline: Pipeline, slices: SliceRange, say: Say) -> Iterator[None]:
    """Forgets also when the run fails: an hour that does not land is no reason to keep old ones."""
    try:
        yield
    except SluiceError:
        try:
            _forget(pipeline, slices, say)
        except SluiceError as error:
            say(str(error))
        raise
    _forget(pipeline, slices, say)


def _forget(pipeline: Pipeline, slices: SliceRange, say: Say) -> None:
    if not pipeline.keep.forgets:
        return
    now = pendulum.now("UTC")
    forgotten = forget_hourly(pipeline, open_lake(pipeline), turn_of(slices), now, say)
    for unit, why in forgotten.waiting.items() if forgotten else ():
        say(f"{unit} keeps its files for now: {why}")
