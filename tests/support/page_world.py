"""Units as the steps leave them, for tests of what the page makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pendulum

from sluice.clients.lake import layout
from sluice.config.pipeline import Pipeline
from sluice.manifest import LandedFile, Loss, Manifest, OffsetRange
from sluice.slices import Slice, Unit
from sluice.state.ledger import LedgerRow
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.manifests import made_manifest

START = pendulum.datetime(2026, 11, 20, 10)
TABLE = "events.clicks"


def pipeline(**more: object) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "p",
            "kafka": [{"cluster": "dc1", "bootstrap": "x:1", "topics": ["t"]}],
            "event": {"type": {"field": "type"}, "time": {"record": True}},
            "lake": "file:///nowhere",
            "tables": {"click": TABLE},
            **more,
        }
    )


def unit(hour: int, cluster: str = "dc1") -> Unit:
    return Unit(Slice(START.add(hours=hour)), cluster)


def file(kind: str, hour: str, rows: int) -> LandedFile:
    """Of a manifest that does not name it yet."""
    return LandedFile("", "", kind, hour, rows, rows * 10, "0" * 64)


def _named(one: LandedFile, number: int, place: Unit, generation: int) -> LandedFile:
    folder = layout.event_folder(one.type, one.hour)
    key = layout.data_file(folder, place.slice.id, place.cluster, generation, number)
    return replace(one, key=key, attempt_key=f"{layout.attempt(place.slice.id, 'abc')}{number}.parquet")


def manifest(place: Unit, files: Sequence[LandedFile], generation: int = 1, **more: object) -> Manifest:
    rows = sum(one.rows for one in files)
    rejected_records: Mapping[str, int] = more.pop("rejected_records", {})
    read = rows + sum(rejected_records.values())
    return made_manifest(
        pipeline="p",
        slice=place.slice.id,
        cluster=place.cluster,
        generation=generation,
        attempt="abc",
        ranges=(OffsetRange("t", "u", 0, 100, 100 + read),),
        files=tuple(_named(one, number, place, generation) for number, one in enumerate(files)),
        rejected=(),
        read=read,
        rejected_records=rejected_records,
        gaps=0,
        **more,
    )


def missing(place: Unit, state: UnitState = UnitState.MISSING, losses: tuple[Loss, ...] = ()) -> UnitStatus:
    return UnitStatus(place, state, None, losses, None, {}, (), 0)


def complete(place: Unit, rows: int = 5, generation: int = 1, **more: object) -> UnitStatus:
    """Landed in one file of its own hour and committed; `generation` is the load's lease."""
    files = more.pop("files", [file("click", f"{place.slice.start:%Y-%m-%dT%H}", rows)])
    landed = manifest(place, files, **more)
    count = sum(landed.rows_by_type().values())
    row = LedgerRow(place, landed.id, ("click",), count, count, 0, "run", generation)
    state = UnitState.COMPLETE_WITH_LOSS if landed.lost else UnitState.COMPLETE
    return UnitStatus(place, state, landed.ranges, (), landed, {TABLE: row}, (), 1)
