"""How a landing's Spark ended, in a line; the provider's hook says it with the whole command, 2 kB."""

from __future__ import annotations

import signal
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluice.airflow.retries import EXPECTED, final_reason
from sluice.safe_text import line

_COMMAND = "Spark-Submit cmd"  # how the hook's line on the command begins
_OUTPUT = "\nLast spark-submit output:\n"  # what stands in its exception before the last lines
_MOST = 500
_SHELL = 128  # a shell adds it to the number of a signal


class CommandAtDebug:
    """The hook's logger, for which the command is of level DEBUG."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def info(self, text: str, *arguments: object, **fields: object) -> None:
        say = self._log.debug if text.startswith(_COMMAND) else self._log.info
        say(text, *arguments, **fields)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def failure(exit_code: int, message: str) -> AirflowException:
    """Returns the exception of a landing whose Spark did not end with 0; AirflowFailException for a permanent
    error. `message` is the text of the hook's exception."""
    reason = final_reason(exit_code, message)
    if reason is not None:
        return AirflowFailException(f"landing: {reason}")
    return AirflowException(spark_end(exit_code, message))


def spark_end(exit_code: int, message: str) -> str:
    """Returns the text of a retryable failure. `message` is the text of the hook's exception."""
    lines = [text.strip() for text in message.partition(_OUTPUT)[2].splitlines() if text.strip()]
    expected = [text.removeprefix(EXPECTED) for text in lines if text.startswith(EXPECTED)]
    if name := _signal(exit_code):
        return (
            f"landing: Spark was killed by {name}: by an operator, or for want of memory, of which "
            "it may take spark.driver.memory of the pipeline file, and what the worker's own limit leaves"
        )
    if expected:
        return f"landing: {line(expected[-1])}"
    last = f", and said last: {line(lines[-1], _MOST)}" if lines else ""
    return f"landing: Spark ended with exit code {exit_code}{last}"


def _signal(exit_code: int) -> str:
    """Returns the signal's name, such as `SIGKILL`; empty where no signal ended the process."""
    number = -exit_code if exit_code < 0 else exit_code - _SHELL
    try:
        return signal.Signals(number).name if number > 0 else ""
    except ValueError:
        return ""
