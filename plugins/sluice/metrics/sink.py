"""Where samples go: to whoever has taken the sink, in Airflow's tasks its own metrics, elsewhere nowhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from sluice.metrics.table import METRICS, Metric


@dataclass(frozen=True)
class MetricSample:
    """One value of one metric; `labels` are in the order of the metric's."""

    metric: Metric
    value: float
    labels: Mapping[str, str]


Sink = Callable[[MetricSample], None]
_sinks: list[Sink] = []


def sample(name: str, value: float, **labels: object) -> MetricSample:
    """Raises KeyError for a metric that is not in the table, TypeError for labels that are not its own."""
    metric = METRICS[name]
    if set(labels) != set(metric.labels):
        raise TypeError(f"metric {name} has the labels {metric.labels}, not {tuple(labels)}")
    return MetricSample(metric, value, {label: str(labels[label]) for label in metric.labels})


def emit(samples: Iterable[MetricSample]) -> None:
    for metric_sample in samples:
        for sink in _sinks:
            sink(metric_sample)


def taken() -> bool:
    """Returns whether samples are taken: to read for one that is dropped costs."""
    return bool(_sinks)


def count(name: str, value: float = 1, **labels: object) -> None:
    """One sample, of a counter or a gauge."""
    emit([sample(name, value, **labels)])


@contextmanager
def timed(name: str, **labels: object) -> Iterator[None]:
    """Yields the seconds of what is inside, also when it fails."""
    started = time.monotonic()
    try:
        yield
    finally:
        emit([sample(name, time.monotonic() - started, **labels)])


@contextmanager
def taken_by(sink: Sink) -> Iterator[None]:
    """`sink` gets every sample while the context lasts."""
    _sinks.append(sink)
    try:
        yield
    finally:
        _sinks.remove(sink)
