"""The `sluice` command. Exit codes: 0 done, 1 the answer is no, 2 wrong use, 3 something out of reach."""

from __future__ import annotations

import sys

from typer.exceptions import Abort, TyperException

from sluice.cli.commands import commands
from sluice.errors import SluiceError

INTERRUPTED = 130


def app() -> None:
    """Runs the command line. A bad input is one line on stderr, never a traceback."""
    sys.exit(_run())


def _run() -> int:
    try:
        return commands(standalone_mode=False) or 0
    except SluiceError as error:
        return _say(str(error), error.exit_code)
    except TyperException as error:
        return _say(f"{error.format_message()} `sluice --help` shows what there is", error.exit_code)
    except (KeyboardInterrupt, Abort):
        return _say("interrupted; start it again and it continues from what is done", INTERRUPTED)
    except BrokenPipeError:
        sys.stdout = None  # the reader has gone: nothing to flush at exit
        return 0


def _say(message: str, exit_code: int) -> int:
    print("sluice: " + " ".join(message.split()), file=sys.stderr)
    return exit_code
