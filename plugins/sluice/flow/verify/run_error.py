"""Decides by what verify has found with which error a run ends, if any. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sluice.errors import Busy, Conservation, NotLoaded, SluiceError
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState

_NAMED = 5
_OF_NONE = "what belongs to no slice"


def error_of(
    broken: Sequence[Anomaly],
    statuses: Iterable[UnitStatus],
    pending: Collection[tuple[str, str]],
    verify: str,
) -> SluiceError | None:
    """Returns the error of a run that has `found` these states and these `broken` equations, while the
    `pending` units, as (slice id, cluster), could not be judged. `verify` is the command that names all."""
    named = "; ".join(map(str, broken[:_NAMED]))
    if broken and _on_their_way(broken, statuses):
        return NotLoaded(named, frozenset((anomaly.slice, anomaly.cluster) for anomaly in broken))
    if broken:
        left = len(broken) - _NAMED
        return Conservation(named + (f" (and {left} more: `{verify}`)" if left > 0 else ""))
    if pending:
        units = ("/".join(filter(None, pair)) or _OF_NONE for pair in sorted(pending)[:_NAMED])
        reason = f"not verified, for it was landed or loaded meanwhile: {', '.join(units)}"
        return Busy(f"{reason}; verify when that is done")
    return None


def _on_their_way(broken: Iterable[Anomaly], statuses: Iterable[UnitStatus]) -> bool:
    """A run verifies what it has loaded: what is not, another run has landed again meanwhile."""
    units = {
        (s.unit.slice.id, s.unit.cluster) for s in statuses if s.state in (UnitState.LANDED, UnitState.STALE)
    }
    kinds = (AnomalyKind.INCOMPLETE, AnomalyKind.FILE_NOT_MOVED)
    return all(anomaly.kind in kinds and (anomaly.slice, anomaly.cluster) in units for anomaly in broken)
