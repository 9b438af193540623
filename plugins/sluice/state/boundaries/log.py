"""The boundary log in the lake: `_boundaries/<n>.json`, each created only if absent, never changed.

Entries are dense: a writer has read all before n, so the first absent one is the end. The checkpoint is
only a shorter way to the same state; an old one costs reads, never truth.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import pendulum

from sluice import crash_points
from sluice.clients.lake import layout
from sluice.clients.lake.base import Objects
from sluice.crash_points import Resolve
from sluice.state.boundaries.encoding import decode_checkpoint, decode_entry, encode_checkpoint, encode_entry
from sluice.state.boundaries.model import Boundaries, LogEntry

CHECKPOINT = f"{layout.BOUNDARIES}checkpoint.json"
CHECKPOINT_EVERY = 32


@dataclass(frozen=True)
class BoundaryLog:
    """`writer` makes the bytes of each writer its own, as `Objects.create` asks."""

    lake: Objects
    writer: str = field(default_factory=lambda: uuid.uuid4().hex)

    def read(self, earlier: Boundaries | None = None) -> Boundaries:
        """Returns the state after all entries; `earlier` is a state to go on from."""
        state = self._checkpoint() if earlier is None else earlier
        while (stored := self.lake.read(layout.boundary_entry(state.entries))) is not None:
            place = f"{self.lake.url}/{layout.boundary_entry(state.entries)}"
            state = state.with_entry(decode_entry(stored.data, place))
        return state

    def append(self, state: Boundaries, entry: LogEntry, now: pendulum.DateTime) -> Boundaries | None:
        """Returns the state with `entry` stored; None when another writer came first: read, and try again."""
        data = encode_entry(entry, self.writer, now)
        if not self.lake.create(layout.boundary_entry(state.entries), data):
            return None
        crash_points.reached(Resolve.STORED)
        new = state.with_entry(entry)
        if new.entries % CHECKPOINT_EVERY == 0:
            self.lake.put(CHECKPOINT, encode_checkpoint(new, new.length or entry.length, self.writer, now))
            crash_points.reached(Resolve.CHECKPOINTED)
        return new

    def _checkpoint(self) -> Boundaries:
        stored = self.lake.read(CHECKPOINT)
        if stored is None:
            return Boundaries()
        return decode_checkpoint(stored.data, f"{self.lake.url}/{CHECKPOINT}")
