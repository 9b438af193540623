"""Columns that a table has got since units were loaded: these are compared as they were loaded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sluice.flow.contents.staged_load import Stage
from sluice.flow.load.work import LoadWork
from sluice.safe_text import visible
from sluice.slices import SliceRange, Unit
from sluice.state.additions import latest, read_additions
from sluice.state.later_columns import maybe_lost
from sluice.state.manifests import read_manifests


@dataclass
class LaterColumns:
    """By column the units that lack it and may have its field, each with how many rows have it; None: the
    manifest has not counted them."""

    units: dict[str, dict[Unit, int | None]] = field(default_factory=lambda: defaultdict(dict))
    evolved: set[str] = field(default_factory=set)

    def add(self, stage: Stage, works: Sequence[LoadWork], later: Collection[str]) -> None:
        """Adds units that were loaded before the table got the columns `later`.

        Raises what the lake raises."""
        if not later:
            return
        manifests = read_manifests(stage.lake, [work.unit for work in works])
        self.evolved |= set(latest(read_additions(stage.lake), stage.target.table))
        for work in works:
            if work.unit in manifests:
                lost = maybe_lost(stage.target, manifests[work.unit], work.types, later)
                for column, rows in lost.items():
                    self.units[column][work.unit] = rows

    def notes(self, stage: Stage) -> list[str]:
        """Returns a line for each column that units lack whose rows may have the field."""
        return [_note(stage, name, units, name in self.evolved) for name, units in sorted(self.units.items())]


def _note(stage: Stage, column: str, units: dict[Unit, int | None], evolved: bool) -> str:
    counted = sum(count or 0 for count in units.values())
    maybe = sum(count is None for count in units.values())
    parts = [f"{counted:,} rows have its field"] if counted else []
    parts += [f"of {maybe:,} its field was not counted in every row"] if maybe else []
    first, last = min(units).slice.start, max(units).slice.end
    slices = f"{len(units):,} loaded {'slice' if len(units) == 1 else 'slices'}"
    fills = ("--backfill",) if evolved else ("--mode", "reload")
    command = stage.pipeline.command("run", *SliceRange(first, last).words, *fills)
    how = f"`{command}` " + ("loads them again" if evolved else "fills it by the pipeline file as it is")
    return (
        f"table {stage.target.table}: column {visible(column)} was added later than {slices}, and is empty "
        f"there: {', '.join(parts)}; {how}"
    )
