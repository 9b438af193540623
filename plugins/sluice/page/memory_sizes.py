"""Estimates the memory of cached values; they err upwards (a test measures them). Pure."""

from __future__ import annotations

from sluice.state.boundaries.model import Boundaries
from sluice.state.status import UnitStatus

_FIXED = 4096
_RANGE, _TYPE, _ROW = 320, 160, 1024


def size_of_manifest(stored: int) -> int:
    """Returns the bytes of a manifest that has `stored` bytes in the lake. A field with a short name grows
    most."""
    return _FIXED + 7 * stored


def size_of_status(status: UnitStatus) -> int:
    """Returns the bytes of a status without its manifest."""
    rows = [share for row in status.tables.values() for share in (row, *(r for _, r in row.shares if r))]
    types = sum(_TYPE + len(name) for row in rows for name in row.types)
    return _FIXED + _RANGE * len(status.ranges or ()) + _ROW * len(rows) + types


def size_of_boundaries(boundaries: Boundaries) -> int:
    """Returns the bytes of boundaries: an instant is 8 bytes, and 25 in each partition's columns."""
    blocks = boundaries.blocks.values()
    return _FIXED + sum(len(b.instants) * (8 + 25 * len(b.columns)) + _ROW * len(b.columns) for b in blocks)
