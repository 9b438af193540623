"""Long commands that show they are alive, and one line per thing that is done.

python -m local.progress "installing the Python packages" COMMAND…
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ALIVE_SECONDS = 5
LAST_LINES = 15


class CommandFailed(Exception):
    """A command that a step needs ended with an error; the message holds its last lines."""


def say(text: str) -> None:
    print(f"sluice: {text}", flush=True)


def run_alive(command: Sequence[str], activity: str, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Runs the command, and says every few seconds that it is running. Returns its output."""
    started = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command, cwd=cwd, env=env or os.environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        while (code := wait_a_little(process)) is None:
            say(f"  … {activity}, {time.monotonic() - started:.0f} s")
        output.seek(0)
        text = output.read()
    if code:
        raise CommandFailed(f"{activity} failed ({code}):\n" + "\n".join(text.splitlines()[-LAST_LINES:]))
    return text


def wait_a_little(process: subprocess.Popen) -> int | None:
    try:
        return process.wait(ALIVE_SECONDS)
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    try:
        run_alive(sys.argv[2:], sys.argv[1], Path.cwd())
    except (CommandFailed, OSError) as error:
        sys.exit(f"sluice: {error}")
