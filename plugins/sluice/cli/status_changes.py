"""`sluice status --changes`: what has changed in the fields of events, hour by hour."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sluice.cli.options import NEWEST, known_range
from sluice.cli.output import print_json, print_line, progress
from sluice.config.pipeline import Pipeline
from sluice.state.schema.history import UnitChange


def show_changes(spec: Pipeline, start: str | None, to: str, json: bool) -> None:
    """Reads the lake only. Raises LakeUnavailable."""
    from sluice.clients.lake.open import open_lake
    from sluice.state.boundaries.log import BoundaryLog
    from sluice.state.schema.history import changes_of
    from sluice.state.units import units_of

    slices, lake = known_range(spec, start, to, newest=NEWEST), open_lake(spec)
    units = units_of(spec, slices, BoundaryLog(lake).read())
    found = changes_of(lake, units, {}, progress)
    if json:
        print_json({"pipeline": spec.name, "changes": [_as_json(one) for one in found]})
        return
    for one in found:
        print_line(one)
    print_line(f"{spec.name} {slices}: {len(found)} changes of fields")


def _as_json(one: UnitChange) -> dict[str, Any]:
    place = {"slice": one.unit.slice.id, "cluster": one.unit.cluster}
    return {**place, **asdict(one.change), "message": str(one.change)}
