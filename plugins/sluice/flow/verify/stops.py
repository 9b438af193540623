"""What of verify's findings stops a run, and with which error. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sluice.errors import Busy, Conservation, SluiceError
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState

_NAMED = 5


def error_of(
    broken: Sequence[Anomaly], found: Iterable[UnitStatus], pending: Collection[tuple[str, str]]
) -> SluiceError | None:
    """Returns the error of a run that has `found` these states and these `broken` equations, while the
    `pending` units, as (slice id, cluster), could not be judged."""
    some = "; ".join(map(str, broken[:_NAMED]))
    if broken and _on_their_way(broken, found):
        return Busy(f"not loaded yet, or landed again meanwhile: {some}")
    if broken:
        left = len(broken) - _NAMED
        return Conservation(some + (f" (and {left} more: `sluice verify`)" if left > 0 else ""))
    if pending:
        units = ("/".join(filter(None, pair)) or "what is of no slice" for pair in sorted(pending)[:_NAMED])
        return Busy(
            f"landed or loaded all the time while it was verified, and not judged: {', '.join(units)}"
        )
    return None


def _on_their_way(broken: Iterable[Anomaly], found: Iterable[UnitStatus]) -> bool:
    """A run verifies what it has loaded: what is not, another run has landed again meanwhile."""
    units = {
        (s.unit.slice.id, s.unit.cluster) for s in found if s.state in (UnitState.LANDED, UnitState.STALE)
    }
    kinds = (AnomalyKind.INCOMPLETE, AnomalyKind.FILE_NOT_MOVED)
    return all(one.kind in kinds and (one.slice, one.cluster) in units for one in broken)
