"""Ends a stack: politely through its runner, then whatever is left of it."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from local import members
from local.progress import say
from local.runner import STOP_SECONDS

AFTER_KILL_SECONDS = 10


def send(pids: list[int], what: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, what)
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
    started = last = time.monotonic()

    def alive() -> None:
        nonlocal last
        if time.monotonic() - last > seconds:
            last = time.monotonic()
            say(f"  … {text}, {last - started:.0f} s")

    return alive


def stop(home: Path) -> bool:
    """True when there was something to stop."""
    found = members.members(home)
    if not found:
        (home / "stack.json").unlink(missing_ok=True)
        return False
    alive = every(5, "stopping")
    runner = members.runner(home)
    # With its runner alive the parts are the runner's to stop; without it each gets its own signal.
    send([runner] if runner else found, signal.SIGTERM)
    if not all_gone(home, STOP_SECONDS + AFTER_KILL_SECONDS, alive):
        send(members.members(home), signal.SIGKILL)
        all_gone(home, AFTER_KILL_SECONDS, alive)
    (home / "stack.json").unlink(missing_ok=True)
    return True
