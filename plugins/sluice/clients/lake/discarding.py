"""A lake whose files can be read, and into which a task writes nothing: for forecasts."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from sluice.clients.lake import temporary
from sluice.clients.lake.base import Lake


class DiscardingLake:
    """As much of a lake as a landing's task needs. What is written is thrown away when it is whole."""

    def __init__(self, lake: Lake) -> None:
        self.url, self.command = lake.url, lake.command
        self._lake = lake

    def local(self, key: str) -> AbstractContextManager[Path]:
        return self._lake.local(key)

    def synced_at_end(self) -> AbstractContextManager[DiscardingLake]:
        return nullcontext(self)

    def put(self, key: str, data: bytes) -> None:
        pass

    def begin(self, key: str) -> Path:
        return temporary.new_file()

    def finish(self, key: str, path: Path) -> None:
        path.unlink(missing_ok=True)
