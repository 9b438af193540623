"""Runs a program that does not outlive its parent: `leash.py PARENT PROGRAM …`.

The program takes this process over. subprocess's `preexec_fn` would do it with less, but it runs Python
between fork and exec: with threads in the parent, a lock that one of them held is then never released.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1  # prctl(2): it survives execve, and goes by the thread that started this process


def leashed(command: Sequence[str]) -> list[str]:
    """The command for a child of this process that is killed with it."""
    return [sys.executable, "-I", str(Path(__file__).resolve()), str(os.getpid()), *command]


def main() -> None:
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == int(parent):  # it may have ended before the line above
        os.execvp(command[0], command)


if __name__ == "__main__":
    main()
