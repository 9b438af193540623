"""`sluice status --changes`: what has changed in the fields of events, and which columns were added."""

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
    from sluice.state.additions import additions_in
    from sluice.state.boundaries.log import BoundaryLog
    from sluice.state.schema.history import changes_of
    from sluice.state.units import units_of

    slices, lake = known_range(spec, start, to, newest=NEWEST), open_lake(spec)
    units = units_of(spec, slices, BoundaryLog(lake).read())
    unit_changes = changes_of(lake, units, {}, progress)
    added = additions_in(lake, slices)
    if json:
        changes, columns = [_as_json(change) for change in unit_changes], [asdict(column) for column in added]
        print_json({"pipeline": spec.name, "changes": changes, "added": columns})
        return
    # A change comes before the column that it has brought about.
    lines = [(change.unit.slice.id, 0, str(change)) for change in unit_changes]
    lines += [(column.slice, 1, str(column)) for column in added]
    for _, _, line in sorted(lines, key=lambda line: line[:2]):
        print_line(line)
    columns_added = f", {len(added)} {'column' if len(added) == 1 else 'columns'} added" if added else ""
    print_line(f"{spec.name} {slices}: {len(unit_changes)} changes of fields{columns_added}")


def _as_json(unit_change: UnitChange) -> dict[str, Any]:
    unit = {"slice": unit_change.unit.slice.id, "cluster": unit_change.unit.cluster}
    return {**unit, **asdict(unit_change.change), "message": str(unit_change.change)}
