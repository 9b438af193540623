"""Says how far Spark has come, every few seconds."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType

from pyspark import SparkContext

_SECONDS = 5.0


class Progress:
    """While the context lasts, `say` gets a line such as `read: 12 of 40 tasks done`."""

    def __init__(self, context: SparkContext, what: str, say: Callable[[str], None]) -> None:
        self._tracker = context.statusTracker()
        self._what = what
        self._say = say
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
                self._say(f"{self._what}: {stage.numCompletedTasks} of {stage.numTasks} tasks done")
