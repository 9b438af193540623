"""Which types a load fills: nothing else is proposed."""

from __future__ import annotations

from functools import cache

from sluice.clients.clickhouse.tables import Column
from sluice.flow.load.casts.casts import UnsupportedType
from sluice.flow.load.casts.columns import fill
from sluice.infer.types import Rules


@cache
def fillable(kind: str) -> bool:
    try:
        fill((Column("x", kind),), {})
    except UnsupportedType:
        return False
    return True


RULES = Rules(fills=fillable)
