"""Which rows get no value of their event in a column: the field is missing, or null there. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sluice.clients.clickhouse.sql import Sql
from sluice.clients.clickhouse.tables import Column
from sluice.clients.clickhouse.types import parse
from sluice.field_path import FieldPath
from sluice.flow.load.casts.containers import may_lack


@dataclass(frozen=True)
class Lack:
    """`flag` is an expression, 1 in a row whose `column`, of the field `path`, has no value of the event.
    `null`: it is NULL there; else a default, in the column or in an element of its Tuple."""

    column: str
    path: FieldPath
    flag: Sql
    null: bool = False


def holds_null(column: Column) -> bool:
    """Returns whether the type says that there is no value, and does not make one up."""
    return column.may_be_null or may_lack(parse(column.type).stored)


def lacks(column: Column, path: FieldPath, nothing: str, present: str) -> Iterator[Lack]:
    """`nothing` is the condition that the field is missing or null, `present` that it is there, maybe as
    null."""
    if not holds_null(column):
        yield Lack(column.name, path, Sql(nothing))
    elif not column.default:
        yield Lack(column.name, path, Sql(nothing), null=True)
    elif not column.may_be_null:
        yield Lack(column.name, path, Sql(nothing))
    else:
        yield Lack(column.name, path, Sql(f"if({nothing}, NOT {present}, 0)"))
        yield Lack(column.name, path, Sql(f"if({nothing}, {present}, 0)"), null=True)
