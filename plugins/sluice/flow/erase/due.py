"""Which units an erasure remakes, and which it only loads. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from sluice.errors import BeforeStart
from sluice.slices import Unit
from sluice.state.rollup_commits import manifests_in
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState


@dataclass(frozen=True)
class DueUnits:
    """`remake`: their files hold the person. `load`: their files do not, and tables may have rows of the
    files before."""

    remake: tuple[UnitStatus, ...] = ()
    load: tuple[UnitStatus, ...] = ()


def due_units(found: Iterable[UnitStatus], holding: Collection[Unit], known: Collection[Unit]) -> DueUnits:
    """`found`: all units that the entry covers. `holding`: those whose files hold the person. `known`: those
    that runs remake and load, by the pipeline file. Raises BeforeStart for a due one that none does."""
    own, holding = sorted(found, key=lambda status: status.unit), frozenset(holding)
    remake = [status for status in own if status.unit in holding]
    load = [s for s in own if s.unit not in holding and _behind(s, s.unit in known)]
    beyond = sorted(status.unit for status in (*remake, *load) if status.unit not in known)
    if beyond:
        raise BeforeStart(len(beyond), beyond[0].slice.id, beyond[0].cluster)
    return DueUnits(tuple(replace(status, gone=False) for status in remake), tuple(load))


def _behind(status: UnitStatus, loadable: bool) -> bool:
    """Returns whether tables may have rows of an older generation.

    A commit of another manifest says so. A load that was killed may have revoked it: a table without a commit
    may have such rows, too, but not one that the file names since the unit is `loadable` no more. Without
    its files nothing is loaded: the receipt names such a unit.
    """
    manifest = status.manifest
    if manifest is None or manifest.forgotten_on or status.state not in (UnitState.LANDED, UnitState.STALE):
        return False
    other = any(manifests_in(row) != {manifest.id} for row in status.tables.values())
    return other or (loadable and manifest.generation > 1)
