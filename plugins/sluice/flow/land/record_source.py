"""Where a landing's records come from, and what explains that some offsets have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sluice.errors import SluiceError
from sluice.flow.land.manifest_draft import Landed
from sluice.flow.land.newly_rejected import NotReplaced
from sluice.flow.land.read_plan import ReadGroup, UnitRead
from sluice.flow.land.task.reports import Gap, SeenOffsets
from sluice.flow.land.task.task import Task
from sluice.manifest import Manifest, TopicPartitionKey
from sluice.slices import Unit

Gaps = Mapping[Unit, Mapping[TopicPartitionKey, Sequence[Gap]]]
"""By unit and partition the offsets that no task brought."""


@dataclass(frozen=True)
class Accounted:
    """The records of a unit, each counted once, and how many offsets are explained to hold none."""

    seen: tuple[SeenOffsets, ...]
    holes: int


class RecordSource(Protocol):
    """Kafka, or the lake's own files."""

    def reading(self, task: Task, run: ReadGroup) -> Task:
        """Returns the task with what it has to know to read the run's records."""

    def account(
        self, reads: Sequence[UnitRead], gaps: Gaps, seen: Mapping[Unit, Sequence[SeenOffsets]]
    ) -> Mapping[Unit, Accounted]:
        """Explains the gaps of each unit. Raises Conservation, and what the source raises."""

    def check(self, landed: Sequence[Landed]) -> None:
        """Raises what forbids to commit the units, though all of their records are there."""

    def answers(self, cluster: str) -> bool:
        """Returns whether it can be asked now: where not, no unit is to blame for a failure."""

    def replaced(self, reads: Sequence[UnitRead]) -> SluiceError | None:
        """Returns the error that explains any other, where another run has replaced what is read."""

    def commit(self, landed: Sequence[Landed]) -> list[Manifest | NotReplaced]:
        """Returns for each unit the manifest that stands afterwards (this one, or that of who was first), or
        why the old one is not replaced."""
