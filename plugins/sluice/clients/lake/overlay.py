"""A lake that remembers what is written to it and leaves the real one alone: for `plan` and dry runs."""

from __future__ import annotations

from sluice.clients.lake.base import Lake, StoredObject


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
