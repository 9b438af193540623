"""The `sluice` command. Exit codes: 0 done, 1 the answer is no, 2 wrong use, 3 something unavailable, and as
a shell has it, 130 interrupted.

Importing the commands takes seconds, so this module imports none of them before it can be interrupted.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

INTERRUPTED = 130
_unread: set[int] = set()
_AGAIN = "start it again: what is done stays done"


def app() -> None:
    """Runs the command line. A bad input is one line on stderr, never a traceback.

    `kill` does what Ctrl-C does: a Spark that was started is stopped first.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop_at_once)
    _open_streams()
    sys.exit(_run())


def is_unread() -> bool:
    """Returns whether the reader of standard output, such as `head`, has gone away."""
    return 1 in _unread


def _stop_at_once(_number: int, _frame: FrameType | None) -> None:
    """Ends the process while it imports modules: nothing has begun, and any import could raise."""
    os.write(2, f"sluice: interrupted; {_AGAIN}\n".encode())
    os._exit(INTERRUPTED)


def _open_streams() -> None:
    """Opens streams that are closed (`<&-`, `>&-`): what is read is empty. Escapes characters that the
    terminal's encoding lacks."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, errors="backslashreplace"))  # noqa: SIM115 - for good
        elif mode == "w":
            setattr(sys, name, _patient(getattr(sys, name)))


class _Patient(io.FileIO):
    """A stream whose descriptor may be full and not block: `ssh` and Node share theirs in that state. Python
    would raise BlockingIOError, or drop the rest. If its reader has gone away, the command does
    its work unread, and ends as it would."""

    def write(self, data: Buffer, /) -> int:
        try:
            while (written := super().write(data)) is None:
                full = select.poll()
                full.register(self, select.POLLOUT)
                full.poll()
            return written
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            _unread.add(self.fileno())
            return super().write(data) or 0


def _patient(stream: TextIO) -> TextIO:
    stream.flush()
    raw = _Patient(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=bool(stream.line_buffering),
    )


def _run() -> int:
    import logging

    from typer.exceptions import Abort, TyperException

    from sluice.cli.commands import commands
    from sluice.errors import SluiceError
    from sluice.runtime import collect_seldom

    collect_seldom()
    # A task's log has each statement. Here lines of progress say it, and Airflow's settings print both.
    for name in ("sluice", "httpx"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        code = commands(standalone_mode=False) or 0
        # Typer makes the interruption of a command an exit code.
        return _interrupted() if code == INTERRUPTED else code
    except SluiceError as error:
        return _say(str(error), error.exit_code)
    except TyperException as error:
        return _say(f"{error.format_message()} `sluice --help` shows what there is", error.exit_code)
    except (KeyboardInterrupt, Abort):
        return _interrupted()


def _interrupted() -> int:
    return _say(f"interrupted; {_AGAIN}", INTERRUPTED)


def _say(message: str, exit_code: int) -> int:
    from sluice.cli.output import progress

    sys.stdout.flush()
    progress(f"sluice: {message}")
    return exit_code
