"""`counts:` in the pipeline file: what is counted of the rows that land, and for which table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import WithJsonSchema, field_validator

from sluice.config.types import TEXT, DottedPath, QualifiedTable, Section
from sluice.field_path import HEADER, names_of, outer_of

OWN = ("hour", "type", "count")  # the columns that every table of counts has
OF_VIEW = ("expected", "seen", "difference")  # what include/sql/load/create_expected.sql names beside them
COUNTS = "counts"  # what `_type` says in a row of counts; no event's row is ever beside it


_BY = {"anyOf": [{"type": "array", "items": TEXT}, {"type": "object", "additionalProperties": TEXT}]}


class Counts(Section):
    """One table of counts."""

    table: QualifiedTable
    """The table, as `database.table`. Example: `events.traffic`"""
    by: Annotated[Mapping[str, DottedPath], WithJsonSchema(_BY)] = {}
    """Fields that are counted by: dotted paths by column, or a list of paths, which names the column of
    `device.os` `device_os`.
    Example: `{os: device.os}`"""
    types: tuple[str, ...] = ()
    """Types that are counted; without it all. Example: `[click]`"""

    @field_validator("by", mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        if not isinstance(value, list | tuple):
            return value
        named = {re.sub(r"[^A-Za-z0-9_]", "_", str(path).removeprefix(HEADER)): path for path in value}
        if len(named) != len(value):
            raise ValueError("two fields give one column: write {column: field, …}")
        return named

    @field_validator("by")
    @classmethod
    def _columns(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for column, path in value.items():
            if column in OWN or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", column):
                raise ValueError(f"{column!r} cannot be a column of counts: write {{column: field, …}}")
            if column in OF_VIEW:
                view = "the view of what is expected has a column of that name"
                raise ValueError(f"{column!r} cannot be counted by, {view}: write {{OTHER_COLUMN: {path}}}")
            if not all(names_of(path)):
                raise ValueError(f"expected a field or a dotted path, not {path!r}")
        paths = {*map(names_of, value.values())}
        for inner in value.values():
            if (outer := outer_of(names_of(inner), paths)) is not None:
                way = f"no event has both {'.'.join(outer)} and {inner}"
                raise ValueError(f"{way}: the one runs through the other")
        return value

    def counts(self, kind: str) -> bool:
        return not self.types or kind in self.types
