"""What the clients of this process have done, until a step that knows its pipeline sends it.

Requests in Spark's own processes are not among it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

from sluice.metrics.sink import MetricSample, sample

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


def drain(pipeline: str) -> Iterator[MetricSample]:
    """Yields what was done since the last call, and forgets it."""
    with _lock:
        counts, times = dict(_counts), list(_times)
        _counts.clear()
        _times.clear()
    for (name, labels), value in counts.items():
        yield sample(name, value, pipeline=pipeline, **dict(labels))
    for name, seconds in times:
        yield sample(name, seconds, pipeline=pipeline)
