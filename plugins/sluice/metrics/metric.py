"""What a metric is: its name, kind, unit, meaning and labels.

They go through Airflow's own metrics (StatsD or OpenTelemetry, `[metrics]` in its configuration), with
labels as tags. Outside Airflow they are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "sluice."
NAMES = frozenset({"cluster", "column", "disk", "pipeline", "table", "topic", "type"})
"""Labels whose values are names from outside; those of the others are words of Sluice's own."""


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    TIMER = "timer"


@dataclass(frozen=True)
class Metric:
    """`labels` are all of them, and every sample has each; a timer's samples are seconds."""

    name: str
    kind: MetricKind
    unit: str
    meaning: str
    labels: tuple[str, ...]

    @property
    def full_name(self) -> str:
        return PREFIX + self.name

    @property
    def exported(self) -> str:
        """Its name in Prometheus, behind the StatsD exporter and monitoring/statsd-mapping.yaml."""
        return "sluice_" + self.name + ("_total" if self.kind is MetricKind.COUNTER else "")


def metrics(kind: MetricKind, *rows: tuple[str, str, str, str]) -> tuple[Metric, ...]:
    """Returns one for each (name, unit, meaning, labels)."""
    return tuple(
        Metric(name, kind, unit, meaning, tuple(labels.split())) for name, unit, meaning, labels in rows
    )
