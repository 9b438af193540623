"""What the tasks of a run are doing, in lines: those that changed since the snapshot before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

SHOWN = ("running", "restarting", "deferred", "up_for_reschedule", "up_for_retry", "failed", "skipped")
"""States that are reported; the others follow from them."""
_WAITING = {"deferred": "waits", "up_for_reschedule": "waits"}


@dataclass(frozen=True)
class TaskSnapshot:
    """One task, or one of those that a task is mapped to; `tries` of at most `most`."""

    name: str
    state: str
    tries: int
    most: int

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> TaskSnapshot:
        """Reads a task instance as the API has it, whose `max_tries` are those after the first."""
        index = entry["map_index"]
        shown = entry.get("rendered_map_index") or index
        name = entry["task_id"] if index < 0 else f"{entry['task_id']}[{shown}]"
        return cls(name, str(entry["state"]), int(entry["try_number"]), int(entry["max_tries"]) + 1)

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


def changed(before: Mapping[str, TaskSnapshot], now: Mapping[str, TaskSnapshot]) -> Iterator[str]:
    """Yields the lines that changed. A sensor that is asked again and again stays one that waits."""
    for name, task in now.items():
        known = before.get(name)
        if known is None or known.text != task.text:
            yield task.text
