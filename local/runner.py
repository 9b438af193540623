"""Runs a Procfile in the foreground and keeps a note of what runs: `python -m local.runner`.

Airflow runs as the four parts that `airflow standalone` starts, because standalone's log servers listen
on every interface and these have a setting against it.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from functools import partial
from pathlib import Path

import honcho.manager
from honcho.environ import parse_procfile
from honcho.manager import Manager
from honcho.printer import Printer

from local.part import Part
from local.readiness import broker_ready, clickhouse_ready
from local.secret_file import PRIVATE
from local.silence import Silence
from local.versions import ROOT

STOP_SECONDS = 40  # Airflow waits for its running tasks; honcho's own 5 s would cut ClickHouse off
AGAIN_SECONDS = 1.0
STEADY_SECONDS = 30.0  # a part that has run so long is no part that cannot run
LISTENING = {"SLUICE_KAFKA_PORT": broker_ready, "SLUICE_CLICKHOUSE_PORT": clickhouse_ready}
SILENT_SECONDS = 60.0


class NotedManager(Manager):
    """Writes every part's process id, which is also its session, where `make down` finds it.

    A part that ends is started again, as systemd, Compose and Kubernetes do; honcho would end them all. It
    does so too when a part has ended `patience` times in a row, each time soon after its start.
    """

    def __init__(self, note: Path, ports: list[int], patience: int, silent: float):
        super().__init__(Printer(sys.stdout, colour=False))
        self.note = note
        self.ports = ports
        self.patience = patience
        self.silent = silent
        self._signalled: set[int] = set()
        self._process_ctor = Part

    def _system_print(self, data: str) -> None:
        super()._system_print(data)
        sys.stdout.flush()
        sessions = {name: part["pid"] for name, part in self._processes.items() if "pid" in part}
        partial = self.note.with_suffix(".partial")
        # Commands in other shells look up where it listens: plugins/sluice/clients/connections.py.
        variables = {name: os.environ[name] for name in LISTENING if name in os.environ}
        noted = {"runner": os.getpid(), "sessions": sessions, "ports": self.ports, "environment": variables}
        partial.write_text(json.dumps(noted))
        partial.replace(self.note)

    def _start(self) -> None:
        super()._start()
        for part in self._processes.values():
            part |= {"since": time.monotonic(), "soon": 0}
        probes = {
            name.removeprefix("SLUICE_").removesuffix("_PORT").lower(): partial(
                answers, int(os.environ[name])
            )
            for name, answers in LISTENING.items()
            if name in os.environ
        }
        Silence(probes, self.silent, self._end_silent).start()

    def _end_silent(self, name: str) -> None:
        """Kills a part that runs and no longer answers: it would not end by a gentler signal, either."""
        part = self._running().get(name)
        if part is not None and not self._terminating:
            self._system_print(f"{name} has not answered for {self.silent:.0f} s: it is killed\n")
            self._procmgr.kill(part["pid"])

    def _killall(self, force: bool = False) -> None:
        """Signals those that run; honcho's fails where a part has no process id yet."""
        end = self._procmgr.kill if force else self._procmgr.terminate
        for name, part in self._running().items():
            self._system_print(f"sending {'SIGKILL' if force else 'SIGTERM'} to {name} (pid {part['pid']})\n")
            self._signalled.add(part["pid"])
            end(part["pid"])

    def _running(self) -> dict[str, dict]:
        return {n: p for n, p in self._processes.items() if "pid" in p and p.get("returncode") is None}

    def _all_stopped(self) -> bool:
        """Parts that end by themselves are started again. One that had just been started when all were to
        stop has had no signal yet."""
        if not self._terminating:
            return False
        if any(part["pid"] not in self._signalled for part in self._running().values()):
            self._killall()
        return super()._all_stopped()

    def _any_stopped(self) -> bool:
        if self._terminating:
            return super()._any_stopped()
        ended = {name: part for name, part in self._processes.items() if part.get("returncode") is not None}
        for name, part in ended.items():
            if "again_at" not in part:
                self._note_end(part)
            if part["soon"] >= self.patience:
                self._system_print(f"{name} has ended {part['soon']} times in a row: all stop\n")
                return True
            if time.monotonic() >= part["again_at"]:
                self._start_again(name, part)
        return False

    def _note_end(self, part: dict) -> None:
        now = time.monotonic()
        part["soon"] = part["soon"] + 1 if now - part["since"] < STEADY_SECONDS else 1
        part["again_at"] = now + AGAIN_SECONDS

    def _start_again(self, name: str, part: dict) -> None:
        del part["returncode"], part["again_at"]
        self.returncode = None
        self._system_print(f"{name} is started again\n")
        part["since"] = time.monotonic()
        part["process"] = multiprocessing.Process(name=name, target=part["obj"].run, args=(self.events, True))
        part["process"].start()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--procfile", type=Path, required=True)
    parser.add_argument("--ports", required=True, help="what the note says of them, with commas between")
    parser.add_argument("--patience", type=int, required=True, help="ends of a part in a row until all stop")
    silent = "seconds for which a server may not answer before it is killed, and started again"
    parser.add_argument("--silent", type=float, default=SILENT_SECONDS, help=silent)
    options = parser.parse_args()
    os.umask(PRIVATE)
    honcho.manager.KILL_WAIT = STOP_SECONDS
    note, ports = Path(os.environ["SLUICE_HOME"], "stack.json"), [int(p) for p in options.ports.split(",")]
    manager = NotedManager(note, ports, options.patience, options.silent)
    for name, command in parse_procfile(options.procfile.read_text()).processes.items():
        manager.add_process(name, command, cwd=ROOT)
    manager.loop()
    return manager.returncode or 0


if __name__ == "__main__":
    sys.exit(main())
