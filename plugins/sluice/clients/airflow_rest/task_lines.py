"""What the tasks of a run are doing, in lines: those that changed since the snapshot before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sluice.safe_text import line

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
