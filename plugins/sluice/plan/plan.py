"""What a backfill does to each unit, and what that comes to. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from sluice.config.pipeline import Pipeline
from sluice.errors import ClusterRefused, ClusterWaits, FilesForgotten, SluiceError
from sluice.plan.batches import SliceWeight, cut
from sluice.plan.modes import AGAIN, FROM_LAKE, LOADS_AGAIN, MISSING_COLUMNS, waits_for_kafka
from sluice.slices import SliceRange, Unit
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState

_FILL = {
    UnitState.MISSING: "land and load",
    UnitState.EXPIRED: "fail: expired",
    UnitState.LANDED: "load",
    UnitState.STALE: "load",
    UnitState.COMPLETE: "nothing",
    UnitState.COMPLETE_WITH_LOSS: "nothing",
    UnitState.FORGOTTEN: "nothing",
}


def action(status: UnitStatus, mode: str, on_expired: str = "fail") -> str:
    """Returns what `mode` does to a unit in this state."""
    if status.state is UnitState.NOT_OVER:
        return "wait"
    if unresolved(status):
        return "wait for the cluster"
    if mode in AGAIN and status.gone:
        return _FILL[status.state]
    if mode == "reland" and status.manifest is not None:
        return "refuse: expired" if status.losses else "land and load again"
    if mode in FROM_LAKE and status.forgotten_on:
        return "refuse: forgotten"
    if mode == "remake" and status.manifest is not None:
        return "make again out of the lake and load"
    if status.manifest is not None and (mode in LOADS_AGAIN or (mode == MISSING_COLUMNS and status.later)):
        return "load again"
    if status.state is UnitState.EXPIRED and on_expired == "land_rest":
        return "land what is left and load"
    return _FILL[status.state]


def to_land(statuses: Sequence[UnitStatus], mode: str, on_expired: str = "fail") -> list[UnitStatus]:
    """Returns the units that `mode` reads from Kafka."""
    return [status for status in statuses if action(status, mode, on_expired).startswith("land")]


UnitsAndRows = tuple[int, int]
"""Units and rows."""


@dataclass(frozen=True)
class PlannedWork:
    """What a run has to do: the batches, of each what is to land and to load, and the whole range."""

    batches: tuple[SliceRange, ...]
    land: tuple[UnitsAndRows, ...]
    load: tuple[UnitsAndRows, ...]
    check: UnitsAndRows

    def amounts(self, step: str) -> tuple[UnitsAndRows, ...]:
        """Returns the amounts of each batch; the steps after them see the whole range at once."""
        return {"land": self.land, "load": self.load}.get(step, (self.check,))

    @property
    def rows(self) -> int:
        return sum(rows for _, rows in self.load)

    @property
    def units(self) -> int:
        return sum(units for units, _ in self.load)


def unresolved(status: UnitStatus) -> bool:
    """Returns whether its offsets are unknown: after resolving that means that its cluster did not answer."""
    return status.ranges is None and status.manifest is None


def has_work(status: UnitStatus, mode: str) -> bool:
    """A cluster that was taken away is loaded from the lake, and read no more."""
    if status.state is UnitState.NOT_OVER or unresolved(status):
        return False
    again = mode in LOADS_AGAIN or (mode in AGAIN and not status.gone)
    lacks_columns = mode == MISSING_COLUMNS and bool(status.later)
    return again or lacks_columns or not status.state.done


def refuse_forgotten(
    pipeline: Pipeline, statuses: Sequence[UnitStatus], mode: str, tables: Collection[str] | None
) -> None:
    """Raises FilesForgotten where a `reload` or `repair` asks for files that the lake has forgotten. Rollups
    are made
    from their source's rows; a `remake` refuses unit by unit."""
    units = [(status.unit, status.forgotten_on) for status in statuses if status.forgotten_on]
    if mode in LOADS_AGAIN and units and any(target.rollup is None for target in pipeline.chosen(tables)):
        hours = SliceRange(units[0][0].slice.start, units[-1][0].slice.end, pipeline.slice)
        raise FilesForgotten.of(units, mode, pipeline.command("run", *hours.words, "--mode", "reland"))


