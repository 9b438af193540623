"""Where every row that landed is: in a table, rejected there, without a table, or not loaded yet. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from sluice.config.pipeline import Pipeline, Target
from sluice.manifest import Manifest
from sluice.state.status import UnitStatus

_NAMED = 5


@dataclass(frozen=True)
class RowBalance:
    """Rows of units that have landed: landed = loaded + misfits + without a table + not loaded. `without`:
    those of types that no table takes, by type."""

    landed: int = 0
    loaded: int = 0
    misfits: int = 0
    without: Counter[str] = field(default_factory=Counter)

    @property
    def not_loaded(self) -> int:
        return self.landed - self.loaded - self.misfits - self.without.total()

    def __str__(self) -> str:
        """`9 rows parsed = 5 loaded + 1 misfits + 3 without a table (view) + 0 not loaded`"""
        names = [name for name, _ in self.without.most_common(_NAMED)]
        names += [f"{len(self.without) - _NAMED:,} more types"] if len(self.without) > _NAMED else []
        types = f" ({', '.join(names)})" if names else ""
        return (
            f"{self.landed:,} rows parsed = {self.loaded:,} loaded + {self.misfits:,} misfits + "
            f"{self.without.total():,} without a table{types} + {self.not_loaded:,} not loaded"
        )


def balance_of(pipeline: Pipeline, statuses: Iterable[UnitStatus]) -> RowBalance:
    """Counts what tables of events hold of the manifests, by the routes of the pipeline file as it is now. A
    unit whose files the lake has forgotten counts by the routes of its load: nothing moves its rows."""
    landed = loaded = misfits = 0
    without: Counter[str] = Counter()
    targets = _of_events(pipeline)
    for status in statuses:
        if status.manifest is None:
            continue
        landed += status.manifest.landed
        held: set[str] = set()
        types = status.manifest.rows_by_type()
        for target in targets:
            row = status.tables.get(target.table)
            if row is None or row.manifest != status.manifest.id:
                continue
            if status.forgotten_on or row.types == pipeline.routed(target, types):
                loaded, misfits = loaded + row.rows, misfits + row.misfits
                held.update(row.types)
        lacking = without_table(pipeline, status.manifest)
        without.update({name: rows for name, rows in lacking.items() if name not in held})
    return RowBalance(landed, loaded, misfits, without)


def without_table(pipeline: Pipeline, manifest: Manifest) -> dict[str, int]:
    """Returns the rows landed of each type that no table takes."""
    rows = manifest.rows_by_type()
    routed = {name for target in _of_events(pipeline) for name in pipeline.routed(target, rows)}
    return {name: count for name, count in rows.items() if name not in routed}


def _of_events(pipeline: Pipeline) -> list[Target]:
    return [target for target in pipeline.targets if not target.counted and target.rollup is None]
