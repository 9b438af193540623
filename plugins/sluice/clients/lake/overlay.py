"""A lake that remembers what is written to it and leaves the real one alone: for `plan` and dry runs."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from sluice.clients.lake import temporary
from sluice.clients.lake.base import Begun, Lake, StoredObject


class Overlay:
    """As much of a lake as resolving needs: reads go through to `lake`, writes stay in memory."""

    def __init__(self, lake: Lake) -> None:
        self.url = lake.url
        self._lake = lake
        self._written: dict[str, bytes] = {}

    def read(self, key: str) -> StoredObject | None:
        if key in self._written:
            return StoredObject(self._written[key], "preview")
        return self._lake.read(key)

    def create(self, key: str, data: bytes) -> bool:
        if self.read(key) is not None:
            return False
        self._written[key] = data
        return True

    def put(self, key: str, data: bytes) -> None:
        self._written[key] = data


# A lake whose files can be read, and into which a task writes nothing: for forecasts.
class DiscardingLake:
    """As much of a lake as a landing's task needs. What is written is thrown away when it is whole."""

    def __init__(self, lake: Lake) -> None:
        self.url, self.pipeline, self.command = lake.url, lake.pipeline, lake.command
        self._lake = lake

    def local(self, key: str) -> AbstractContextManager[Path]:
        return self._lake.local(key)

    def synced_at_end(self) -> AbstractContextManager[DiscardingLake]:
        return nullcontext(self)

    def put(self, key: str, data: bytes) -> None:
        pass

    def begin(self, key: str) -> Begun:
        return Begun(temporary.new_file())

    def finish(self, key: str, begun: Begun) -> None:
        begun.discard()
