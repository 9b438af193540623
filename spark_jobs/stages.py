"""Reads from Spark's driver what it knows of the stages that have run: no user interface has to be on."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext

from sluice.metrics.meter import SparkStage

MOST = 200
"""Stages that are read, the newest; each costs some ten calls of Spark's bridge."""
_PATIENCE_MS = 2_000


def read_stages(context: SparkContext) -> list[SparkStage]:
    """Raises Py4JError where Spark does not answer."""
    core: Any = context._jsc.sc()  # Python has no other way to a stage's tasks and bytes
    core.listenerBus().waitUntilEmpty(_PATIENCE_MS)
    gateway: Any = context._gateway
    no_quantiles = gateway.new_array(gateway.jvm.double, 0)
    listed = core.statusStore().stageList(None, False, False, no_quantiles, None)
    stages = [listed.apply(number) for number in range(min(listed.size(), MOST))]
    return [_stage(stage) for stage in stages if stage.completionTime().isDefined()]


def _stage(stage: Any) -> SparkStage:
    ended, began = stage.completionTime().get().getTime(), stage.submissionTime().get().getTime()
    return SparkStage(
        tasks=stage.numCompleteTasks() + stage.numFailedTasks(),
        failed=stage.numFailedTasks(),
        seconds=(ended - began) / 1_000,
        task_seconds=stage.executorRunTime() / 1_000,
        shuffled=stage.shuffleWriteBytes(),
        spilled=stage.diskBytesSpilled(),
    )
