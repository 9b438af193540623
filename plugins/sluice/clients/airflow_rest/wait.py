"""Waits for a run's end, and reports what its tasks do meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sluice.clients.airflow_rest.backfill_run import BackfillRun, Tell
from sluice.clients.airflow_rest.session import Session
from sluice.clients.airflow_rest.task_lines import SHOWN, TaskSnapshot, changed, reason, snapshots
from sluice.errors import Unavailable, WrongUse

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
        explained = 0
        for task in changed(self._tasks, tasks):
            explained += task.has_failed
            self.say(task.text + (self._why(task) if explained <= _NAMED else ""))
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
        for line in filter(None, lines):
            self.say(line)

    def _paused(self) -> Iterator[str]:
        """Yields a line where the DAG was paused while its run is under way."""
        dag = self.session.read(self.run.path.rpartition("/dagRuns/")[0])
        if dag is not None and dag["is_paused"]:
            name = self.run.dag_id
            yield f"{name} is paused, and starts no task: `airflow dags unpause {name}` lets it go on"
