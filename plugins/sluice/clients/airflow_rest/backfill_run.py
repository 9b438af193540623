"""Starts a run of a pipeline's backfill DAG, and reads what the run has left."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

import pendulum

from sluice.clients.airflow_rest.session import PAGE_API, Session
from sluice.errors import Unavailable, WrongUse
from sluice.safe_text import line
from sluice.slices import utc

PLAN_KEY = "dry_run"
"""The XCom in which the task `plan` leaves the lines of a dry run."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class BackfillAsked:
    """A run over `[start, end)`; without `tables` it is of all of them. `accept_loss`: it may reject rows
    that are there."""

    pipeline: str
    start: datetime
    end: datetime
    mode: str = "fill"
    dry_run: bool = False
    tables: tuple[str, ...] = ()
    accept_loss: bool = False

    def run_id(self, now: datetime) -> str:
        """Returns the id of a run that is asked for now."""
        dry = "dry-" if self.dry_run else ""
        return f"{dry}{run_name(self.mode, self.start, self.end)}__{utc(now):%Y%m%dT%H%M%S.%fZ}"

    @property
    def conf(self) -> dict[str, Any]:
        edges = {"from": _iso(self.start), "to": _iso(self.end)}
        more: dict[str, Any] = {"tables": list(self.tables)} if self.tables else {}
        if self.accept_loss:
            more["accept_loss"] = True
        mode, _, missing_columns = self.mode.partition(" ")
        if missing_columns:
            more["missing_columns"] = True
        return {**edges, "mode": mode, "dry_run": self.dry_run, **more}


def run_name(mode: str, start: datetime, end: datetime) -> str:
    """Returns how the ids of a backfill's runs begin: `reland__2026-11-20T10:00Z__2026-11-20T12:00Z`."""
    return f"{mode.replace(' --', '-')}__{utc(start):%Y-%m-%dT%H:%MZ}__{utc(end):%Y-%m-%dT%H:%MZ}"


@dataclass(frozen=True)
class BackfillRun:
    """A run that Airflow has; `url` is its page."""

    dag_id: str
    run_id: str
    url: str = field(compare=False)

    @property
    def path(self) -> str:
        return f"/dags/{quote(self.dag_id, safe='')}/dagRuns/{quote(self.run_id, safe='')}"


def trigger(session: Session, asked: BackfillAsked, say: Tell) -> BackfillRun:
    """Queues a run of `<pipeline>_backfill`. A run of a paused DAG never starts: the DAG is unpaused, which
    `say` reports.

    Raises: Unavailable, or WrongUse when Airflow refuses (no such DAG, no right, wrong parameters).
    """
    dag_id = f"{asked.pipeline}_backfill"
    path = f"/dags/{quote(dag_id, safe='')}"
    dag = session.read(path)
    if dag is None:
        raise WrongUse(
            f"Airflow at {session.access.url} has no DAG {dag_id}, or the login may not see it: the pipeline "
            "file makes it, and `airflow dags list-import-errors` shows why one is missing"
        )
    if dag["is_paused"]:
        _unpause(session, path, dag_id)
        say(f"{dag_id} was paused: it is not any more; `airflow dags pause {dag_id}` pauses it again")
    run_id = _queue(session, path, asked)
    page = f"{session.access.url}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"
    return BackfillRun(dag_id, run_id, page)


def _queue(session: Session, path: str, asked: BackfillAsked) -> str:
    """Queues the run and returns its id. Raises Unavailable where it is unknown whether there is a run
    now."""
    try:
        body = {"dag_run_id": asked.run_id(pendulum.now("UTC")), "logical_date": None, "conf": asked.conf}
        run = session.call("POST", f"{path}/dagRuns", body)
    except Unavailable as error:
        raise Unavailable(
            f"{error}; the run may have been queued all the same: asking again makes another one, "
            "and two runs over a range load each record once"
        ) from error
    return str(run["dag_run_id"])


def _unpause(session: Session, path: str, dag_id: str) -> None:
    try:
        session.call("PATCH", path, {"is_paused": False})
    except WrongUse as error:
        raise WrongUse(
            f"{dag_id} is paused, and nothing was started: `airflow dags unpause {dag_id}` ({error})"
        ) from error


def planned(session: Session, run: BackfillRun) -> list[str]:
    """Returns what the dry run's task `plan` has found, line by line."""
    entry = f"{run.path}/taskInstances/plan/xcomEntries/{PLAN_KEY}?stringify=false"
    value = session.call("GET", entry)["value"]
    # Airflow gives what a task has set as JSON, or as its text: that goes by the way on which it was set.
    return [str(line) for line in (json.loads(value) if isinstance(value, str) else value)]


