"""Reads the backlog and chooses what of it a run takes: the adapter of `sluice.plan.backlog`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

import pendulum

from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.clients.lake.temporary import Overlay
from sluice.config.pipeline import Pipeline
from sluice.errors import KafkaUnavailable, PartitionMissing, SluiceError, TopicRecreated, UnknownTopic
from sluice.flow.resolve.resolve import raise_if_all, resolve, retained_losses
from sluice.flow.steps import resolve_range
from sluice.manifest import Loss, Manifest
from sluice.plan.backlog import Backlog, backlog_of, batches_of, chosen, hours_until, stuck, windows
from sluice.slices import SliceRange, Unit
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries
from sluice.state.boundaries.outside import accept_command
from sluice.state.manifests import read_manifests
from sluice.state.months import note, read_summaries
from sluice.state.status import UnitStatus
from sluice.state.survey import survey_of
from sluice.state.unit_state import UnitState
from sluice.state.units import awaits, topics_of, unit_ranges, units_of

MOST_WINDOWS = 4
"""Ranges of the backlog that are surveyed for units completed since a step last noted them."""


def backlog_before(
    pipeline: Pipeline, lake: Lake, until: datetime, boundaries: Boundaries | None = None
) -> Backlog:
    """Returns the units before `until` that the summaries do not call complete. Raises what the lake
    raises."""
    stored = BoundaryLog(lake).read() if boundaries is None else boundaries
    hours = hours_until(pipeline, stored, until)
    if hours is None:
        return Backlog()
    return backlog_of(pipeline, stored, hours, read_summaries(lake, hours))


def seen_backlog(pipeline: Pipeline, lake: Lake, until: datetime) -> Backlog:
    """Reads as `backlog_before` does, and surveys the oldest part; changes nothing.

    Raises what the lake and ClickHouse raise.
    """
    boundaries = BoundaryLog(lake).read()
    backlog = backlog_before(pipeline, lake, until, boundaries)
    resolved = [unit for unit in backlog.states if _resolved(pipeline, boundaries, unit)]
    for window in windows(resolved)[:MOST_WINDOWS]:
        backlog = backlog.seen(survey_of(pipeline, window, lake, boundaries))
    return backlog


@dataclass(frozen=True)
class Older:
    """The batches that a run takes of the backlog; `waiting` has the error of each cluster that could not be
    asked. `error` kept the run from older hours: its own do not wait for what an older one needs, and it
    fails at its end."""

    batches: tuple[SliceRange, ...] = ()
    waiting: Mapping[str, SluiceError] = field(default_factory=dict)
    error: SluiceError | None = None


def older_of(pipeline: Pipeline, slices: SliceRange) -> Older:
    """Returns what the hourly run of `slices` does beside them; nothing when it is a run for a past hour.

    Raises what a retry cures of what `older_batches` raises.
    """
    if slices.end + pipeline.lookback < pendulum.now("UTC"):
        return Older()
    try:
        return older_batches(pipeline, slices.start, turn_of(slices))
    except SluiceError as error:
        if error.retryable:
            raise
        return Older(error=error)


def turn_of(slices: SliceRange) -> int:
    """Returns the number of the run of these slices."""
    return slices.end.int_timestamp // int(slices.length.total_seconds())


def left_out(slices: SliceRange, error: object) -> str:
    """Says what the run of `slices` did not do beside them, and why."""
    return f"hours before {slices.start:%Y-%m-%dT%H:%MZ} were left out: {error}"


def older_batches(pipeline: Pipeline, until: datetime, turn: int) -> Older:
    """Returns what run number `turn` does of the hours before `until`.

    Boundaries of a range of them are stored, and what of it can be landed or loaded is cut into batches.
    Raises what the lake, ClickHouse and `resolve_range` raise.
    """
    lake = open_lake(pipeline)
    waiting: dict[str, SluiceError] = {}
    backlog = backlog_before(pipeline, lake, until)
    while True:
        skipped = stuck(backlog, pipeline.on_expired, waiting)
        window, number = chosen(windows(unit for unit in backlog.states if unit not in skipped), turn)
        if window is None:
            return Older(waiting=waiting)
        statuses, silent = _bring(pipeline, lake, window)
        waiting |= silent
        if batches := batches_of(statuses, pipeline.on_expired, number):
            return Older(tuple(batches), waiting)
        backlog = backlog.outside(window)


def _bring(
    pipeline: Pipeline, lake: Lake, window: SliceRange
) -> tuple[list[UnitStatus], dict[str, SluiceError]]:
    """Stores the window's boundaries. Returns the state of its units, with the offsets that Kafka no longer
    has (the summaries keep them), and the error of each cluster that could not be asked."""
    silent = dict(resolve_range(pipeline, window)["waiting"])
    boundaries = BoundaryLog(lake).read()
    statuses = survey_of(pipeline, window, lake, boundaries)
    expired: dict[Unit, tuple[Loss, ...]] = {}
    for cluster in (name for name in pipeline.clusters if name not in silent):
        unlanded = [s.unit for s in statuses if s.unit.cluster == cluster and s.manifest is None]
        try:
            expired |= retained_losses(pipeline, boundaries, unlanded)
        except SluiceError as error:
            silent[cluster] = error
    raise_if_all(pipeline, silent)
    if expired:
        statuses = survey_of(pipeline, window, lake, boundaries, expired)
    note(lake, statuses)
    return statuses, silent


def _resolved(pipeline: Pipeline, boundaries: Boundaries, unit: Unit) -> bool:
    """Leaves out what was never resolved: it has not landed."""
    if not awaits(pipeline, unit):
        return True
    topics = topics_of(pipeline, unit, None, boundaries)
    return unit_ranges(pipeline, unit, topics, boundaries) is not None


# Asks Kafka for the oldest hours that have not landed: of these it deletes records first. Nothing is stored.
#
# Hours that Kafka has lost do not hide the hours after them: while Kafka has nothing left of the hours that a
# round asks for, the next round asks for twice as many hours after those.
FIRST_ROUND = 24
"""Slices of the backlog that the first round asks for."""
ROUNDS = 6
"""With 24 slices in the first round, 1,512 slices: nine weeks of hours."""

# What `resolve` takes for a cluster that cannot be asked; between two hours nothing else meets them.
_KAFKA_REFUSES = (KafkaUnavailable, UnknownTopic, TopicRecreated, PartitionMissing)


@dataclass(frozen=True)
class Asked:
    """What Kafka says. `boundaries` are as resolving now finds them, `lost` is what Kafka no longer has, and
    `mute` says why clusters did not answer, by name. `oldest` are units of the backlog that have not landed,
    `landed` the manifests of those that have, which its summaries do not know."""

    boundaries: Boundaries = field(default_factory=Boundaries)
    lost: Mapping[Unit, tuple[Loss, ...]] = field(default_factory=dict)
    mute: Mapping[str, str] = field(default_factory=dict)
    oldest: tuple[Unit, ...] = ()
    landed: Mapping[Unit, Manifest] = field(default_factory=dict)


def ask_oldest(pipeline: Pipeline, lake: Lake, backlog: Backlog, slices: SliceRange, now: datetime) -> Asked:
    """Asks for the oldest units of the backlog, and for those of `slices`. Raises what the lake raises."""
    asking = _Asking(pipeline, lake, Overlay(lake), now)
    asked = asking.ask(Asked(), backlog.unlanded(FIRST_ROUND), slices)
    nothing = SliceRange(slices.end, slices.end, slices.length)
    for number in range(1, ROUNDS):
        units = list(_next(pipeline, backlog, asked, FIRST_ROUND << number))
        if not units:
            break
        asked = asking.ask(asked, units, nothing)
    return asked


def _next(pipeline: Pipeline, backlog: Backlog, asked: Asked, most: int) -> Iterator[Unit]:
    """Yields the next units of each cluster that has nothing left in Kafka of the units asked for so far."""
    known_units = {*asked.oldest, *asked.landed}
    for cluster in (name for name in pipeline.clusters if name not in asked.mute):
        if not any(is_left(pipeline, asked, unit) for unit in asked.oldest if unit.cluster == cluster):
            waiting = (
                unit
                for unit, state in backlog.states.items()
                if state is UnitState.MISSING and unit.cluster == cluster and unit not in known_units
            )
            yield from islice(waiting, most)


def is_left(pipeline: Pipeline, asked: Asked, unit: Unit) -> bool:
    """Returns whether Kafka has all of the unit, and the unit has records."""
    ranges = unit_ranges(pipeline, unit, topics_of(pipeline, unit, None, asked.boundaries), asked.boundaries)
    return unit not in asked.lost and any(r.offsets for r in ranges or ())


@dataclass(frozen=True)
class _Asking:
    pipeline: Pipeline
    lake: Lake
    overlay: Overlay
    now: datetime

    def ask(self, earlier: Asked, older: Sequence[Unit], slices: SliceRange) -> Asked:
        """Returns what the earlier rounds have found, with one more round."""
        landed = read_manifests(self.lake, older)
        oldest = [unit for unit in older if unit not in landed]
        asked_slices = [*sorted({unit.slice for unit in oldest}), *slices]
        answering = [c for c in self.pipeline.kafka if c.cluster not in earlier.mute]
        pipeline = self.pipeline.model_copy(update={"kafka": answering})
        resolution = resolve(pipeline, self.overlay, asked_slices, self.now)
        mute = {**earlier.mute, **{name: str(error) for name, error in resolution.unreachable.items()}}
        recent = units_of(self.pipeline, slices, resolution.boundaries)
        lost = dict(earlier.lost)
        for cluster in [cluster for cluster in self.pipeline.clusters if cluster not in mute]:
            units = [unit for unit in (*oldest, *recent) if unit.cluster == cluster]
            try:
                lost |= retained_losses(self.pipeline, resolution.boundaries, units)
            except _KAFKA_REFUSES as error:
                if isinstance(error, TopicRecreated):
                    known = resolution.boundaries
                    error.accept = accept_command(self.pipeline, known, cluster, error.topic, self.now)
                mute[cluster] = str(error)
        units_so_far = (*earlier.oldest, *oldest), {**earlier.landed, **landed}
        return Asked(resolution.boundaries, lost, mute, *units_so_far)
