"""How far a log is acknowledged, and how often that is written down."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from sluice.shipping.place import Place
from sluice.shipping.state_file import StateFile

SAVE_SECONDS = 1.0


@dataclass
class Bookmark:
    """The newest acknowledged place; written at most once a second, and when `save` is called."""

    state: StateFile
    place: Place | None = None
    _written: Place | None = None
    _when: float = field(default_factory=time.monotonic)

    def settle(self, place: Place) -> None:
        self.place = place
        if time.monotonic() - self._when > SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        self._when = time.monotonic()
        if self.place is not None and self.place != self._written:
            self.state.write(self.place)
            self._written = self.place