def _iso(instant: datetime) -> str:
    return utc(instant).to_iso8601_string()


# Waits for a run's end, and reports what its tasks do meanwhile.

DELETED = "deleted"
ENDED = frozenset({"success", "failed", DELETED})
POLL_SECONDS = 2.0
REPORT_SECONDS = 30.0
SILENT_SECONDS = 600.0
"""How long a server may be silent: one that restarts is back in a minute or two."""
_MOST_TASKS = 100  # as many as Airflow gives at once, and more than run at a time
_NAMED = 10


@dataclass
class Wait:
    """While the run goes on, `say` gets every change of it and of its tasks, and twice a minute what
    `how_far` says, unless that is empty, and that the DAG is paused."""

    session: Session
    run: BackfillRun
    say: Tell
    how_far: Callable[[], str] = lambda: ""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _state: str = field(default="", init=False)
    _tasks: dict[str, TaskSnapshot] = field(default_factory=dict, init=False)
    _steps: str = field(default="", init=False)
    _silent_since: float | None = field(default=None, init=False)

    def until_end(self) -> str:
        """Waits, and returns `success`, `failed` or `deleted`. A run that is cleared meanwhile goes on until
        it ends again.

        Raises: Unavailable when Airflow stays silent for `SILENT_SECONDS`; the run itself goes on.
        """
        next_report = self.clock() + REPORT_SECONDS
        while True:
            self._poll()
            if self._state in ENDED:
                return self._state
            if self.clock() > next_report and self._silent_since is None:
                self._report()
                next_report = self.clock() + REPORT_SECONDS
            self.sleep(POLL_SECONDS)

    def failed(self) -> list[str]:
        """Returns the first tasks of the run that failed, and how many more did."""
        page = self.session.call("GET", f"{self._instances}&state=failed&order_by=start_date")
        names = [TaskSnapshot.of(entry).name for entry in page["task_instances"][:_NAMED]]
        more = int(page.get("total_entries") or len(names)) - len(names)
        return [*names, *([f"{more} more"] if more > 0 else [])]

    @property
    def _instances(self) -> str:
        return f"{self.run.path}/taskInstances?limit={_MOST_TASKS}"

    def _poll(self) -> None:
        try:
            state, tasks = self._read()
        except Unavailable as error:
            self._wait_for_server(error)
            return
        if self._silent_since is not None:
            self._silent_since = None
            self.say("Airflow answers again")
        if state != self._state:
            self.say(state)
        explained, tasks_changed = 0, list(changed(self._tasks, tasks))
        for task in tasks_changed:
            explained += task.has_failed
            self.say(task.text + (self._why(task) if explained <= _NAMED else ""))
        if tasks_changed or (state in ENDED and self._tasks):
            self._say_steps()
        self._state, self._tasks = state, tasks

    def _read(self) -> tuple[str, dict[str, TaskSnapshot]]:
        run = self.session.read(self.run.path)
        if run is None:
            return DELETED, {}
        states = "".join(f"&state={state}" for state in SHOWN)
        # The newest first: those that failed long ago were reported.
        listed: dict[str, Any] | None = self.session.read(f"{self._instances}{states}&order_by=-start_date")
        return str(run["state"]), snapshots(reversed((listed or {}).get("task_instances", [])))

    def _why(self, task: TaskSnapshot) -> str:
        """Returns why a try failed, where its log is there and may be read."""
        if not task.has_failed:
            return ""
        try:
            cause = reason(self.session.read(self.run.path + task.log) or {})
        except (Unavailable, WrongUse):
            return ""
        return f": {cause}" if cause else ""

    def _say_steps(self) -> None:
        """Says how far each step is, as the page does, where that has changed; nothing where this Airflow has
        no page, or the login may not see it."""
        name = quote(self.run.dag_id.removesuffix("_backfill"), safe="")
        path = f"/pipelines/{name}/progress?run={quote(self.run.run_id, safe='')}"
        try:
            said = step_line((self.session.read(path, PAGE_API) or {}).get("steps") or [])
        except (Unavailable, WrongUse):
            return
        if said and said != self._steps:
            self._steps = said
            self.say(said)

    def _wait_for_server(self, error: Unavailable) -> None:
        now = self.clock()
        if self._silent_since is None:
            self._silent_since = now
            self.say(f"{error}; waiting for it")
        elif now - self._silent_since > SILENT_SECONDS:
            raise Unavailable(f"{error}; run {self.run.run_id} goes on without it: {self.run.url}") from error

    def _report(self) -> None:
        try:
            lines = [*self._paused(), self.how_far()]
        except Unavailable as error:
            self._wait_for_server(error)
            return
        for told in filter(None, lines):
            self.say(told)

    def _paused(self) -> Iterator[str]:
        """Yields a line where the DAG was paused while its run is under way."""
        dag = self.session.read(self.run.path.rpartition("/dagRuns/")[0])
        if dag is not None and dag["is_paused"]:
            name = self.run.dag_id
            yield f"{name} is paused, and starts no task: `airflow dags unpause {name}` lets it go on"


