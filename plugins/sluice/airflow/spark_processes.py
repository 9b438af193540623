"""Ends all processes of a landing: spark-submit's JVM, the Python driver and Spark's Python workers.

Airflow's hook kills spark-submit alone. The driver outlives it where it waits for something else than the
JVM, workers have a process group of their own, and a process that stands still (SIGSTOP) ends with nobody.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "SLUICE_LANDING"
"""The variable that all processes of one landing have inherited, with a value of its own for each."""
_SECONDS = 30.0
_PROC = Path("/proc")


def marked(value: str) -> list[int]:
    """Returns the processes of this machine whose environment has the mark, as far as it may be read: the
    user's own. Empty where there is no /proc (macOS).
    """
    return [pid for pid in _pids() if _has(pid, value)]


def end_all(value: str, seconds: float = _SECONDS) -> list[int]:
    """Kills the processes with the mark, those that they start meanwhile included, and returns the survivors
    after `seconds`: none, but for processes that wait for a disk."""
    until = time.monotonic() + seconds
    while survivors := marked(value):
        for pid in survivors:
            _kill(pid, value, until)
        if time.monotonic() > until:
            return marked(value)
    return []


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in _PROC.glob("[0-9]*"))


def _has(pid: int, value: str) -> bool:
    try:
        return f"{MARK}={value}".encode() in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return False


def _kill(pid: int, value: str, until: float) -> None:
    """Kills the process and waits for its end. A handle keeps its number from meaning another one."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError:  # a kernel before 5.3 has no handles
        if _has(pid, value):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return
    try:
        if _has(pid, value):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                end = select.poll()  # select() takes no handle above 1,023
                end.register(handle, select.POLLIN)
                end.poll(max(until - time.monotonic(), 0) * 1000)
    finally:
        os.close(handle)
