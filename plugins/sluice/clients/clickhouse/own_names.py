"""Names that Sluice makes beside the columns of a table of somebody else's. Pure."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count


def own_prefix(columns: Collection[str]) -> str:
    """Returns what such names begin with: no column's name does, whoever has chosen it."""
    prefixes = (f"sluice{number or ''}_" for number in count())
    return next(prefix for prefix in prefixes if not any(name.startswith(prefix) for name in columns))
