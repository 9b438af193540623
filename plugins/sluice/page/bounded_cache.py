"""What a server keeps of what it has read: bounded in bytes, and what was used longest ago goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

ROOM = 128 << 20


class BoundedCache:
    """Values by key, each with the bytes that it is said to take. Threads may use it side by side."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._lock = threading.Lock()
        self._held: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self.used = 0

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: Hashable) -> Any:
        """Returns the value, or None when it is not there, or not any more."""
        with self._lock:
            if key not in self._held:
                return None
            self._held.move_to_end(key)
            return self._held[key][0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """A value that is larger than the whole room is not kept."""
        with self._lock:
            self.used -= self._held.pop(key, (None, 0))[1]
            if size > self._room:
                return
            self._held[key] = (value, size)
            self.used += size
            while self.used > self._room:
                _, (_, freed) = self._held.popitem(last=False)
                self.used -= freed
