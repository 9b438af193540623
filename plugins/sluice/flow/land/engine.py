"""What carries the landing's work out: Spark, in spark_jobs/."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sluice.flow.land.count_totals import Total
from sluice.flow.land.merge import Merge
from sluice.flow.land.read_plan import ReadGroup
from sluice.flow.land.task.reports import TaskReport, WrittenFile
from sluice.flow.land.task.task import Task


class Engine(Protocol):
    """Both methods raise SparkFailed, or the SluiceError that a task met."""

    def land(self, reads: Sequence[tuple[ReadGroup, Task]]) -> TaskReport:
        """Reads exactly the offsets of each run and lands them; the reports of the tasks that succeeded."""

    def merge(self, merges: Sequence[Merge | Total]) -> list[WrittenFile]:
        """Returns the merged files, in the order of `merges`."""
