"""The tables that a load's rows go to, each with the attempt's own table that holds them first. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sluice.load.inspect import FedTable, TargetTable
from sluice.load.names import SYSTEM, Attempt
from sluice.load.sql import Sql, identifier

# A replicated engine's path and replica; what may follow them are the engine's own arguments.
_TEXT = r"\s*'(?:\\.|[^'\\])*'\s*"
_REPLICATED = re.compile(rf"Replicated(\w*MergeTree)(\({_TEXT},{_TEXT}(?:,\s*)?)?")
_SETTINGS = re.compile(r" SETTINGS \w+ = ")
# With a TTL a merge forgets rows. These stop every merge of a table.
_NO_MERGES = (
    "max_number_of_merges_with_ttl_in_pool = 0, max_bytes_to_merge_at_max_space_in_pool = 1, "
    "max_bytes_to_merge_at_min_space_in_pool = 1"
)


@dataclass(frozen=True)
class Destination:
    """`counted`: as many rows stay in the table as are put into it."""

    table: str
    staged_name: str
    projections: bool
    replicated: bool
    counted: bool

    @property
    def staged(self) -> Sql:
        return identifier(SYSTEM, self.staged_name)


def destinations(found: TargetTable, attempt: Attempt) -> tuple[Destination, ...]:
    """The target, and the tables in which its views' rows stay."""
    own = Destination(
        found.table, attempt.staging_name, found.projections, found.replicated, counted=not found.ttl
    )
    names = staged_names(found, attempt)
    fed = [
        Destination(fed.table, names[fed.table], fed.projections, fed.replicated, fed.counted)
        for fed in found.stored
    ]
    return (own, *fed)


def staged_names(found: TargetTable, attempt: Attempt) -> dict[str, str]:
    """By each table that gets rows, also those that only pass them on, what the attempt's own is called."""
    tables = list(dict.fromkeys(fed.table for fed in found.fed))
    fed = {name: attempt.temporary_name(f"fed{number}") for number, name in enumerate(tables)}
    return {found.table: attempt.staging_name, **fed}


def staged_engine(table: TargetTable | FedTable) -> Sql:
    """The engine of a table of this server alone that keeps its rows, and whose parts fit `table`."""
    engine = _REPLICATED.sub(lambda found: found[1] + ("(" if found[2] else ""), table.engine_full, count=1)
    if " TTL " not in engine:
        return Sql(engine)
    return Sql(f"{engine}{',' if _SETTINGS.search(engine) else ' SETTINGS'} {_NO_MERGES}")
