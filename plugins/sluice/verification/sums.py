"""Counts and sums of one unit in a table, and when two of them say the same. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class FloatSum:
    """A sum of floating point numbers depends on the order in which they are added: ClickHouse keeps none.

    `scale` is the sum of their absolute values: two sums are the same within `tolerance` of it.
    """

    value: float
    scale: float
    tolerance: float

    def agrees(self, other: FloatSum) -> bool:
        if not (math.isfinite(self.value) and math.isfinite(other.value)):
            return self.value == other.value or (math.isnan(self.value) and math.isnan(other.value))
        return abs(self.value - other.value) <= self.tolerance * max(self.scale, other.scale)


@dataclass(frozen=True)
class Sums:
    """`exact` is the text of what has to be the same to the last digit."""

    exact: str
    floats: tuple[FloatSum, ...] = ()

    def agrees(self, other: Sums) -> bool:
        pairs = zip(self.floats, other.floats, strict=True)
        return self.exact == other.exact and all(mine.agrees(theirs) for mine, theirs in pairs)

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.exact, *(repr(number.value) for number in self.floats))))
