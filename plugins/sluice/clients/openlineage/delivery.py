"""Sends lineage events from a thread of its own: who gives one never waits, and no failure reaches them."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from queue import Full, Queue
from typing import NamedTuple
from uuid import UUID

from sluice.safe_text import line

# What a lineage event says, as values.


class RunState(StrEnum):
    START = "START"
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"


class JobKind(StrEnum):
    STEP = "STEP"
    COMMAND = "COMMAND"


@dataclass(frozen=True)
class RunOfJob:
    """One run (a UUID) of one job."""

    namespace: str
    job: str
    run_id: str


@dataclass(frozen=True)
class Parent:
    """The run that began this one, and the run at the beginning of all."""

    run: RunOfJob
    root: RunOfJob


class Offsets(NamedTuple):
    """Offsets `[start, until)` of a partition."""

    partition: int
    start: int
    until: int


class DatasetName(NamedTuple):
    """By the naming rules of the specification: https://openlineage.io/docs/spec/naming"""

    namespace: str
    name: str


@dataclass(frozen=True)
class ColumnSource:
    """The fields of another dataset of which one fills a column; `cast` is the type it becomes, empty where
    it stays as it is."""

    dataset: DatasetName
    fields: tuple[str, ...]
    cast: str = ""


@dataclass(frozen=True)
class Dataset:
    """One input or output of a run. What is None or empty is not known, and the event does not say it.

    `rows`, `size` (bytes) and `files` were read or written by this run. `columns` are (name, type), `sources`
    what fills them.
    """

    at: DatasetName
    rows: int | None = None
    size: int | None = None
    files: int | None = None
    offsets: tuple[Offsets, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    sources: Mapping[str, ColumnSource] | None = None


class Datasets(NamedTuple):
    inputs: tuple[Dataset, ...] = ()
    outputs: tuple[Dataset, ...] = ()


NONE = Datasets()


@dataclass(frozen=True)
class LineageEvent:
    """A run that began or ended at `at`, over the slices `[since, until)`.

    `error` is the line of a run that failed, `unread` why its datasets are named only.
    """

    state: RunState
    at: datetime
    run: RunOfJob
    kind: JobKind
    since: datetime
    until: datetime
    parent: Parent | None = None
    datasets: Datasets = NONE
    error: str = ""
    unread: str = ""


log = logging.getLogger(__name__)

WAITING = 1_000
"""Events that may wait; further ones are lost."""
PATIENCE = 5.0
"""Seconds that a task or a command waits at its end for what is not sent yet."""
_CHATTY = (
    "openlineage.client.client",
    "openlineage.client.utils",
    "openlineage.client.transport.factory",
    "openlineage.client.transport.http",
    "urllib3.connectionpool",
)

Make = Callable[[], LineageEvent]


class Sender(NamedTuple):
    """`send` gives one event to the transport, `close` waits for what that still holds; `new_id` is the id of
    a new run."""

    send: Callable[[LineageEvent], None]
    close: Callable[[], object]
    new_id: Callable[[], str]


class Delivery:
    """Events in their order. An event is made in the thread, too: what it says may have to be read first."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._queue: Queue[Make | None] = Queue(WAITING)
        self._given = self._sent = 0
        self._why = ""
        # A daemon: a server that never answers does not keep the process.
        self._thread = threading.Thread(target=self._run, name="lineage", daemon=True)
        self._thread.start()

    def put(self, make: Make) -> None:
        self._given += 1
        try:
            self._queue.put_nowait(make)
        except Full:
            self._why = f"more than {WAITING} were waiting"

    def lose(self, error: BaseException) -> None:
        """Counts an event that cannot be made."""
        self._given += 1
        self._why = reason(error)

    def close(self, patience: float = PATIENCE) -> None:
        """Waits for what is not sent yet, at most `patience` seconds, and logs what is lost in one line."""
        try:
            self._queue.put_nowait(None)
        except Full:
            patience = 0
        self._thread.join(patience)
        lost, why = self._given - self._sent, self._why
        if lost:
            if self._thread.is_alive() and not why:
                why = f"no answer within {PATIENCE:g} s of the end"
            log.warning(
                "lineage: %d of %d events were not delivered (%s); the run is not affected: correct the "
                "OpenLineage transport, or set OPENLINEAGE_DISABLED=true",
                lost,
                self._given,
                why,
            )

    def _run(self) -> None:
        with quiet():
            while (make := self._queue.get()) is not None:
                self._sent += self._done(partial(self._make_and_send, make))
            self._done(self._sender.close)

    def _make_and_send(self, make: Make) -> None:
        self._sender.send(make())

    def _done(self, act: Callable[[], object]) -> bool:
        """Returns whether `act` succeeded. A transport's error is kept as the reason; it ends no run."""
        try:
            act()
        except Exception as error:
            self._why = reason(error)
            return False
        return True


def reason(error: BaseException) -> str:
    """The class, and the status of an HTTP answer: the text may hold an address with its password."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return line(f"{type(error).__name__}{f' {status}' if status else ''}")


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing else is logged from this thread: each try would be a line, and a malformed variable is quoted.
    Who sets the client's own OPENLINEAGE_CLIENT_LOGGING gets all of it."""
    if os.environ.get("OPENLINEAGE_CLIENT_LOGGING"):
        yield
        return
    thread = threading.get_ident()

    def of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    loggers = [logging.getLogger(name) for name in _CHATTY]
    for logger in loggers:
        logger.addFilter(of_others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(of_others)


# Whether the OpenLineage client is configured, without importing it, and what its variables say of names.
_FILE = "openlineage.yml"


def configured(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a transport or a file is named, in the client's own ways:
    https://openlineage.io/docs/client/python#configuration"""
    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() in ("true", "1", "t"):
        return False
    named = [
        name for name, value in environment.items() if value and name.startswith("OPENLINEAGE__TRANSPORT")
    ]
    if named or environment.get("OPENLINEAGE_URL"):
        return True
    config_file = environment.get("OPENLINEAGE_CONFIG")
    config_files = [Path(config_file)] if config_file else []
    return any(path.is_file() for path in (*config_files, Path(_FILE), Path.home() / ".openlineage" / _FILE))


def namespace(environment: Mapping[str, str] = os.environ) -> str:
    """Of jobs; `default` as in the OpenLineage integrations of Airflow and dbt."""
    return environment.get("OPENLINEAGE_NAMESPACE") or "default"


def parent(environment: Mapping[str, str] = os.environ) -> Parent | None:
    """The run that started this process, as Airflow's macros `lineage_parent_id` and `lineage_root_parent_id`
    write it; None where none is named, or not in that form."""
    run = _run(environment.get("OPENLINEAGE_PARENT_ID", ""))
    root = _run(environment.get("OPENLINEAGE_ROOT_PARENT_ID", ""))
    return None if run is None else Parent(run, root or run)


def _run(text: str) -> RunOfJob | None:
    """`namespace/job/run`; a namespace may hold slashes."""
    parts = text.rsplit("/", 2)
    try:
        return RunOfJob(parts[0], parts[1], str(UUID(parts[2])))
    except (IndexError, ValueError):
        return None
