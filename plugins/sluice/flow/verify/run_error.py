"""Decides by what verify has found with which error a run ends, if any, and what it publishes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sluice.config.chosen_tables import Tables
from sluice.config.pipeline import Pipeline
from sluice.errors import Busy, Conservation, NotLoaded, SluiceError
from sluice.flow.verify.anomaly import QUIET_KINDS, Anomaly, AnomalyKind
from sluice.flow.verify.current import lacking, narrowed, targets_of
from sluice.flow.verify.repairs import Repairs
from sluice.plan.plan import waiting
from sluice.slices import Slice
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState

_NAMED = 5
_OF_NONE = "what belongs to no slice"


def failing(
    pipeline: Pipeline, findings: Iterable[Anomaly], statuses: Sequence[UnitStatus], tables: Tables | None
) -> list[Anomaly]:
    """Returns the findings that fail a run into `tables`, or into all. That a cluster has not landed, or that
    other tables lack what the run was not asked to load, fails none: such slices are not published."""
    waiting_units = (unit for cluster in waiting(pipeline, statuses) for unit in cluster.units)
    apart = {(unit.slice.id, unit.cluster) for unit in waiting_units}
    apart |= {(s.unit.slice.id, s.unit.cluster) for s in _lacked(pipeline, statuses, tables)}
    return [
        finding
        for finding in findings
        if finding.kind not in QUIET_KINDS
        and not (finding.kind is AnomalyKind.INCOMPLETE and (finding.slice, finding.cluster) in apart)
    ]


def lacked_elsewhere(
    pipeline: Pipeline, statuses: Sequence[UnitStatus], tables: Tables | None
) -> dict[Slice, frozenset[str]]:
    """Returns the slices that `tables` hold and other tables lack, and which; without a choice none."""
    targets = targets_of(pipeline)
    lacked: dict[Slice, frozenset[str]] = {}
    for status in _lacked(pipeline, statuses, tables):
        without = lacking(pipeline, targets, status)
        lacked[status.unit.slice] = lacked.get(status.unit.slice, frozenset()) | without
    return lacked


def _lacked(pipeline: Pipeline, statuses: Sequence[UnitStatus], tables: Tables | None) -> list[UnitStatus]:
    """Returns the units that only tables lack which were not chosen."""
    in_tables = narrowed(pipeline, statuses, tables)
    pairs = zip(statuses, in_tables, strict=True)
    return [status for status, chosen in pairs if chosen.state.done and not status.state.done]


def not_published(pipeline: Pipeline, lacked: Mapping[Slice, Collection[str]]) -> str:
    """Says which slices `lacked_elsewhere` has left out, and what loads them; empty where there are none."""
    if not lacked:
        return ""
    tables = ", ".join(sorted({table for without in lacked.values() for table in without}))
    slices = "1 slice is" if len(lacked) == 1 else f"{len(lacked):,} slices are"
    fill = Repairs.of(pipeline).run([min(lacked), max(lacked)], "fill")
    return f"{slices} not complete, and not published: not in {tables}; `{fill}` loads the rest"


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
