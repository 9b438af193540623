"""Starts and stops a stack in the background: the embedded (local.stack) or the wide one (local.cluster)."""

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TextIO

from local import fetched, members, stopping
from local.environment import WrongSetting
from local.java import JavaMissing
from local.progress import CommandFailed, say
from local.readiness import NotReady, PortInUse, require_free, wait_until
from local.secret_file import PRIVATE
from local.stack_log import given_up, started_again, what_stopped
from local.stopping import every
from local.versions import ROOT

START_SECONDS = 240
ALIVE_SECONDS = 10
LOCK_SECONDS = 2 * START_SECONDS
FREE_BYTES = 2 << 30


class CannotStart(Exception):
    """The stack cannot run, for a reason the message gives."""


class StackEnded(CannotStart):
    """The stack ended while it was waited for."""


FAILURES = (
    CannotStart,
    WrongSetting,
    JavaMissing,
    fetched.NotAsPinned,
    NotReady,
    PortInUse,
    CommandFailed,
    OSError,
)


def nothing() -> None:
    """Most parts need nothing done once they are ready."""


@dataclass(frozen=True)
class Part:
    """What has to answer before the stack is up; `then` is done once it does."""

    name: str
    ready: Callable[[], bool]
    then: Callable[[], None] = nothing


@dataclass(frozen=True)
class Stack:
    """`ports`: every port it listens on, by the variable that moves it. `prepare` is done before it starts.

    A part that ends is started again; after `patience` ends in a row, each soon after its start, all end.
    """

    home: Path
    ports: Mapping[str, int]
    procfile: Path
    environment: Callable[[], dict[str, str]]
    prepare: Callable[[], None]
    parts: tuple[Part, ...]
    status: Callable[[], None]
    patience: int = 3

    @property
    def log(self) -> Path:
        return self.home / "logs" / "stack.log"

    @property
    def note(self) -> Path:
        return self.home / "stack.json"

    @property
    def unwanted(self) -> Path:
        """Is there while make down waits for make up."""
        return self.home / "stack.unwanted"


