"""Landed rows as rows of a table: the value of each column, or the columns that they do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.pairs.columns import Column
from tests.pairs.options import Case
from tests.pairs.oracle import Row
from tests.pairs.tables import CHECK


@dataclass(frozen=True)
class Fit:
    """A row that is in a table, on the shard of that number."""

    row: Row
    values: Mapping[str, Any]
    shard: int = 0


@dataclass(frozen=True)
class RejectedRow:
    """A row that is in sluice.rejected instead: the columns any of which may be named."""

    row: Row
    columns: Mapping[str, Any] = field(default_factory=dict)  # the value that does not fit
    shard: int = 0


class _ThroughNoObject(Exception):
    """A path leads through a value that is no object."""


def fitted(case: Case, columns: Iterable[Column], rows: Iterable[Row]) -> tuple[list[Fit], list[RejectedRow]]:
    """Rows of the main table. A rejected row's shard is its partition's, whatever places rows."""
    own, fits, rejected_rows = list(columns), [], []
    for row in rows:
        values, bad = _values(own, row.event)
        if bad:
            rejected_rows.append(RejectedRow(row, bad, row.place[2] % case.shards))
            continue
        if case.checks == "reject" and not passes(values):
            rejected_rows.append(RejectedRow(row, {CHECK: ""}, row.place[2] % case.shards))
            continue
        by = values["id"] + values["n"] if case.servers == "by expression" else row.place[2]
        fits.append(Fit(row, values, by % case.shards))
    return fits, rejected_rows


def passes(values: Mapping[str, Any]) -> bool:
    """What tables.CHECKED says."""
    return values["n"] % 3 != 1 or values["country"] == "DE"


def _values(columns: list[Column], event: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    values: dict[str, Any] = {}
    bad: dict[str, Any] = {}
    missing = []
    for column in columns:
        try:
            found = _at(event, column.field)
        except _ThroughNoObject as error:
            bad[column.name] = error.args[0]
            continue
        if found is None:
            if "Nullable(" in column.type and _is_null(event, column.field):
                values[column.name] = None
            elif not column.default and "Nullable(" not in column.type and _no_object(event, column.field):
                bad[column.name] = ""
            else:
                missing.append(column)
            continue
        verdict = column.judge(found)
        if verdict is None:
            bad[column.name] = found
        else:
            assert verdict.certain, f"{column.name}: nobody promises what becomes of {found!r}"
            values[column.name] = verdict.value
    if bad:
        return {}, bad
    for column in missing:
        blank = column.blank
        values[column.name] = blank(values) if callable(blank) else blank
    return values, bad


def _is_null(event: Any, path: tuple[str, ...]) -> bool:
    """Whether the field is there and null: a column that may be NULL takes no DEFAULT then."""
    for name in path[:-1]:
        event = event.get(name)
        if event is None:
            return False
    return path[-1] in event


def _no_object(event: Any, path: tuple[str, ...]) -> bool:
    """Whether null stands in place of an object on the path: that rejects the row of a column without a
    default."""
    for name in path[:-1]:
        if name not in event:
            return False
        event = event[name]
        if event is None:
            return True
    return False


def _at(event: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if event is None:
            return None
        if not isinstance(event, dict):
            raise _ThroughNoObject(event)
        event = event.get(name)
    return event
