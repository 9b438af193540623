"""What the clients of this process have done, until a step that knows its pipeline sends it.

The driver of a landing hands its own over (flow/metrics.py). What Spark's tasks do is not among it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from sluice.metrics.table import METRICS, Metric

# Where samples go: to whoever has taken the sink, in Airflow's tasks its own metrics, elsewhere nowhere.


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


MOST_TIMES = 1_000
"""Times that are kept for one step; it sends the first of them."""

_Place = tuple[str, tuple[tuple[str, str], ...]]
_lock = threading.Lock()
_counts: Counter[_Place] = Counter()
_times: list[tuple[str, float]] = []


def add(name: str, value: int = 1, **labels: str) -> None:
    """Counts for a metric whose labels are the pipeline's and `labels`."""
    with _lock:
        _counts[name, tuple(sorted(labels.items()))] += value


def took(name: str, seconds: float) -> None:
    """Keeps the time of something for a timer that has no label but the pipeline's."""
    with _lock:
        if len(_times) < MOST_TIMES:
            _times.append((name, seconds))


@dataclass(frozen=True)
class Metered:
    """Counts as (metric, labels without the pipeline's, value), and times as (metric, seconds)."""

    counts: tuple[tuple[str, dict[str, str], int], ...] = ()
    times: tuple[tuple[str, float], ...] = ()


def total(name: str) -> int:
    """Returns what has been counted for a metric since the last `take`, of all labels."""
    with _lock:
        return sum(value for (counted, _), value in _counts.items() if counted == name)


def take() -> Metered:
    """Returns what was done since the last call, and forgets it."""
    with _lock:
        counts = tuple((name, dict(labels), value) for (name, labels), value in _counts.items())
        times = tuple(_times)
        _counts.clear()
        _times.clear()
    return Metered(counts, times)


def put(metered: Metered) -> None:
    """Counts what another process has done as this one's."""
    for name, labels, value in metered.counts:
        add(name, value, **labels)
    for name, seconds in metered.times:
        took(name, seconds)


def drain(pipeline: str) -> Iterator[MetricSample]:
    """Yields what was done since the last call, and forgets it."""
    metered = take()
    for name, labels, value in metered.counts:
        yield sample(name, value, pipeline=pipeline, **labels)
    for name, seconds in metered.times:
        yield sample(name, seconds, pipeline=pipeline)


# What Spark says of the stages of a landing, counted for the metrics.
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
        add("spark_stages")
        add("spark_tasks", stage.tasks)
        add("spark_tasks_failed", stage.failed)
        add("spark_shuffle_bytes", stage.shuffled)
        add("spark_spilled_bytes", stage.spilled)
        took("spark_stage_seconds", stage.seconds)
        took("spark_task_seconds", stage.task_seconds / max(stage.tasks, 1))
