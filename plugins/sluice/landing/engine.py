"""What carries the landing's work out: Spark, in spark_jobs/."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sluice.counts.total import Total
from sluice.landing.merge import Merge
from sluice.landing.reads import Run
from sluice.landing.reports import Report, WrittenFile
from sluice.landing.task import Task


class Engine(Protocol):
    """Both methods raise SparkFailed, or the SluiceError that a task met."""

    def land(self, reads: Sequence[tuple[Run, Task]]) -> Report:
        """Reads exactly the offsets of each run and lands them; the reports of the tasks that succeeded."""

    def merge(self, merges: Sequence[Merge | Total]) -> list[WrittenFile]:
        """The merged files, in the order of `merges`."""
