"""Keeps the Spark driver of a landing whose task is deferred: starts it, renews its record, notes its end.

    python -m sluice.airflow.driver_keeper --lake URL --pipeline NAME --key KEY --driver ID -- spark-submit …

It is a process of its own, which outlives its task. It ends the driver, and all that it has started, when its
time is over, when the record says so, or when another driver has its place. When it is killed itself, the
driver is killed with it. What it cannot do is in its log, which goes when it has ended well.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.airflow.output_tail import OutputTail
from sluice.airflow.spark_processes import MARK, end_all
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake_at
from sluice.clients.lake.settings import settings_of
from sluice.errors import Unavailable
from sluice.safe_text import line
from sluice.state.driver_record import BEAT_SECONDS, DriverEnd, DriverRecord, EndCause
from sluice.state.driver_store import change_driver

_PATIENCE_SECONDS = 3600.0  # so long the end of a driver is offered to a lake that does not answer
_NOT_STARTED = 127  # a shell's exit code for a program that it does not find
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


@dataclass
class Keeper:
    """`seconds`: that the driver may take; None for no limit."""

    lake: Lake
    key: str
    driver: str
    seconds: float | None
    beat_seconds: float = BEAT_SECONDS

    def run(self, command: Sequence[str]) -> EndCause:
        """Starts the driver, waits for its end, and stores that in the lake. Returns what ended it. Raises
        the lake's permanent errors."""
        if self._beat("") is not None:  # before anything has started
            return EndCause.STOP
        try:
            process = _start(command, self.driver)
        except OSError as error:
            self._note(DriverEnd(_NOT_STARTED, EndCause.OWN, f"{command[0]} cannot be started: {error}"))
            return EndCause.OWN
        output = OutputTail(process.stdout)
        try:
            cause = self._until_end(process, output)
        finally:
            survivors = end_all(self.driver)
        if survivors:
            _say(f"processes of this landing that do not end: {survivors}")
        self._note(DriverEnd(process.wait(), cause, output.text()))
        return cause

    def _until_end(self, process: subprocess.Popen[str], output: OutputTail) -> EndCause:
        until = None if self.seconds is None else time.monotonic() + self.seconds
        while True:
            seconds_left = self.beat_seconds if until is None else max(until - time.monotonic(), 0)
            try:
                process.wait(min(seconds_left, self.beat_seconds))
                return EndCause.OWN
            except subprocess.TimeoutExpired:
                if until is not None and time.monotonic() >= until:
                    return EndCause.TIME
                if (cause := self._beat(output.said)) is not None:
                    return cause

    def _beat(self, newest_line: str) -> EndCause | None:
        """Renews the record. Returns STOP where the record asks for the end, or is another driver's."""

        def renew(record: DriverRecord | None) -> DriverRecord | None:
            return record.renewed(os.getpid(), newest_line) if self._wanted(record) and record else None

        try:
            return None if change_driver(self.lake, self.key, renew) else EndCause.STOP
        except Unavailable as error:  # the driver needs the lake, too, and knows how to wait for it
            _say(str(error))
            return None

    def _wanted(self, record: DriverRecord | None) -> bool:
        return record is not None and record.id == self.driver and not record.stop

    def _note(self, end: DriverEnd) -> None:
        def note(record: DriverRecord | None) -> DriverRecord | None:
            return record.ended(end) if record is not None and record.id == self.driver else None

        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                change_driver(self.lake, self.key, note)
                return
            except Unavailable as error:
                if time.monotonic() > until:
                    raise
                _say(str(error))
                time.sleep(self.beat_seconds)


def _start(command: Sequence[str], mark: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        env={**os.environ, MARK: mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="backslashreplace",
        preexec_fn=_die_with_parent,
    )


def _die_with_parent() -> None:
    """Where the kernel can (Linux). spark-submit becomes its JVM by exec, which keeps this."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def _say(text: str) -> None:
    print(line(text), file=sys.stderr, flush=True)


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="driver_keeper")
    for name in ("--lake", "--pipeline", "--key", "--driver"):
        parser.add_argument(name, required=True)
    parser.add_argument("--lake-connection")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--log", type=Path, help="removed at a good end")
    parser.add_argument("command", nargs="+")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> None:
    options = arguments(words)
    lake = open_lake_at(options.lake, options.pipeline, settings_of(options.lake_connection))
    Keeper(lake, options.key, options.driver, options.seconds).run(options.command)
    if options.log is not None:
        options.log.unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])