@contextmanager
def one_at_a_time(home: Path) -> Iterator[None]:
    """Waits for another make up or make down. Raises CannotStart when that takes too long."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        home.chmod(0o700)  # somebody may have made it, and let others read it
        lock = (home / "stack.lock").open("w")
    except OSError as error:
        raise CannotStart(f"SLUICE_HOME cannot be used: {error}") from error
    with lock:
        alive = every(ALIVE_SECONDS, "another make up or make down is at work")
        try:
            wait_until(partial(locked, lock), "", LOCK_SECONDS, check=alive)
        except NotReady:
            raise CannotStart(f"another make up or make down is at work on {home}") from None
        yield


def locked(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def require_disk(home: Path) -> None:
    free = shutil.disk_usage(home).free
    if free < FREE_BYTES:
        raise CannotStart(f"only {free >> 20} MiB free for {home}: the stack needs {FREE_BYTES >> 20}")


def launch(stack: Stack) -> subprocess.Popen:
    stack.log.parent.mkdir(parents=True, exist_ok=True)
    ports = ",".join(map(str, stack.ports.values()))
    options = ["--procfile", str(stack.procfile), "--ports", ports, "--patience", str(stack.patience)]
    with stack.log.open("w") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "local.runner", *options],
            cwd=ROOT,
            env=stack.environment() | {members.MARK: str(stack.home)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def wait_for(stack: Stack, runner_ended: Callable[[], bool]) -> None:
    """Raises StackEnded when the stack does, and CannotStart when make down is asked for."""
    started = reported = time.monotonic()

    def check() -> None:
        nonlocal reported
        if stack.unwanted.exists():
            raise CannotStart("make down has stopped it")
        if runner_ended():
            raise StackEnded(f"the stack died while starting: {what_stopped(read(stack))} (log: {stack.log})")
        if time.monotonic() - reported > ALIVE_SECONDS:
            reported = time.monotonic()
            say(f"  … waiting for {part.name}, {reported - started:.0f} s")

    for part in stack.parts:
        wait_until(part.ready, part.name, START_SECONDS, check=check)
        say(f"{part.name} is up ({time.monotonic() - started:.0f} s)")
        part.then()


def start(stack: Stack) -> None:
    fetched.require_all()
    require_disk(stack.home)
    require_free(stack.ports)
    stack.prepare()
    runner = launch(stack)
    try:
        wait_for(stack, lambda: runner.poll() is not None)
    except BaseException:
        stopping.stop(stack.home)
        raise


def reuse(stack: Stack, runner: int) -> bool:
    """False when the stack that runs has ended, or cannot be used: it was about to."""
    ports = members.Note.read(stack.home).ports
    if ports != tuple(stack.ports.values()):
        raise CannotStart(
            f"the stack runs already, on the ports {', '.join(map(str, ports))}: make down first"
        )
    say("the stack runs already")
    try:
        wait_for(stack, lambda: not Path(f"/proc/{runner}").exists())
    except StackEnded:
        say("the stack that ran has ended: it is started anew")
        return False
    return True


def up(stack: Stack) -> None:
    with one_at_a_time(stack.home):
        stack.unwanted.unlink(missing_ok=True)
        runner = members.runner(stack.home)
        if not (runner and reuse(stack, runner)):
            if members.members(stack.home):
                say("stopping what an earlier stack left")
                stopping.stop(stack.home)
            start(stack)
    stack.status()


def down(stack: Stack) -> None:
    if not stack.home.exists():
        say("nothing runs")
        return
    ran = bool(members.members(stack.home))
    with suppress(OSError):  # one_at_a_time says it
        stack.unwanted.touch()
    with one_at_a_time(stack.home):
        stack.unwanted.unlink(missing_ok=True)
        say("stopped" if stopping.stop(stack.home) or ran else "nothing runs")


def read(stack: Stack) -> list[str]:
    """The lines of its log."""
    return stack.log.read_text(errors="replace").splitlines() if stack.log.exists() else []


def status(stack: Stack) -> bool:
    stack.status()
    for line in started_again(read(stack)):
        say(line)
    if members.runner(stack.home) is not None:
        return True
    for line in why_down(stack):
        say(line)
    return False


def why_down(stack: Stack) -> Iterator[str]:
    """Says why no stack runs, and what to do. `make down` removes the note; nothing else does."""
    again = "make up starts it"
    if not stack.note.exists():
        yield f"the stack does not run: {again}"
    elif (ended := given_up(read(stack))) is not None:
        *first, last = ended.times
        when = f"at {', '.join(first)} and {last}" if first else f"at {last}"
        day = datetime.fromtimestamp(stack.log.stat().st_mtime).strftime("%Y-%m-%d")
        yield (
            f"the stack stopped on {day}: {ended.part} ended {len(ended.times)} times in a row ({when}), the "
            f"last time so: {ended.last}"
        )
        yield f"what {ended.part} wrote: grep ' {ended.part} ' {stack.log} (make up begins a new log)"
        yield f"remove the cause, then {again} again; its data are there"
    else:
        yield f"the stack's runner ended by a signal or with the machine, not by make down (log: {stack.log})"
        if left := members.members(stack.home):
            yield f"{len(left)} of its processes still run"
        yield f"{again} again, and ends what is left"


def main(about: str, stack_of: Callable[[Mapping[str, str]], Stack]) -> int:
    """The command line `up|down|status` of the stack that an environment describes."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("command", choices=["up", "down", "status"])
    command = parser.parse_args().command
    os.umask(PRIVATE)
    try:
        stack = stack_of(os.environ)
        if command == "status":
            return 0 if status(stack) else 1
        (up if command == "up" else down)(stack)
    except FAILURES as error:
        print(f"sluice: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    return 0
