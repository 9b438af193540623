"""Where a process stops or dies: at a statement of a step of the load, or at a write into the lake."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from threading import RLock
from typing import Any, TypeVar

from sluice.crash_points import Point, TableLoad

T = TypeVar("T")
WRITES = ("create", "replace", "put", "delete", "finish", "move")
LAKE, LEASE = "lake", "lease"
_LEASES = "_leases/"


@dataclass(frozen=True)
class Trap:
    """Sends the process `signal` at the `number`-th call of `kind` while the load works on `step`.

    `kind`: `run` (a statement that writes), `rows` (one that reads), `lease` (a write of the lease), or
    `lake` (any other write into the lake, whatever the step). `after`: when the call is done, else before.
    """

    kind: str
    step: TableLoad = TableLoad.LEASED
    number: int = 0
    after: bool = False
    signal: signal.Signals = signal.SIGSTOP

    def __str__(self) -> str:
        return f"{'after' if self.after else 'before'} {self.step.value}, {self.kind} {self.number}"


class Armed:
    """A trap in the process that it waits for."""

    def __init__(self, trap: Armed) -> None:
        self._trap, self._lock = trap, RLock()
        self._working, self._seen = TableLoad.LEASED, 0

    def reached(self, point: Point) -> None:
        """Takes the place of `points.reached`."""
        following = list(TableLoad).index(point) + 1 if isinstance(point, TableLoad) else 0
        if 0 < following < len(TableLoad):
            self._working = list(TableLoad)[following]

    def call(self, kind: str, act: Callable[[], T]) -> T:
        hit = self._hit(kind)
        if hit and not self._trap.after:
            self._spring()
        with self._lock if kind == LEASE else nullcontext():
            result = act()
        if hit and self._trap.after:
            self._spring()
        return result

    def _hit(self, kind: str) -> bool:
        with self._lock:
            if kind != self._trap.kind or (kind != LAKE and self._working is not self._trap.step):
                return False
            self._seen += 1
            return self._seen == self._trap.number + 1

    def _spring(self) -> None:
        """Not while the other thread renews: nobody can break the lock of a folder that a stopped one has."""
        with self._lock:
            os.kill(os.getpid(), self._trap.signal)


class TrappedClient:
    """The client of a load."""

    def __init__(self, client: Any, trap: Armed) -> None:
        self._client, self._trap = client, trap

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name == "reading":
            return lambda settings: TrappedClient(found(settings), self._trap)
        if name not in ("run", "rows"):
            return found
        return lambda *arguments, **named: self._trap.call(name, lambda: found(*arguments, **named))


class TrappedLake:
    """The lake; a delete of many keys is a write for each."""

    def __init__(self, lake: Any, trap: Armed) -> None:
        self._lake, self._trap = lake, trap

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._lake, name)
        if name == "delete":
            return self._delete
        if name == "create_each":
            return lambda objects: (self.create(key, data) for key, data in objects)
        if name == "synced_at_end":
            return lambda: nullcontext(self)
        if name not in WRITES:
            return found
        return lambda *arguments: self._trap.call(_kind(arguments[0]), lambda: found(*arguments))

    def _delete(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            self._trap.call(LAKE, lambda key=key: self._lake.delete([key]))


def _kind(key: str) -> str:
    return LEASE if key.startswith(_LEASES) else LAKE
