"""The alarms in the lake: `_alarms/state.json`, changed by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sluice.clients.lake.base import Lake
from sluice.watch.problems import WatchState, decode, encode

KEY = "_alarms/state.json"


@dataclass(frozen=True)
class AlarmStore:
    lake: Lake

    def read(self) -> WatchState:
        stored = self.lake.read(KEY)
        return WatchState() if stored is None else decode(stored.data, f"{self.lake.url}/{KEY}")

    def change(self, step: Callable[[WatchState], WatchState]) -> WatchState:
        """Writes `step` of what is there, again when another watch wrote in between, and returns it."""
        while True:
            stored = self.lake.read(KEY)
            known = WatchState() if stored is None else decode(stored.data, f"{self.lake.url}/{KEY}")
            data = encode(after := step(known))
            if stored is None:
                if self.lake.create(KEY, data):
                    return after
            elif data == stored.data or self.lake.replace(KEY, data, stored.version):
                return after
