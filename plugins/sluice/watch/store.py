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
        """Writes what `step` makes of the stored state, and returns it. Repeats where another watch wrote
        in between."""
        while True:
            stored = self.lake.read(KEY)
            state = WatchState() if stored is None else decode(stored.data, f"{self.lake.url}/{KEY}")
            encoded = encode(after := step(state))
            if stored is None:
                if self.lake.create(KEY, encoded):
                    return after
            elif encoded == stored.data or self.lake.replace(KEY, encoded, stored.version):
                return after