def rows_of(status: UnitStatus) -> int:
    """Returns the rows landed, or an upper bound."""
    return status.manifest.read if status.manifest else status.offsets


def work_of(statuses: Sequence[UnitStatus], mode: str) -> PlannedWork:
    """Cuts the units with work into batches by rows and by number of slices, and adds up their amounts."""
    todo = [status for status in statuses if has_work(status, mode)]
    batches = cut([SliceWeight(status.unit.slice, rows_of(status)) for status in todo])
    landing = [s for s in todo if s.manifest is None or (mode in AGAIN and not s.gone)]
    over = [status for status in statuses if status.state is not UnitState.NOT_OVER]
    return PlannedWork(
        batches=tuple(batches),
        land=_by_batch(batches, landing),
        load=_by_batch(batches, todo),
        check=(len(over), sum(map(rows_of, over))),
    )


def _by_batch(batches: Sequence[SliceRange], work: Sequence[UnitStatus]) -> tuple[UnitsAndRows, ...]:
    """Returns the units and rows of each batch. Both arguments are in the order of their slices."""
    amounts, number = [(0, 0)] * len(batches), 0
    for status in work:
        while status.unit.slice.start >= batches[number].end:
            number += 1
        units, rows = amounts[number]
        amounts[number] = units + 1, rows + rows_of(status)
    return tuple(amounts)


# What is missing from which cluster, when others of the pipeline have done their part. Pure.
@dataclass(frozen=True)
class Waiting:
    """The units of one cluster that are over and not landed, in order; at least one."""

    cluster: str
    units: tuple[Unit, ...]

    @property
    def slices(self) -> SliceRange:
        """From the first to the last."""
        first, last = self.units[0].slice, self.units[-1].slice
        return SliceRange(first.start, last.end, first.length)

    def __str__(self) -> str:
        first, last = self.units[0].slice, self.units[-1].slice
        span = first.id if first == last else f"{first.id} … {last.id}"
        return f"{self.cluster}: {len(self.units):,} not landed ({span})"

    def error(self, pipeline: Pipeline, cause: SluiceError | None, mode: str = "fill") -> ClusterWaits:
        """Makes the error. `cause`: what the cluster says now; None when it answers."""
        first, last = self.units[0].slice, self.units[-1].slice
        words = () if mode == "fill" else ("--mode", mode)
        command = pipeline.command("run", *self.slices.words, *words)
        kind = ClusterWaits if cause is None or cause.retryable else ClusterRefused
        why = "it answers again" if cause is None else str(cause)
        return kind(self.cluster, len(self.units), first.id, last.id, why, command)


def waiting(
    pipeline: Pipeline, statuses: Iterable[UnitStatus], mode: str = "fill", token: str = ""
) -> list[Waiting]:
    """Returns waiting clusters in the order of the pipeline file. None with one cluster: then its error is
    that of the run.

    A unit that `mode` asks to be landed again waits until its manifest is of this `token`. What Kafka no
    longer has is not waited for: that is an error of its own.
    """
    if len(pipeline.clusters) == 1:
        return []
    units: dict[str, list[Unit]] = {}
    for status in statuses:
        over = status.state not in (UnitState.NOT_OVER, UnitState.EXPIRED) and not status.gone
        if over and waits_for_kafka(status.manifest, mode, token):
            units.setdefault(status.unit.cluster, []).append(status.unit)
    return [Waiting(name, tuple(units[name])) for name in pipeline.clusters if name in units]


def waits(cluster: str, error: SluiceError) -> str:
    """Returns a line on a cluster that could not be asked, while others could."""
    return f"cluster {cluster} waits: {error}"


def missing_lines(pipeline: Pipeline, statuses: Sequence[UnitStatus]) -> list[str]:
    """Returns how many hours are complete, and a line per cluster that lacks some; none with one cluster."""
    if len(pipeline.clusters) == 1:
        return []
    over = {status.unit.slice for status in statuses if status.state is not UnitState.NOT_OVER}
    undone = {status.unit.slice for status in statuses if not status.state.done}
    lines = [f"complete from every cluster: {len(over - undone):,} of {len(over):,} slices"]
    return [*lines, *(f"missing from {part}" for part in waiting(pipeline, statuses))]
