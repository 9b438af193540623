"""Which units a table holds as their manifests and the pipeline file say now. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from sluice.config.pipeline import Pipeline, Target
from sluice.flow.verify.facts import VerifyFacts
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.ledger import rollups_wanted
from sluice.state.status import UnitStatus
from sluice.state.unit_state import Commit, UnitState


def loaded(facts: VerifyFacts, table: str) -> list[tuple[UnitStatus, Manifest]]:
    """Returns the landed units that are committed in `table`, whatever other tables lack."""
    target = targets_of(facts.pipeline)[table]
    return [(status, m) for status, m in facts.landed if is_current(facts.pipeline, target, status)]


def committed(facts: VerifyFacts, table: str) -> list[tuple[UnitStatus, Manifest]]:
    """Returns the units of `loaded`, and those whose files the lake has forgotten and that `table` holds by
    the routes of then: nothing can move such rows to another table, so they are to be there as they were."""
    target = targets_of(facts.pipeline)[table]
    return [
        (status, m)
        for status, m in facts.landed
        if is_current(facts.pipeline, target, status) or _kept(target, status)
    ]


def _kept(target: Target, status: UnitStatus) -> bool:
    row, manifest = status.tables.get(target.table), status.manifest
    if row is None or row.lacking or manifest is None or target.rollup is not None:
        return False
    return bool(status.forgotten_on) and row.manifest == manifest.id


def units_of(facts: VerifyFacts, table: str) -> frozenset[Unit]:
    return frozenset(status.unit for status, _ in loaded(facts, table))


def targets_of(pipeline: Pipeline) -> dict[str, Target]:
    """Returns the targets by table, to be asked for once: the pipeline merges them anew each time."""
    return {target.table: target for target in pipeline.targets}


def lacking(pipeline: Pipeline, targets: Mapping[str, Target], status: UnitStatus) -> frozenset[str]:
    """Returns the tables that lack the unit, or hold an older state of it that a load could replace."""
    return frozenset(
        name
        for name, target in targets.items()
        if not is_current(pipeline, target, status) and not _kept(target, status)
    )


def narrowed(
    pipeline: Pipeline, statuses: Sequence[UnitStatus], tables: Collection[str] | None
) -> list[UnitStatus]:
    """Returns the states that the units have in these tables alone; without a choice as they are."""
    if tables is None:
        return [*statuses]
    targets = {target.table: target for target in pipeline.chosen(tables)}
    return [_narrowed(pipeline, targets, status) for status in statuses]


def _narrowed(pipeline: Pipeline, targets: Mapping[str, Target], status: UnitStatus) -> UnitStatus:
    status = replace(status, later={table: of for table, of in status.later.items() if table in targets})
    loadable = status.state in (UnitState.LANDED, UnitState.STALE)
    if not loadable or lacking(pipeline, targets, status) or status.manifest is None:
        return status
    if status.forgotten_on:
        return replace(status, state=UnitState.FORGOTTEN)
    lost = bool(status.manifest.lost)
    return replace(status, state=UnitState.COMPLETE_WITH_LOSS if lost else UnitState.COMPLETE)


def is_current(pipeline: Pipeline, target: Target, status: UnitStatus) -> bool:
    if status.state.done and not status.forgotten_on:
        return True
    row, manifest = status.tables.get(target.table), status.manifest
    if row is None or row.lacking or manifest is None or status.state is UnitState.NOT_OVER:
        return False
    return Commit(row.manifest, row.types, row.sharding) == _wanted(pipeline, target, status, manifest)


def _wanted(pipeline: Pipeline, target: Target, status: UnitStatus, manifest: Manifest) -> Commit | None:
    if target.rollup is not None:
        return rollups_wanted(pipeline, status.tables).get(target.table)
    types = pipeline.routed(target, manifest.rows_by_type())
    return Commit(manifest.id, types, pipeline.clickhouse.sharding(target.table))
