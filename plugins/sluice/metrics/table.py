"""Every metric: its name, kind, unit, meaning and labels; docs/guide/reference/metrics.md shows them."""

from __future__ import annotations

from sluice.metrics.counter_rows import COUNTERS
from sluice.metrics.gauge_rows import GAUGES
from sluice.metrics.metric import MetricKind, metrics

TIMERS = metrics(
    MetricKind.TIMER,
    # land
    (
        "landing_delay_seconds",
        "seconds",
        "From a slice's end until it landed for the first time",
        "pipeline cluster",
    ),
    ("spark_stage_seconds", "seconds", "Time of a stage of Spark", "pipeline"),
    ("spark_task_seconds", "seconds", "Mean time of the tasks of a stage", "pipeline"),
    # verify
    (
        "freshness_seconds",
        "seconds",
        "Age of records when their hour was first committed and verified in a table; 20 samples an hour",
        "pipeline table",
    ),
    # load
    ("insert_seconds", "seconds", "Time of an INSERT; the first 1,000 of a step", "pipeline"),
    ("load_seconds", "seconds", "Time of a load into one table", "pipeline table"),
    ("lease_wait", "seconds", "Time until the table's lease was held", "pipeline table"),
    # every step
    ("step_seconds", "seconds", "Time of a step, also of one that failed", "pipeline step"),
)

METRICS = {metric.name: metric for metric in (*COUNTERS, *GAUGES, *TIMERS)}
