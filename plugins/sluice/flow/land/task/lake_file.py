"""A file of the lake that a task reads records from, where it remakes a unit."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.clients.lake.base import OfPipeline
from sluice.errors import CannotRemake
from sluice.manifest import LandedFile, Masked
from sluice.slices import Unit


@dataclass(frozen=True)
class LakeFile:
    """`rejected`: it holds records, or rows of records, that were not parsed. `reland`: the command that
    reads its unit from Kafka again. `masked`: what was masked of the unit. `gaps`: rows of its records were
    erased, and the others have their numbers."""

    unit: str
    key: str
    rows: int
    sha256: str
    rejected: bool
    reland: str
    masked: Masked | None = None
    gaps: bool = False

    @classmethod
    def of(
        cls, lake: OfPipeline, unit: Unit, file: LandedFile, masked: Masked | None = None, gaps: bool = False
    ) -> LakeFile:
        reland = reland_of(lake, unit)
        return cls(str(unit), file.key, file.rows, file.sha256, not file.hour, reland, masked, gaps)

    def refusal(self, why: str) -> CannotRemake:
        return CannotRemake(self.unit, f"file {self.key} {why}", self.reland)


def reland_of(lake: OfPipeline, unit: Unit) -> str:
    """Returns the command that reads a unit from Kafka again."""
    return lake.command("run", *unit.slice.words, "--mode", "reland")
