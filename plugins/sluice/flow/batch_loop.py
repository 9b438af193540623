"""The loop over the batches of a run: each is landed and loaded into every table; then the range is verified
and published. `sluice run` and Airflow's `cluster` tasks share it; Airflow's other tasks call the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sluice.clients.kafka.topic_facts import TopicsOf
from sluice.clients.kafka.topics import open_topics, probe_cluster
from sluice.config.pipeline import Pipeline, Tables
from sluice.errors import Busy, Conservation, ShardsWait, SluiceError, Unavailable
from sluice.flow import steps
from sluice.flow.verify.facts import narrowed
from sluice.plan.batches import spells
from sluice.plan.plan import PlannedWork, UnitsAndRows, Waiting, waiting, waits, work_of
from sluice.plan.progress import BatchProgress, Pace
from sluice.safe_text import Remark, Say
from sluice.slices import SliceRange, Unit
from sluice.state.status import UnitStatus
from sluice.state.survey import survey_past

LandBatch = Callable[[SliceRange], int]
"""Lands a batch and returns the exit code of the application, which reports its error itself."""

Begun = Callable[[int], None]
"""Is called with the number of a batch when its landing begins."""

Landings = Callable[[Sequence[SliceRange], Begun], Generator[int, None, None]]
"""Lands batches in order and gives the code of each."""


Finish = Callable[[SliceRange], list[SluiceError]]
"""Ends a batch that has landed and is in every table; returns what does not hold up the batches after it."""


def landed_before(batches: Sequence[SliceRange], begun: Begun) -> Generator[int, None, None]:
    """Lands nothing: all units of the batches have landed."""
    for number, _ in enumerate(batches):
        begun(number)
        yield 0


def one_by_one(land: LandBatch, batches: Sequence[SliceRange], begun: Begun) -> Generator[int, None, None]:
    """Runs each landing when the batch before is loaded."""
    for number, batch in enumerate(batches):
        begun(number)
        yield land(batch)


def one_ahead(
    land: LandBatch, stop: Callable[[], None], batches: Sequence[SliceRange], begun: Begun
) -> Generator[int, None, None]:
    """Runs each landing, in a thread, beside the load of the batch before. After an error, `stop` ends the
    one under way."""
    running: Future[int] | None = None
    with ThreadPoolExecutor(1) as ahead:
        try:
            for number, batch in enumerate(batches):
                code = running.result() if running else None
                begun(number)
                running = ahead.submit(land, batch)
                if code is not None:
                    yield code
            if running:
                yield running.result()
        except BaseException:  # GeneratorExit, too: a load has failed
            stop()
            raise


class Ran(NamedTuple):
    """`code`: that of a landing which failed, and then nothing is verified or published; else 0."""

    code: int
    statuses: list[UnitStatus]
    published: list[dict[str, Any]]


def resolve_and_note(
    pipeline: Pipeline, path: Path, slices: SliceRange, say: Say
) -> Mapping[str, SluiceError]:
    """Stores the range's boundaries, and keeps the text of the pipeline file at `path`. Returns the error of
    each cluster that did not answer. Raises what `resolve_range` raises."""
    say(f"resolve {slices}: {len(slices)} slices")
    resolved = steps.resolve_range(pipeline, slices)
    silent: Mapping[str, SluiceError] = resolved["waiting"]
    steps.note_file(pipeline, path, silent)
    for line in (*resolved["topics"], *resolved["stamped_ahead"], *resolved["held"]):
        say(line)
    for cluster, why in silent.items():
        say(waits(cluster, why))
    return silent


def run_work(
    pipeline: Pipeline,
    slices: SliceRange,
    work: PlannedWork,
    mode: str,
    token: str,
    landings: Landings,
    say: Say,
    tables: Tables | None = None,
) -> Ran:
    """Does `work`, then verifies and publishes `slices`. `tables` chooses what is loaded: whole hours are
    verified and published. Raises what the steps raise."""
    code = run_batches(pipeline, work, mode, token, landings, say, tables)
    if code:
        return Ran(code, [], [])
    say(f"verify {slices}")
    statuses = steps.verify_range(pipeline, slices, tables)
    return Ran(0, statuses, steps.publish_range(pipeline, slices, statuses, tables))


def verify_chosen(
    pipeline: Pipeline, units: Collection[Unit], say: Say, tables: Tables | None = None
) -> list[SluiceError]:
    """Verifies and publishes the slices of these units, as `run_work` does a range. Returns what is wrong of
    some, and what is not complete: the others do not wait for it."""
    wrong: list[SluiceError] = []
    for spell in spells(sorted({unit.slice for unit in units})):
        say(f"verify {spell}")
        try:
            statuses = steps.verify_range(pipeline, spell, tables)
            steps.publish_range(pipeline, spell, statuses, tables)
        except (Conservation, Busy) as error:
            wrong.append(error)
    return wrong


def run_batches(
    pipeline: Pipeline,
    work: PlannedWork,
    mode: str,
    token: str,
    landings: Landings,
    say: Say,
    tables: Tables | None = None,
    only: Collection[Unit] | None = None,
    finish: Finish = lambda _: [],
) -> int:
    """Lands and loads batch after batch; returns the code of the last landing that failed, or 0. What has
    landed is loaded nevertheless: an hour that expired must not hold up those after it. `only` these units
    are loaded. `finish` gets the batches that are done.

    Raises at the end ShardsWait when one of the shards could not be loaded now, what a person has to mend of
    a table, and what `finish` returned: none holds up other tables.
    """
    report = BatchProgress(Pace(work, steps.estimated_time(pipeline, work)), say)
    failed, waits = 0, list[SluiceError]()
    with closing(landings(work.batches, lambda n: report(n, f"land {work.batches[n]}", n))) as codes:
        for number, code in enumerate(codes):
            batch, before = work.batches[number], len(waits)
            failed = code or failed
            for target in pipeline.chosen(tables):
                report(number, f"load {target.table}", number + 1)
                waits += _load(pipeline, target.table, batch, mode, token, say, only)
            partly = bool(code) or len(waits) > before
            waits += [] if partly else finish(batch)
            report.done(_done(pipeline, batch, work.load[number], mode, tables) if partly else None)
            report(
                number,
                "not all of it landed" if code else "not all of it loaded" if partly else "done",
                number + 1,
            )
    if waits:
        raise waits[0]
    return failed


def _done(
    pipeline: Pipeline, batch: SliceRange, asked: UnitsAndRows, mode: str, tables: Tables | None
) -> UnitsAndRows:
    """Returns the units and rows done of a batch that partly failed.

    Only `fill` can tell: with other modes the units were complete before. With those, and where ClickHouse
    does not answer, it is 0.
    """
    try:
        work_left = steps.work_in(pipeline, batch, mode, tables) if mode == "fill" else None
    except Unavailable:
        work_left = None
    if work_left is None:
        return 0, 0
    return max(0, asked[0] - work_left.units), max(0, asked[1] - work_left.rows)


def _load(
    pipeline: Pipeline,
    table: str,
    batch: SliceRange,
    mode: str,
    token: str,
    say: Say,
    only: Collection[Unit] | None,
) -> list[SluiceError]:
    """Loads a batch into one table. Returns the error of a shard that waits, or one that no retry cures: it
    is raised after the other shards, tables and batches are loaded."""
    try:
        steps.load_table(pipeline, table, batch, mode, token, say, only)
    except SluiceError as error:
        if error.retryable and not isinstance(error, ShardsWait):
            raise
        say(Remark(error))
        return [error]
    return []


# Lands and loads what is missing of one cluster of several, alone, after the others are done.


def catch_up(
    pipeline: Pipeline,
    cluster: str,
    slices: SliceRange,
    mode: str,
    token: str,
    land: LandBatch,
    say: Say,
    topics_of: TopicsOf = open_topics,
    tables: Tables | None = None,
) -> list[dict[str, Any]]:
    """Brings what is not landed of the cluster, and returns what became available as `publish_range` does.

    `land` lands a batch of this cluster only, or raises. `tables`: only these are loaded.
    Does nothing where nothing is missing. Raises ClusterWaits when the cluster cannot be read, and what the
    steps raise.
    """
    still_waiting = left_of(pipeline, cluster, slices, mode, token)
    if still_waiting is None:
        say(f"cluster {cluster}: nothing is missing of {slices}")
        return []
    cause = probe_cluster(pipeline.cluster(cluster), topics_of)
    if cause is not None:
        raise still_waiting.error(pipeline, cause, mode)
    say(f"{still_waiting}; the cluster answers: catching up")
    alone = pipeline.model_copy(update={"kafka": [pipeline.cluster(cluster)]})
    steps.resolve_range(alone, still_waiting.slices)
    statuses = [s for s in survey_past(pipeline, still_waiting.slices) if s.unit.cluster == cluster]
    work, landings = work_of(narrowed(pipeline, statuses, tables), mode), partial(one_by_one, land)
    return run_work(pipeline, still_waiting.slices, work, mode, token, landings, say, tables).published


def left_of(pipeline: Pipeline, cluster: str, slices: SliceRange, mode: str, token: str) -> Waiting | None:
    """Returns what is not landed of the cluster's part of the slices."""
    by_cluster = waiting(pipeline, survey_past(pipeline, slices), mode, token)
    return next((one for one in by_cluster if one.cluster == cluster), None)
