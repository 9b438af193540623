"""What dbt and SQLMesh have to know of a pipeline's table: its columns, and which of its hours are whole.

They read committed hours only, through the view `sluice`.`database.table`, and by `_slice`: what one load has
committed, late events included, is one piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sluice.clients.clickhouse.sql import Sql, listed, literal, render


@dataclass(frozen=True)
class MartSource:
    """`columns` are (name, type), as ClickHouse has them; `hours` the SELECT of those that are whole, in
    seconds since the epoch."""

    table: str
    what: str
    columns: Sequence[tuple[str, str]]
    hours: Sql


def whole_hours(table: str, begins: Mapping[str, datetime | None]) -> Sql:
    """Returns the SELECT of the hours that the table has from every cluster. `begins`: of each cluster the
    first hour that waits for it; None: every hour does."""
    instants = (int(at.timestamp()) if at else 0 for at in begins.values())
    return render(
        "marts/whole_hours",
        target=literal(table),
        clusters=listed(map(literal, begins)),
        begins=listed(map(str, instants)),
    )
