"""Names of what one attempt at one target makes in ClickHouse."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sluice.load.sql import Sql, identifier

SYSTEM = "sluice"


def digest(target: str) -> str:
    """Twelve hexadecimal digits that stand for `database.table` in names."""
    return hashlib.sha256(target.encode()).hexdigest()[:12]


def fences(target: str) -> str:
    """What the names of all fence tables of a target begin with."""
    return f"fence_{digest(target)}_"


def stagings(target: str) -> str:
    """What the names of all temporary tables of a target begin with."""
    return f"tmp_{digest(target)}_"


def statements(target: str) -> str:
    """What the query ids of all statements of a target's attempts begin with."""
    return f"sluice-{digest(target)}-"


@dataclass(frozen=True)
class Attempt:
    """The `number`-th protocol run under one lease `generation` of a target."""

    target: str
    generation: int
    number: int

    @property
    def _suffix(self) -> str:
        return f"{self.generation}_{self.number}"

    @property
    def fence_name(self) -> str:
        return fences(self.target) + self._suffix

    @property
    def staging_name(self) -> str:
        return stagings(self.target) + self._suffix

    @property
    def fence(self) -> Sql:
        return identifier(SYSTEM, self.fence_name)

    @property
    def staging(self) -> Sql:
        return identifier(SYSTEM, self.staging_name)

    @property
    def misfits(self) -> Sql:
        return self.temporary("misfits")

    def temporary(self, what: str) -> Sql:
        """Another temporary table of the attempt."""
        return identifier(SYSTEM, self.temporary_name(what))

    def temporary_name(self, what: str) -> str:
        return f"{self.staging_name}_{what}"

    def query_id(self, step: str, serial: int) -> str:
        return f"{statements(self.target)}{self.generation}-{self.number}-{step}-{serial}"
