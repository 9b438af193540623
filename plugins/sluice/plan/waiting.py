"""What is missing from which cluster, when others of the pipeline have done their part. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sluice.config.pipeline import Pipeline
from sluice.errors import ClusterRefused, ClusterWaits, SluiceError
from sluice.plan.modes import waits_for_kafka
from sluice.slices import SliceRange, Unit
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState


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
