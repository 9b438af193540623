"""What Spark says of the stages of a landing, counted for the metrics. Pure but for the counting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sluice.metrics import meter


@dataclass(frozen=True)
class SparkStage:
    """A stage that has run: its tasks, each try of them, and those that failed; its time from submission to
    its end, and that of all its tasks together; bytes shuffled and spilled."""

    tasks: int
    failed: int
    seconds: float
    task_seconds: float
    shuffled: int
    spilled: int


def count_stages(stages: Iterable[SparkStage]) -> None:
    for stage in stages:
        meter.add("spark_stages")
        meter.add("spark_tasks", stage.tasks)
        meter.add("spark_tasks_failed", stage.failed)
        meter.add("spark_shuffle_bytes", stage.shuffled)
        meter.add("spark_spilled_bytes", stage.spilled)
        meter.took("spark_stage_seconds", stage.seconds)
        meter.took("spark_task_seconds", stage.task_seconds / max(stage.tasks, 1))
