"""Units of which Kafka has deleted records before they landed, as the watch has seen it. Pure.

A step notes that a unit has expired once it has tried to land it; the page does not ask Kafka for each cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sluice.state.months import Units, UnitSummary
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from sluice.watch.problems import Alarm, ProblemKind

ExpiredUnits = Mapping[str, frozenset[str]]
"""By slice id the clusters."""
_SLICE = "slice "
_UNLANDED = frozenset({str(UnitState.MISSING), str(UnitState.NOT_OVER)})


def expired_units(alarms: Iterable[Alarm]) -> dict[str, frozenset[str]]:
    """Returns the units with an open alarm that they have expired."""
    clusters_by_slice: dict[str, frozenset[str]] = {}
    for alarm in alarms:
        problem = alarm.problem
        if problem.kind is ProblemKind.EXPIRED and not alarm.over and problem.place.startswith(_SLICE):
            name, _, cluster = problem.place.removeprefix(_SLICE).partition("/")
            clusters_by_slice[name] = clusters_by_slice.get(name, frozenset()) | {cluster}
    return clusters_by_slice


def with_expired(statuses: Iterable[UnitStatus], expired: ExpiredUnits) -> list[UnitStatus]:
    """Returns the statuses. Those of unlanded units in `expired` say that the unit has expired."""
    return [
        replace(status, state=UnitState.EXPIRED)
        if status.state is UnitState.MISSING and status.unit.cluster in expired.get(status.unit.slice.id, ())
        else status
        for status in statuses
    ]


def units_with_expired(units: Units, clusters: Iterable[str]) -> Units:
    """Returns a slice's summaries, with the unlanded units of `clusters` as expired ones. A unit that no step
    has read has no summary before."""
    unlanded = [c for c in clusters if c not in units or units[c].state in _UNLANDED]
    return {**units, **{cluster: UnitSummary(str(UnitState.EXPIRED)) for cluster in unlanded}}
