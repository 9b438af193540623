"""Ends a stack: first by its runner, then by SIGKILL to the processes that are left."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from local import members
from local.progress import say
from local.runner import STOP_SECONDS

AFTER_KILL_SECONDS = 10


def send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def all_gone(home: Path, seconds: float, alive: Callable[[], None] = lambda: None) -> bool:
    deadline = time.monotonic() + seconds
    while members.members(home):
        if time.monotonic() > deadline:
            return False
        alive()
        time.sleep(0.2)
    return True


def every(seconds: float, text: str) -> Callable[[], None]:
    started = reported = time.monotonic()

    def alive() -> None:
        nonlocal reported
        if time.monotonic() - reported > seconds:
            reported = time.monotonic()
            say(f"  … {text}, {reported - started:.0f} s")

    return alive


def stop(home: Path) -> bool:
    """Returns whether there was something to stop."""
    processes = members.members(home)
    if not processes:
        (home / "stack.json").unlink(missing_ok=True)
        return False
    alive = every(5, "stopping")
    runner = members.runner(home)
    # With its runner alive the parts are the runner's to stop; without it each gets its own signal.
    send([runner] if runner else processes, signal.SIGTERM)
    if not all_gone(home, STOP_SECONDS + AFTER_KILL_SECONDS, alive):
        send(members.members(home), signal.SIGKILL)
        all_gone(home, AFTER_KILL_SECONDS, alive)
    (home / "stack.json").unlink(missing_ok=True)
    return True
