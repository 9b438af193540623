"""What a load did."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sluice.slices import Unit


@dataclass(frozen=True)
class UnitLoad:
    """One unit: `loaded` now, or found committed; its rows in the table and in sluice.rejected."""

    unit: Unit
    manifest: str
    rows: int
    misfits: int
    loaded: bool


@dataclass(frozen=True)
class LoadResult:
    """`statements` that wrote, and `blocks` that they put into the target, sluice.rejected and the ledger (at
    least one for each partition of an INSERT): replicated, each block costs Keeper round trips."""

    table: str
    units: tuple[UnitLoad, ...]
    statements: int = 0
    blocks: int = 0

    @property
    def loaded(self) -> tuple[UnitLoad, ...]:
        return tuple(unit for unit in self.units if unit.loaded)

    def summary(self) -> dict[str, Any]:
        """Counts for a log or an answer in JSON: units loaded and skipped, rows and misfits of the loaded."""
        return {
            "loaded": len(self.loaded),
            "skipped": len(self.units) - len(self.loaded),
            "rows": sum(unit.rows for unit in self.loaded),
            "misfits": sum(unit.misfits for unit in self.loaded),
        }

    def as_dict(self) -> dict[str, Any]:
        units = [{**asdict(unit), "unit": str(unit.unit)} for unit in self.units]
        counts = {"statements": self.statements, "blocks": self.blocks}
        return {"table": self.table, "units": units, **counts}
