"""Which processes belong to a stack, also after its runner was killed.

A process belongs by the mark in its environment, which children inherit. Airflow's processes overwrite
theirs with their title, so a session that the runner noted counts as well.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from local.versions import ROOT

MARK = "SLUICE_STACK"
PROC = Path("/proc")


@dataclass(frozen=True)
class Note:
    """What the runner wrote: its own process id and its parts' (each the leader of a session)."""

    runner: int = 0
    sessions: tuple[int, ...] = ()
    ports: tuple[int, ...] = ()

    @classmethod
    def read(cls, home: Path) -> "Note":
        try:
            noted = json.loads((home / "stack.json").read_text())
            return cls(noted["runner"], tuple(noted["sessions"].values()), tuple(noted["ports"]))
        except (OSError, ValueError, KeyError):
            return cls()


def marked(process: Path, home: Path) -> bool:
    mark = f"{MARK}={home}".encode()
    return mark in (process / "environ").read_bytes().split(b"\0")


def session_of(process: Path) -> int:
    # After the command in brackets: state, parent, group, session.
    return int((process / "stat").read_text().rpartition(")")[2].split()[3])


def in_session(process: Path, home: Path, sessions: tuple[int, ...]) -> bool:
    # Process ids are used again: only one that works in our folders is ours.
    return session_of(process) in sessions and (process / "cwd").resolve().is_relative_to(ROOT)


def is_zombie(process: Path) -> bool:
    return (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"


def belongs(process: Path, home: Path, sessions: tuple[int, ...]) -> bool:
    try:
        if is_zombie(process):
            return False
        return marked(process, home) or in_session(process, home, sessions)
    except (OSError, ValueError, IndexError):
        return False  # it has just ended, or is another user's


def members(home: Path) -> list[int]:
    sessions = Note.read(home).sessions
    processes = (path for path in PROC.iterdir() if path.name.isdigit() and int(path.name) != os.getpid())
    return sorted(int(path.name) for path in processes if belongs(path, home, sessions))


def runner(home: Path) -> int | None:
    """The runner's process id if it lives."""
    noted = Note.read(home).runner
    return noted if noted in members(home) else None
