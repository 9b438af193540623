"""The `sluice` command. Exit codes: 0 done, 1 the answer is no, 2 wrong use, 3 something out of reach."""

from __future__ import annotations

import signal
import sys

from typer.exceptions import Abort, TyperException

from sluice.cli.commands import commands
from sluice.errors import SluiceError
from sluice.garbage import collect_seldom

INTERRUPTED = 130


def app() -> None:
    """Runs the command line. A bad input is one line on stderr, never a traceback.

    `kill` does what Ctrl-C does: a Spark that was started is stopped first.
    """
    collect_seldom()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(_run())


def _run() -> int:
    try:
        code = commands(standalone_mode=False) or 0
        # Typer makes the interruption of a command an exit code.
        return _interrupted() if code == INTERRUPTED else code
    except SluiceError as error:
        return _say(str(error), error.exit_code)
    except TyperException as error:
        return _say(f"{error.format_message()} `sluice --help` shows what there is", error.exit_code)
    except (KeyboardInterrupt, Abort):
        return _interrupted()
    except BrokenPipeError:
        sys.stdout = None  # the reader has gone: nothing to flush at exit
        return 0


def _interrupted() -> int:
    return _say("interrupted; start it again and it continues from what is done", INTERRUPTED)


def _say(message: str, exit_code: int) -> int:
    print("sluice: " + " ".join(message.split()), file=sys.stderr)
    return exit_code
