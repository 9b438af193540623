"""What makes a row of a log newer than another of its key (`latest:` in the pipeline file). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sluice.clients.clickhouse.sql import Sql, identifier, literal
from sluice.clients.clickhouse.tables import Column
from sluice.clients.clickhouse.types import Type, parse

# The version of a row: one number that is larger the newer the row is.
#
# Of a UInt256 the highest bits are the columns that the file names, each as a number without a sign in as
# many bits as its type has; one that may be NULL has one bit more, which is 0 for NULL. Below stand the
# quarter of an hour in which the slice begins, the offset, the partition, a hash of cluster and topic, and
# the row's place in its message: so no two rows have the same version, whichever columns are named.
VERSION, DELETED = "_version", "_deleted"
OWN = {VERSION: "UInt256", DELETED: "UInt8"}
_PLACE = (
    (Sql("intDiv(toUInt32(_slice), 900)"), 23),
    (Sql("toUInt64(_offset)"), 56),
    (Sql("toUInt32(_partition)"), 20),
    (Sql("cityHash64(toString(_cluster), toString(_topic)) % 134217728"), 27),
)
_ROW = (Sql("toUInt32(_row)"), 32)
_BITS = 256
_NAMED = {
    "Bool": ("toUInt8", 8),
    **{f"UInt{bits}": (f"toUInt{bits}", bits) for bits in (8, 16, 32, 64)},
    "Date": ("toUInt16", 16),
    "DateTime": ("toUInt32", 32),
}
_SIGNED = {
    **{f"Int{bits}": (f"toInt{bits}", bits) for bits in (8, 16, 32, 64)},
    "Enum8": ("toInt8", 8),
    "Enum16": ("toInt16", 16),
    "Date32": ("toInt32", 32),
    "DateTime64": ("reinterpretAsInt64", 64),
}


class Unfit(ValueError):
    """A column can't be part of a version, a key or a mark of deletion."""


def version(columns: Sequence[Column], by_row: bool) -> Sql:
    """Returns the expression of a row's version. Raises Unfit."""
    parts = [_part(column) for column in columns]
    place = (*_PLACE, *((_ROW,) if by_row else ()))
    room, wanted = _BITS - sum(bits for _, bits in place), sum(bits for _, bits in parts)
    if wanted > room:
        raise Unfit(f"the columns of `version` have {wanted} bits, and there is room for {room}")
    left, shifted = _BITS, []
    for value, bits in (*parts, *((_bounded(value, bits), bits) for value, bits in place)):
        left -= bits
        shifted.append(f"bitShiftLeft(toUInt256({value}), {left})")
    return Sql(" + ".join(shifted))


def _bounded(value: Sql, bits: int) -> Sql:
    return Sql(f"least({value}, {(1 << bits) - 1})")


def _part(column: Column) -> tuple[Sql, int]:
    kind, nullable = _stored(column)
    name = identifier(column.name)
    if kind.name in _NAMED:
        function, bits = _NAMED[kind.name]
        value = f"toUInt256({function}({name}))"
    elif kind.name in _SIGNED:
        function, bits = _SIGNED[kind.name]
        value = f"toUInt256(toInt128({function}({name})) + toInt128({literal(str(1 << (bits - 1)))}))"
    else:
        raise Unfit(
            f"column {column.name} of `version` has type {column.type}: expected an integer of at most 64 "
            "bits, a date, a time or an Enum"
        )
    if not nullable:
        return Sql(value), bits
    return Sql(f"ifNull({value} + toUInt256({literal(str(1 << bits))}), toUInt256(0))"), bits + 1


def _stored(column: Column) -> tuple[Type, bool]:
    """Returns the type of the values that are no NULL, and whether NULL is one of the values."""
    stored = parse(column.type).stored
    return stored.plain, stored.nullable


def deleted(column: Column | None) -> Sql:
    """Returns the expression of whether a row deletes its key. Raises Unfit."""
    if column is None:
        return Sql("toUInt8(0)")
    kind, _ = _stored(column)
    name = identifier(column.name)
    if kind.name == "Bool" or re.fullmatch(r"U?Int(8|16|32|64)", kind.name):
        return Sql(f"toUInt8(ifNull({name}, 0) != 0)")
    if kind.name in ("String", "Enum8", "Enum16"):
        return Sql(f"toUInt8(ifNull(toString({name}), '') IN ('true', 'd'))")
    raise Unfit(
        f"column {column.name} of `deleted` has type {column.type}: expected Bool, an integer or String"
    )


_NO_KEY = re.compile(r"\b(Nullable|Float32|Float64|BFloat16|JSON|Object|Dynamic|Variant|AggregateFunction)\b")


def check_key(columns: Iterable[Column]) -> None:
    """Raises Unfit for a column in which equal values do not tell one key."""
    for column in columns:
        if _NO_KEY.search(column.type):
            raise Unfit(
                f"column {column.name} of `key` has type {column.type}: expected one that can't be NULL, and "
                "no float or JSON"
            )
