"""Reads from Spark's driver what it knows of the stages that have run: no user interface has to be on."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext

from sluice.flow.land.spark_stages import SparkStage

MOST = 200
"""Stages that are read, the newest; each costs some ten calls of Spark's bridge."""
_PATIENCE_MS = 2_000


def read_stages(context: SparkContext) -> list[SparkStage]:
    """Raises Py4JError where Spark does not answer."""
    core: Any = context._jsc.sc()  # Python has no other way to a stage's tasks and bytes
    core.listenerBus().waitUntilEmpty(_PATIENCE_MS)
    gateway: Any = context._gateway
    no_quantiles = gateway.new_array(gateway.jvm.double, 0)
    found = core.statusStore().stageList(None, False, False, no_quantiles, None)
    stages = [found.apply(number) for number in range(min(found.size(), MOST))]
    return [_stage(one) for one in stages if one.completionTime().isDefined()]


def _stage(one: Any) -> SparkStage:
    ended, began = one.completionTime().get().getTime(), one.submissionTime().get().getTime()
    return SparkStage(
        tasks=one.numCompleteTasks() + one.numFailedTasks(),
        failed=one.numFailedTasks(),
        seconds=(ended - began) / 1_000,
        task_seconds=one.executorRunTime() / 1_000,
        shuffled=one.shuffleWriteBytes(),
        spilled=one.diskBytesSpilled(),
    )
