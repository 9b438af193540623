"""A part of a stack: a program in a session of its own, which ends when the program does."""

import os
import signal
from pathlib import Path
from threading import Thread
from typing import Any

from honcho.process import Process

from local.members import PROC, session_of

LEFT_SECONDS = 5.0  # for what a program had begun, once it has ended


class Part(Process):
    """honcho's waits for all that hold the program's output: the workers of a killed scheduler hold it for
    ever, and its end was never seen. Here they have a moment, and are killed, as by systemd."""

    def run(self, events: Any = None, ignore_signals: bool = False) -> None:
        self._events = events
        self._child = self._child_ctor(self.cmd, env=self.env, cwd=self.cwd)
        self._send_message({"pid": self._child.pid}, type="start")
        if ignore_signals:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        telling = Thread(target=self._tell, daemon=True)
        telling.start()
        # It stays a zombie for now, so that nobody else gets its process id, which is the session's.
        os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOWAIT)
        telling.join(LEFT_SECONDS)
        kill_others(self._child.pid)
        telling.join(LEFT_SECONDS)
        self._send_message({"returncode": self._child.wait()}, type="stop")

    def _tell(self) -> None:
        for line in iter(self._child.stdout.readline, b""):
            self._send_message(line)


def kill_others(session: int) -> None:
    """Whatever is in the session beside its leader."""
    for process in PROC.iterdir():
        if process.name.isdigit() and int(process.name) != session and _in(process, session):
            try:
                os.kill(int(process.name), signal.SIGKILL)
            except ProcessLookupError:
                continue


def _in(process: Path, session: int) -> bool:
    try:
        return session_of(process) == session
    except OSError:
        return False  # it has just ended
