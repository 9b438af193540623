"""What the watch sees of a pipeline now: problems by kind, and units that have expired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from sluice.clients.lake.base import Lake
from sluice.errors import SluiceError, Unavailable
from sluice.page.expired_units import ExpiredUnits, expired_units
from sluice.watch.store import AlarmStore

UNREADABLE = "the watch's state is not readable"


@dataclass(frozen=True)
class OpenProblems:
    """`counts` says how many are open of each kind."""

    counts: Mapping[str, int]
    expired: ExpiredUnits = field(default_factory=dict)


def open_problems(lake: Lake) -> OpenProblems:
    """Reads what is open. A damaged file of the watch is a problem itself: its line is on the pipeline's
    page. Raises Unavailable where the lake does not answer."""
    try:
        alarms = AlarmStore(lake).read().alarms.values()
    except Unavailable:
        raise
    except SluiceError:
        return OpenProblems({UNREADABLE: 1})
    counts = Counter(str(alarm.problem.kind) for alarm in alarms if not alarm.over)
    return OpenProblems(dict(counts), expired_units(alarms))
