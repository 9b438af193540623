"""Runs the Procfile in the foreground and keeps a note of what runs: `python -m local.runner`.

Airflow runs as the four parts that `airflow standalone` starts, because standalone's log servers listen
on every interface and these can be told not to.
"""

import json
import os
import sys
from pathlib import Path

import honcho.manager
from honcho.environ import parse_procfile
from honcho.manager import Manager
from honcho.printer import Printer

from local.environment import Settings
from local.versions import ROOT

PROCFILE = ROOT / "local" / "Procfile"
STOP_SECONDS = 40  # Airflow waits for its running tasks; honcho's own 5 s would cut ClickHouse off


class NotedManager(Manager):
    """Writes every part's process id, which is also its session, where `make down` finds it."""

    def __init__(self, note: Path):
        super().__init__(Printer(sys.stdout, colour=False))
        self.note = note

    def _system_print(self, data: str) -> None:
        super()._system_print(data)
        sys.stdout.flush()
        sessions = {name: part["pid"] for name, part in self._processes.items() if "pid" in part}
        ports = list(Settings.read(os.environ).ports.values())
        partial = self.note.with_suffix(".partial")
        partial.write_text(json.dumps({"runner": os.getpid(), "sessions": sessions, "ports": ports}))
        partial.replace(self.note)


def main() -> int:
    honcho.manager.KILL_WAIT = STOP_SECONDS
    manager = NotedManager(Path(os.environ["SLUICE_HOME"], "stack.json"))
    for name, command in parse_procfile(PROCFILE.read_text()).processes.items():
        manager.add_process(name, command, cwd=ROOT)
    manager.loop()
    return manager.returncode or 0


if __name__ == "__main__":
    sys.exit(main())
