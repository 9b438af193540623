"""Kills at a named point: an order lies in a folder, and the first process that comes to the point obeys.

Tests put `Reaper` in the place of `crash_points.reached`: in a child of their own, or (kills_site) in every
Python process whose environment names the folder: Spark's driver and workers, Airflow's tasks.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from sluice.crash_points import Point

ENVIRONMENT = "SLUICE_TEST_KILLS"
SITE = Path(__file__).with_name("kills_site")
GONE_SECONDS = 30


@dataclass(frozen=True)
class Order:
    """Kill `victim` when a process reaches `point` for the `nth` time. The victim is "self", "java" (the
    virtual machine that this process belongs to), "above java" (who started that), or a process id. To
    "pause" stops the process itself until somebody continues it."""

    point: str
    nth: int = 1
    victim: str = "self"


def name_of(point: Point) -> str:
    return f"{type(point).__name__}.{point.name}"


def give(folder: Path, order: Order) -> None:
    """Replaces an order that nobody has carried out."""
    for left in ("order.json", "obeyed.json"):
        folder.joinpath(left).unlink(missing_ok=True)
    partial = folder / "order.partial"
    partial.write_text(json.dumps(asdict(order)))
    partial.rename(folder / "order.json")


def obeyed(folder: Path) -> bool:
    return folder.joinpath("obeyed.json").exists()


class Reaper:
    """Called at every point; also notes them in the file `trace`, where there is one."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._seen, self._lock = folder, Counter(), threading.Lock()

    def __call__(self, point: Point) -> None:
        with self._lock:
            name = name_of(point)
            self._seen[name] += 1
            note(self._folder, name)
            order = self._order()
            if order and (order.point, order.nth) == (name, self._seen[name]) and self._take():
                kill(order.victim)

    def _order(self) -> Order | None:
        try:
            return Order(**json.loads(self._folder.joinpath("order.json").read_text()))
        except FileNotFoundError:
            return None

    def _take(self) -> bool:
        try:
            self._folder.joinpath("order.json").rename(self._folder / "obeyed.json")
        except FileNotFoundError:
            return False
        return True


def note(folder: Path, line: str) -> None:
    trace = folder / "trace"
    if trace.exists():
        with trace.open("a") as file:
            file.write(f"{line}\n")


def kill(victim: str) -> None:
    """Returns only if the victim is another process, once that is gone, or if this one is continued."""
    if victim == "pause":
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    named = {"self": os.getpid, "java": _java_above, "above java": lambda: int(_stat(_java_above())[1])}
    pid = named[victim]() if victim in named else int(victim)
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + GONE_SECONDS
    while not gone(pid):
        assert time.monotonic() < deadline, f"{victim} outlived its kill"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    """Also when its parent has not asked for its exit status yet."""
    return _stat(pid)[0] in ("", "Z")


def _java_above() -> int:
    pid = os.getppid()
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        pid = int(_stat(pid)[1])
    return pid


def _stat(pid: int) -> tuple[str, str]:
    """(state, parent's id) by proc(5); both empty when there is no such process."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    return state, parent