# What the tasks of a run are doing, in lines: those that changed since the snapshot before. Pure.
SHOWN = ("running", "restarting", "deferred", "up_for_reschedule", "up_for_retry", "failed", "skipped")
"""States that are reported; the others follow from them."""
_WAITING = {"deferred": "waits", "up_for_reschedule": "waits"}
_FAILED = ("failed", "up_for_retry")
_END = "Task failed"
_TIMEOUT = "AirflowTaskTimeout"
_MOST = 300


@dataclass(frozen=True)
class TaskSnapshot:
    """One task, or one of those that a task is mapped to; `tries` of at most `most`. `log` is the path of the
    try's log below its run."""

    name: str
    state: str
    tries: int
    most: int
    log: str

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> TaskSnapshot:
        """Reads a task instance as the API has it, whose `max_tries` are those after the first."""
        index = entry["map_index"]
        shown = entry.get("rendered_map_index") or index
        name = entry["task_id"] if index < 0 else f"{entry['task_id']}[{shown}]"
        tries = int(entry["try_number"])
        log = f"/taskInstances/{quote(entry['task_id'], safe='')}/logs/{tries}?map_index={index}"
        return cls(name, str(entry["state"]), tries, int(entry["max_tries"]) + 1, log)

    @property
    def has_failed(self) -> bool:
        return self.state in _FAILED

    @property
    def text(self) -> str:
        if self.state == "up_for_retry":
            return f"{self.name} failed in try {self.tries} of {self.most}, and is tried again"
        if self.state == "failed":
            return f"{self.name} failed for good in try {self.tries} of {max(self.tries, self.most)}"
        if self.state == "skipped":
            return f"{self.name} is skipped"
        again = f", try {self.tries} of {self.most}" if self.tries > 1 else ""
        return f"{self.name} {_WAITING.get(self.state, 'runs')}{again}"


def step_line(steps: Iterable[Mapping[str, Any]]) -> str:
    """Formats `land 2 of 3 batches, load a.b 1 of 3 (1 failed)`; empty where no batch is known."""
    parts: list[str] = []
    for step in steps:
        if not (batches := int(step["batches"])):
            return ""
        noun = "" if parts else " batch" if batches == 1 else " batches"
        more = ", ".join(f"{int(step[key]):,} {word}" for key, word in _COUNTED.items() if step.get(key))
        counts = f"{int(step['done']):,} of {batches:,}{noun}" + (f" ({more})" if more else "")
        parts.append(f"{line(str(step['step']))} {counts}")
    return ", ".join(parts)


_COUNTED = {"running": "at work", "failed": "failed", "held": "not begun"}


def snapshots(entries: Iterable[Mapping[str, Any]]) -> dict[str, TaskSnapshot]:
    return {task.name: task for task in map(TaskSnapshot.of, entries)}


def changed(before: Mapping[str, TaskSnapshot], now: Mapping[str, TaskSnapshot]) -> Iterator[TaskSnapshot]:
    """Yields the tasks whose lines changed. A sensor that is asked again and again stays one that waits."""
    for name, task in now.items():
        previous = before.get(name)
        if previous is None or previous.text != task.text:
            yield task


def reason(log: Mapping[str, Any]) -> str:
    """Returns the error that ended a try, by its log as the API has that; empty where it holds none."""
    entries = [entry for entry in log.get("content") or [] if isinstance(entry, dict)]
    failed = [entry for entry in entries if entry.get("error_detail")]
    # Others may follow: what Airflow does after a task's end may fail, too.
    ends = [entry for entry in failed if str(entry.get("event")).startswith(_END)]
    for entry in (ends or failed)[-1:]:
        error = entry["error_detail"][0]  # and then its causes
        kind, message = str(error.get("exc_type")), str(error.get("exc_value") or "")
        return "timeout" if kind == _TIMEOUT else line(message or kind, _MOST)
    return ""
