"""How far a backfill has come, asked of the lake and ClickHouse themselves, whoever runs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sluice.errors import SluiceError
from sluice.estimate import spoken
from sluice.pipeline import Pipeline
from sluice.slices import SliceRange
from sluice.state import State
from sluice.status import UnitStatus
from sluice.survey import survey

Look = Callable[[Pipeline, SliceRange], Sequence[UnitStatus]]


@dataclass
class Reach:
    """Remembers the first look: rate and time left are those since then."""

    pipeline: Pipeline
    slices: SliceRange
    look: Look = survey
    clock: Callable[[], float] = time.monotonic
    _first: tuple[float, int] | None = field(default=None, init=False)

    def line(self) -> str:
        """What is complete now; what is out of reach is said instead: the run itself goes on."""
        try:
            found = self.look(self.pipeline, self.slices)
        except SluiceError as error:
            return f"how far it is cannot be seen: {error}"
        now, done = self.clock(), sum(status.state.done for status in found)
        if self._first is None:
            self._first = (now, done)
        return told(found, done, now - self._first[0], done - self._first[1])


def told(found: Sequence[UnitStatus], done: int, elapsed: float, since: int) -> str:
    """`since` units became complete within `elapsed` seconds."""
    landed = sum(status.manifest is not None for status in found)
    rows = sum(status.manifest.read for status in found if status.manifest and status.state.done)
    over = sum(status.state is not State.NOT_OVER for status in found)
    line = f"{done:,} of {over:,} units complete, {landed:,} landed, {rows:,} rows loaded"
    return line + (f", about {spoken((over - done) * elapsed / since)} left" if since and done < over else "")
