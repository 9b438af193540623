"""Says how far Spark has come, every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType

from pyspark import SparkContext

from sluice.plan.estimate import duration_text

_SECONDS = 5.0


class Progress:
    """While the context lasts, `say` gets a line such as `read: 12 of 40 tasks done`.

    With `rows`, how many the tasks read in all, it adds about how many that is, their rate and the time left.
    """

    def __init__(self, context: SparkContext, what: str, say: Callable[[str], None], rows: int = 0) -> None:
        self._tracker = context.statusTracker()
        self._what = what
        self._say = say
        self._rows = rows
        self._started = time.monotonic()
        self._over = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_SECONDS):
            stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
            for stage in filter(None, stages):
                line = f"{self._what}: {stage.numCompletedTasks} of {stage.numTasks} tasks done"
                self._say(line + self._pace(stage.numCompletedTasks, stage.numTasks))

    def _pace(self, done: int, tasks: int) -> str:
        if not (self._rows and done):
            return ""
        elapsed, rows = time.monotonic() - self._started, self._rows * done // tasks
        left = duration_text(elapsed * (tasks - done) / done)
        return f", about {rows:,} of {self._rows:,} rows, {rows / elapsed:,.0f} rows/s, {left} left"
