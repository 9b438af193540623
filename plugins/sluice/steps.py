"""The steps `resolve → land → load → verify → publish` as plain functions over a range of slices.

Airflow's tasks and `sluice run` call the same ones. Each is safe to repeat at any time: what is done is
read from the lake and ClickHouse, never from the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pendulum

from sluice.batches import Weight, cut
from sluice.clickhouse.connect import connect
from sluice.errors import Conservation, EndInFuture, Refused
from sluice.lake.open import open_lake
from sluice.landing.event_hours import publish_event_hours
from sluice.landing.mover import finish_moves
from sluice.load.check import inspect_target
from sluice.load.load import load
from sluice.load.system import check_owner, create_system_tables
from sluice.pipeline import Pipeline
from sluice.plan import describe
from sluice.resolve import resolve
from sluice.slices import SliceRange, floor
from sluice.state import State
from sluice.status import UnitStatus, units_of
from sluice.survey import audit, preview, survey

Say = Callable[[str], None]


def hourly_range(pipeline: Pipeline, own: SliceRange) -> SliceRange:
    """The slices that the run of `own` also heals: `heal` back from its end, not before `start`."""
    start = floor(own.end - pipeline.heal, pipeline.slice)
    if pipeline.start is not None:
        start = max(start, pendulum.instance(pipeline.start))
    return SliceRange(min(start, own.start), own.end, pipeline.slice)


def resolve_range(pipeline: Pipeline, slices: SliceRange) -> dict[str, Any]:
    """Stores every boundary of the range that is missing.

    Raises EndInFuture when the range is not over, and KafkaOutOfReach for a cluster that did not answer,
    after the others' boundaries were stored.
    """
    now = pendulum.now("UTC")
    if slices.end > now:
        raise EndInFuture(str(slices.end), str(now))
    resolution = resolve(pipeline, open_lake(pipeline), list(slices), now)
    for error in resolution.unreachable.values():
        raise error
    return {"slices": len(slices), "from": str(slices.start), "to": str(slices.end)}


def check_targets(pipeline: Pipeline) -> None:
    """Raises TargetRefused for the first target table that could not be loaded; writes nothing to any."""
    url = open_lake(pipeline).url
    with connect(pipeline) as client:
        for target in pipeline.targets:
            inspect_target(client, pipeline, target)
        create_system_tables(client)
        for target in pipeline.targets:
            check_owner(client, pipeline, url, target)


def batches(pipeline: Pipeline, slices: SliceRange, mode: str) -> list[SliceRange]:
    """What of the range has work to do in `mode`, cut by rows and by number of slices."""
    return cut([_weight(status) for status in survey(pipeline, slices) if _has_work(status, mode)])


def _has_work(status: UnitStatus, mode: str) -> bool:
    if status.state is State.NOT_OVER:
        return False
    return mode != "fill" or not status.state.done


def _weight(status: UnitStatus) -> Weight:
    return Weight(status.unit.slice, status.manifest.read if status.manifest else status.offsets)


def load_table(
    pipeline: Pipeline, table: str, slices: SliceRange, mode: str, token: str, say: Say
) -> dict[str, Any]:
    """Loads what of the range is landed into one target table. Raises what `sluice.load` raises.

    A lander that died after its manifest has not moved every file: that is finished first.
    """
    target = next(t for t in pipeline.targets if t.table == table)
    lake = open_lake(pipeline)
    units = list(finish_moves(lake, units_of(pipeline, slices)))
    with connect(pipeline) as client:
        result = load(pipeline, target, units, lake, client, mode=mode, token=token, on_progress=say)
    return {"table": table, **result.summary()}


def verify_range(pipeline: Pipeline, slices: SliceRange) -> dict[str, Any]:
    """Raises Conservation, naming every place, when an equation of the range does not hold."""
    found, findings = audit(pipeline, slices)
    if findings:
        more = f" (and {len(findings) - 5} more: `sluice verify`)" if len(findings) > 5 else ""
        raise Conservation("; ".join(str(finding) for finding in findings[:5]) + more)
    return {"units": len(found), "records": sum(s.manifest.read for s in found if s.manifest)}


def publish_range(pipeline: Pipeline, slices: SliceRange) -> list[dict[str, Any]]:
    """Marks complete event hours, and returns for each table and slice what became available."""
    found = survey(pipeline, slices)
    publish_event_hours(pipeline, open_lake(pipeline), slices)
    events = []
    for piece in slices:
        units = [s for s in found if s.unit.slice == piece]
        if not all(s.state.done for s in units):
            raise Refused(f"slice {piece.id} is not complete: `sluice status` shows what is missing")
        manifests = {s.unit.cluster: s.manifest.id for s in units if s.manifest}
        for target in pipeline.targets:
            rows = sum(s.tables[target.table].rows for s in units)
            events.append({"table": target.table, "slice": piece.id, "rows": rows, "manifests": manifests})
    return events


def plan_lines(pipeline: Pipeline, slices: SliceRange, mode: str) -> list[str]:
    """What a run over the range would do, a line per unit; changes nothing."""
    return [describe(status, mode, pipeline.on_expired) for status in preview(pipeline, slices)]
