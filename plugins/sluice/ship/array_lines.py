"""Lines that are arrays: each is one record, and its elements are the events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from sluice.flow.land.reject_reasons import Unparsed
from sluice.flow.land.task.unpack import elements_of


@dataclass(frozen=True)
class Judged:
    """Times in ms; those that are `unread` are not understood, the broker would refuse those `refused`."""

    times: np.ndarray
    unread: np.ndarray
    refused: np.ndarray


@dataclass(frozen=True)
class Elements:
    """The events of `lines` arrays, in order; `places`: the line that each is of."""

    events: Sequence[bytes]
    places: np.ndarray
    lines: int

    @classmethod
    def of(cls, lines: Sequence[bytes]) -> Elements:
        elements_by_line = [*map(elements_in, lines)]
        sizes = np.array([*map(len, elements_by_line)], np.int64)
        events = [bytes(element) for elements in elements_by_line for element in elements]
        return cls(events, np.repeat(np.arange(len(lines)), sizes), len(lines))

    def latest(self, judged: Judged) -> Judged:
        """Returns each line's time, of those of its elements: the latest that the broker takes. An event may
        lie any time before its record, and only `max_early` behind it."""
        taken = ~(judged.unread | judged.refused)
        times = np.full(self.lines, -1, np.int64)  # what the broker takes is never below 0
        np.maximum.at(times, self.places[taken], judged.times[taken])
        none, refused = times < 0, np.zeros(self.lines, bool)
        refused[self.places[judged.refused]] = True
        return Judged(times, none & ~refused, none & refused)


def elements_in(line: bytes) -> Sequence[msgspec.Raw]:
    """Returns no elements of a line that is no array: landing rejects it."""
    try:
        return elements_of(line)
    except Unparsed:
        return ()
