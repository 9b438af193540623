"""What the watch sees of a pipeline now, by kind."""

from __future__ import annotations

from collections import Counter

from sluice.clients.lake.base import Lake
from sluice.errors import SluiceError, Unavailable
from sluice.watch.store import AlarmStore

UNREADABLE = "the watch's state is not readable"


def open_problems(lake: Lake) -> dict[str, int]:
    """Returns how many are open of each kind. A damaged file of the watch is one itself: its line is on the
    pipeline's page. Raises Unavailable where the lake does not answer."""
    try:
        alarms = AlarmStore(lake).read().alarms.values()
    except Unavailable:
        raise
    except SluiceError:
        return {UNREADABLE: 1}
    return dict(Counter(str(alarm.problem.kind) for alarm in alarms if not alarm.over))
