"""From sample values to a ClickHouse type that takes them all, as strict as the load's casts are. Pure."""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from sluice.clients.clickhouse.sql import literal

_FEW = 0.1  # of the values being different makes a text worth a dictionary
_WORTH_A_LOOK = 20
_DAY = re.compile(r"(19|2[0-2])\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
_INSTANT = re.compile(_DAY.pattern + r"[Tt ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)?")
_SIGNED, _UNSIGNED = range(-(1 << 63), 1 << 63), range(1 << 64)
_MOST_LEVELS = 20  # of arrays in arrays
_MICROSECONDS = re.compile(r"\.\d{4,}")


def column_type(values: Sequence[Any], everywhere: bool) -> str:
    """The type of a column for `values`; `everywhere`: no event lacks the field.

    Containers are never Nullable in ClickHouse: a missing one is empty.
    """
    present = [value for value in values if value is not None]
    kind = _kind(present)
    if kind.startswith("Array("):
        return kind
    optional = not everywhere or len(present) < len(values)
    full = f"Nullable({kind})" if optional else kind
    return f"LowCardinality({full})" if kind == "String" and _repeats(present) else full


def _kind(values: Sequence[Any], levels: int = _MOST_LEVELS) -> str:
    if not values:
        return "String"
    if all(isinstance(value, bool) for value in values):
        return "Bool"
    if all(_is_integer(value) for value in values):
        return _integer(values)
    if all(_is_integer(value) or isinstance(value, float) for value in values):
        return "Float64"
    if all(isinstance(value, str) for value in values):
        return _text(values)
    if all(isinstance(value, list) for value in values):
        return _array([item for value in values for item in value], levels) if levels else "String"
    return "String"


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _integer(values: Sequence[int]) -> str:
    if min(values) < 0:
        return "Int64" if all(v in _SIGNED for v in values) else "String"
    return "UInt64" if all(v in _UNSIGNED for v in values) else "String"


def _text(values: Sequence[str]) -> str:
    for kind, fits in _TEXTS:
        if all(fits(value) for value in values):
            precise = any(_MICROSECONDS.search(value) for value in values)
            return "DateTime64(6, 'UTC')" if kind.startswith("DateTime64") and precise else kind
    return "String"


def _array(items: Sequence[Any], levels: int) -> str:
    inner = _kind([item for item in items if item is not None], levels - 1)
    if inner.startswith("Array(") or any(isinstance(item, dict) for item in items):
        return "Array(String)" if not inner.startswith("Array(") else f"Array({inner})"
    return f"Array(Nullable({inner}))" if None in items else f"Array({inner})"


def _repeats(values: Sequence[Any]) -> bool:
    texts = {value for value in values if isinstance(value, str)}
    return len(values) >= _WORTH_A_LOOK and 0 < len(texts) <= len(values) * _FEW


def _parses(make: Callable[[str], object]) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        try:
            return str(make(text)) == text.lower()
        except ValueError:
            return False

    return fits


_TEXTS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("UUID", _parses(uuid.UUID)),
    ("IPv4", _parses(ipaddress.IPv4Address)),
    ("Date", lambda text: bool(_DAY.fullmatch(text)) and "1970" <= text < "2149"),
    ("Date32", lambda text: bool(_DAY.fullmatch(text))),
    (f"DateTime64(3, {literal('UTC')})", lambda text: bool(_INSTANT.fullmatch(text))),
)
