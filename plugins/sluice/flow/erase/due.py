"""Which units an erasure rewrites, and which it loads. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sluice.errors import BeforeStart
from sluice.slices import Unit
from sluice.state.rollup_commits import is_of_another
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState


@dataclass(frozen=True)
class DueUnits:
    """`rewrite`: their files hold the person. `load`: their files do not, and tables may have rows of the
    files before."""

    rewrite: tuple[UnitStatus, ...] = ()
    load: tuple[UnitStatus, ...] = ()


def due_units(
    statuses: Iterable[UnitStatus],
    holding: Collection[Unit],
    runnable: Collection[Unit],
    tables: Collection[str],
) -> DueUnits:
    """Raises BeforeStart for a due unit that no run takes.

    `statuses`: of all units that the entry covers. `holding`: those whose files hold the person.
    `runnable`: those that runs load, and `tables` what into, by the pipeline file.
    """
    covered, holding = sorted(statuses, key=lambda status: status.unit), frozenset(holding)
    rewrite = [status for status in covered if status.unit in holding]
    load = [s for s in covered if s.unit not in holding and _behind(s, tables if s.unit in runnable else ())]
    beyond = sorted(status.unit for status in (*rewrite, *load) if status.unit not in runnable)
    if beyond:
        raise BeforeStart(len(beyond), beyond[0].slice.id, beyond[0].cluster)
    return DueUnits(tuple(rewrite), tuple(load))


def _behind(status: UnitStatus, tables: Collection[str]) -> bool:
    """Returns whether tables may have rows of an older generation.

    A commit of another manifest says so. A load that was killed may have revoked it: one of `tables` without
    a commit may have such rows, too. Without its files nothing is loaded: the receipt names such a unit.
    """
    manifest = status.manifest
    if manifest is None or manifest.forgotten_on or status.state not in (UnitState.LANDED, UnitState.STALE):
        return False
    rows = status.tables
    if any(is_of_another(row, manifest.id) for row in rows.values()):
        return True
    return manifest.generation > 1 and any(name not in rows or rows[name].lacking for name in tables)
