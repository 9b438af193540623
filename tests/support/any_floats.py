"""Doubles of any bits."""

from __future__ import annotations

import math
import random
import struct


def floats(count: int, seed: int = 3) -> list[float]:
    """Without those that JSON does not have."""
    chance, found = random.Random(seed), []
    while len(found) < count:
        (value,) = struct.unpack("<d", chance.randbytes(8))
        if math.isfinite(value):
            found.append(value)
    return found
