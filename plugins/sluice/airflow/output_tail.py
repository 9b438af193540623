"""The last lines of a process's output, bounded, read by a thread of their own."""

from __future__ import annotations

import threading
from collections import deque
from typing import IO

from sluice.safe_text import line

MOST_CHARACTERS = 128 << 10
_LINE = 8 << 10  # a longer line is read in parts
_JOIN_SECONDS = 10.0


class OutputTail:
    """Reads `stream` to its end. `said` is the newest line of progress."""

    def __init__(self, stream: IO[str] | None) -> None:
        self.said = ""
        self._kept: deque[str] = deque()
        self._size = 0
        self._left_out = 0
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def text(self) -> str:
        """Returns the last lines, after the end of the process. What it started may still have its output."""
        self._thread.join(_JOIN_SECONDS)
        first = [f"[{self._left_out:,} earlier lines are left out]"] if self._left_out else []
        return "\n".join([*first, *list(self._kept)])

    def _read(self, stream: IO[str] | None) -> None:
        while text := stream.readline(_LINE) if stream is not None else "":
            self._keep(text.rstrip("\n"))

    def _keep(self, text: str) -> None:
        if text and not text.startswith("{"):  # the result, for programs
            self.said = line(text)
        self._kept.append(text)
        self._size += len(text) + 1
        while self._size > MOST_CHARACTERS:
            self._size -= len(self._kept.popleft()) + 1
            self._left_out += 1
