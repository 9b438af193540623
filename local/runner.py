"""Runs a Procfile in the foreground and keeps a note of what runs: `python -m local.runner`.

Airflow runs as the four parts that `airflow standalone` starts, because standalone's log servers listen
on every interface and these can be told not to.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

import honcho.manager
from honcho.environ import parse_procfile
from honcho.manager import Manager
from honcho.printer import Printer

from local.secret_file import PRIVATE
from local.versions import ROOT

STOP_SECONDS = 40  # Airflow waits for its running tasks; honcho's own 5 s would cut ClickHouse off
AGAIN_SECONDS = 1.0
LISTENING = ("SLUICE_KAFKA_PORT", "SLUICE_CLICKHOUSE_PORT")
AGAIN_AT_MOST = 200  # starts of one part: one that never stays up is no reason to go on for ever


class NotedManager(Manager):
    """Writes every part's process id, which is also its session, where `make down` finds it."""

    def __init__(self, note: Path, ports: list[int]):
        super().__init__(Printer(sys.stdout, colour=False))
        self.note = note
        self.ports = ports

    def _system_print(self, data: str) -> None:
        super()._system_print(data)
        sys.stdout.flush()
        sessions = {name: part["pid"] for name, part in self._processes.items() if "pid" in part}
        partial = self.note.with_suffix(".partial")
        # Commands in other shells look up where it listens: plugins/sluice/clients/connections/find.py.
        variables = {name: os.environ[name] for name in LISTENING if name in os.environ}
        noted = {"runner": os.getpid(), "sessions": sessions, "ports": self.ports, "environment": variables}
        partial.write_text(json.dumps(noted))
        partial.replace(self.note)


class PersistentManager(NotedManager):
    """Starts a part that ended again, as systemd, Compose and Kubernetes do; honcho would end them all."""

    def _any_stopped(self) -> bool:
        if not self._terminating:
            for name, part in self._processes.items():
                if part.get("returncode") is not None and self._due(part):
                    self._start_again(name, part)
        spent = any(part.get("starts", 0) >= AGAIN_AT_MOST for part in self._processes.values())
        return super()._any_stopped() and (self._terminating or spent)

    def _due(self, part: dict) -> bool:
        part.setdefault("again_at", time.monotonic() + AGAIN_SECONDS)
        return time.monotonic() >= part["again_at"] and part.get("starts", 0) < AGAIN_AT_MOST

    def _start_again(self, name: str, part: dict) -> None:
        part["starts"] = part.get("starts", 0) + 1
        del part["returncode"], part["again_at"]
        self.returncode = None
        part["process"] = multiprocessing.Process(name=name, target=part["obj"].run, args=(self.events, True))
        part["process"].start()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--procfile", type=Path, required=True)
    parser.add_argument("--ports", required=True, help="what the note says of them, with commas between")
    parser.add_argument("--again", action="store_true", help="start a part again that ended")
    given = parser.parse_args()
    os.umask(PRIVATE)
    honcho.manager.KILL_WAIT = STOP_SECONDS
    kind = PersistentManager if given.again else NotedManager
    manager = kind(Path(os.environ["SLUICE_HOME"], "stack.json"), [int(p) for p in given.ports.split(",")])
    for name, command in parse_procfile(given.procfile.read_text()).processes.items():
        manager.add_process(name, command, cwd=ROOT)
    manager.loop()
    return manager.returncode or 0


if __name__ == "__main__":
    sys.exit(main())
