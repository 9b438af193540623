"""What the end of a watched driver means for its task: the same as of a driver that the task ran itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from airflow.sdk.exceptions import AirflowException

from sluice.airflow.driver_trigger import WatchedDriver
from sluice.airflow.spark_end import OUTPUT, failure
from sluice.errors import Unavailable
from sluice.state.driver_record import DriverEnd, DriverState, EndCause
from sluice.state.driver_store import read_driver, stop_driver

REPLACED = "landing: another try of this task has a driver of its own meanwhile"


def end_of_driver(watched: WatchedDriver, state: DriverState, say: Callable[[str], None]) -> int:
    """Prints the driver's output line by line, and returns 0. Raises AirflowException, which is retried,
    AirflowFailException, which is not, and what the lake raises."""
    if state is DriverState.LOST:
        with suppress(Unavailable):  # then the next try attaches, and finds it lost once more
            stop_driver(watched.opened(), watched.key, watched.driver)
        raise AirflowException(
            f"landing: nothing is known any more of the driver on {watched.host}, since {watched.since}: "
            "the machine or its container has ended, or somebody has killed the driver and its keeper"
        )
    record = read_driver(watched.opened(), watched.key)
    if state is DriverState.REPLACED or record is None or record.id != watched.driver or record.end is None:
        raise AirflowException(REPLACED)
    for text in record.end.output.splitlines():
        say(text)
    raise_for(record.end)
    return 0


def raise_for(end: DriverEnd) -> None:
    """Raises the error of a driver's end; returns where it has landed all."""
    if end.cause is EndCause.TIME:
        raise AirflowException("landing: Spark was ended: it took longer than the task's timeout")
    if end.cause is EndCause.STOP:
        raise AirflowException(
            "landing: Spark was ended, for the task was cleared or marked while it was deferred"
        )
    if end.code:
        raise failure(end.code, OUTPUT + end.output)
