"""Which types of numbers take sums of other types, so that a sum of casts is the cast of the sum. Pure."""

from __future__ import annotations

import re

from sluice.clients.clickhouse.types import Type, parse

_TAKEN = {"Int": ("Int",), "Decimal": ("Int", "Decimal"), "Float": ("Int", "Decimal", "Float")}


def keeps(stored: str, given: str) -> bool:
    """Returns whether a cast of `given` to `stored` cuts off no part of each number; of unknown types it may
    not."""
    if not (stored and given):
        return True
    stored_type, given_type = _plain(stored), _plain(given)
    if stored_type.name == given_type.name == "Decimal":
        return int(stored_type.arguments[-1]) >= int(given_type.arguments[-1])
    return stored_type == given_type or _family(given_type) in _TAKEN.get(_family(stored_type), ())


def _plain(text: str) -> Type:
    """`SimpleAggregateFunction(sum, Nullable(Float64))`: Float64."""
    kind = parse(text)
    return (kind.argument(1) if kind.name == "SimpleAggregateFunction" else kind).plain


def _family(kind: Type) -> str:
    """`UInt64`: Int."""
    return re.sub(r"^U?Int\d+$", "Int", re.sub(r"^Float\d+$", "Float", kind.name))
