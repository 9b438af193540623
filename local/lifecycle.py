"""Starts and stops a stack in the background: the embedded (local.stack) or the wide one (local.cluster)."""

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local import members, stopping
from local.environment import WrongSetting
from local.java import JavaMissing
from local.progress import CommandFailed, say
from local.readiness import NotReady, PortInUse, require_free, wait_until
from local.secret_file import PRIVATE
from local.versions import FETCHED, ROOT

START_SECONDS = 240
ALIVE_SECONDS = 10
FREE_BYTES = 2 << 30


class CannotStart(Exception):
    """The stack cannot run, for a reason the message gives."""


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

    `again`: a part that ends is started again; else its end is the end of all of them.
    """

    home: Path
    ports: Mapping[str, int]
    procfile: Path
    environment: Callable[[], dict[str, str]]
    prepare: Callable[[], None]
    parts: tuple[Part, ...]
    status: Callable[[], None]
    again: bool = False

    @property
    def log(self) -> Path:
        return self.home / "logs" / "stack.log"


@contextmanager
def one_at_a_time(home: Path) -> Iterator[None]:
    try:
        home.mkdir(parents=True, exist_ok=True)
        home.chmod(0o700)  # a stack of an older version may have left more
        lock = (home / "stack.lock").open("w")
    except OSError as error:
        raise CannotStart(f"SLUICE_HOME cannot be used: {error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotStart(f"another make up or make down is at work on {home}") from None
        yield


def require_disk(home: Path) -> None:
    free = shutil.disk_usage(home).free
    if free < FREE_BYTES:
        raise CannotStart(f"only {free >> 20} MiB free for {home}: the stack needs {FREE_BYTES >> 20}")


def require_fetched() -> None:
    if not FETCHED.exists():
        raise CannotStart("nothing is fetched yet: run make setup")


def launch(stack: Stack) -> subprocess.Popen:
    stack.log.parent.mkdir(parents=True, exist_ok=True)
    ports = ",".join(map(str, stack.ports.values()))
    options = ["--procfile", str(stack.procfile), "--ports", ports, *(["--again"] if stack.again else [])]
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


def what_stopped(log: Path) -> str:
    """`kafka stopped (rc=1): its last line`, from honcho's log."""
    lines = log.read_text(errors="replace").splitlines()
    stopped = next((line for line in lines if " stopped (rc=" in line), None)
    if stopped is None:
        return lines[-1] if lines else "it left no log"
    what = stopped.partition("| ")[2]
    said = [
        text for name, _, text in (line.partition("| ") for line in lines) if f" {what.split()[0]} " in name
    ]
    plain = [text for text in said if text and not text[0].isspace()]  # not the frames of a stack trace
    return ": ".join([what, *plain[-1:]])


def wait_for(stack: Stack, runner_ended: Callable[[], bool]) -> None:
    started = last = time.monotonic()

    def check() -> None:
        nonlocal last
        if runner_ended():
            raise CannotStart(f"the stack died while starting: {what_stopped(stack.log)} (log: {stack.log})")
        if time.monotonic() - last > ALIVE_SECONDS:
            last = time.monotonic()
            say(f"  … waiting for {part.name}, {last - started:.0f} s")

    for part in stack.parts:
        wait_until(part.ready, part.name, START_SECONDS, check=check)
        say(f"{part.name} is up ({time.monotonic() - started:.0f} s)")
        part.then()


def start(stack: Stack) -> None:
    require_fetched()
    require_disk(stack.home)
    require_free(stack.ports)
    stack.prepare()
    runner = launch(stack)
    try:
        wait_for(stack, lambda: runner.poll() is not None)
    except BaseException:
        stopping.stop(stack.home)
        raise


def reuse(stack: Stack, runner: int) -> None:
    ports = members.Note.read(stack.home).ports
    if ports != tuple(stack.ports.values()):
        raise CannotStart(
            f"the stack runs already, on the ports {', '.join(map(str, ports))}: make down first"
        )
    say("the stack runs already")
    wait_for(stack, lambda: not Path(f"/proc/{runner}").exists())


def up(stack: Stack) -> None:
    with one_at_a_time(stack.home):
        if runner := members.runner(stack.home):
            reuse(stack, runner)
        else:
            if members.members(stack.home):
                say("stopping what a killed stack left")
                stopping.stop(stack.home)
            start(stack)
    stack.status()


def down(stack: Stack) -> None:
    if not stack.home.exists():
        say("nothing runs")
        return
    with one_at_a_time(stack.home):
        say("stopped" if stopping.stop(stack.home) else "nothing runs")


def status(stack: Stack) -> bool:
    stack.status()
    return members.runner(stack.home) is not None


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
    except (CannotStart, WrongSetting, JavaMissing, NotReady, PortInUse, CommandFailed, OSError) as error:
        print(f"sluice: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    return 0
