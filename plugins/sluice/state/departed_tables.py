"""Tables that the pipeline file no longer names, whose rows stay where they are, and those that are not
there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.clickhouse.sql import render
from sluice.config.pipeline import Pipeline
from sluice.errors import TargetRefused
from sluice.state.last_ddl import check_written, creations, gone
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState


@dataclass(frozen=True)
class DepartedTable:
    """`rows` in the table, and `rejected_rows` of it in sluice.rejected, of `units` that the pipeline
    committed."""

    name: str
    units: int
    rows: int
    rejected_rows: int = 0

    def __str__(self) -> str:
        rejected_rows = f" and {self.rejected_rows:,} rejected rows" if self.rejected_rows else ""
        held = f"{self.rows:,} rows{rejected_rows} of this pipeline"
        return f"table {self.name} has {held} and is no longer in the file"

    @property
    def remedy(self) -> str:
        return "name it in the file again, or drop it: no run loads it, and no `verify` compares it"


def departed_tables(clients: Iterable[Client], pipeline: Pipeline, lake: str) -> tuple[DepartedTable, ...]:
    """Returns those with rows on any of the servers, by name; `lake` is the lake's url. Raises what the
    clients raise."""
    parameters = {
        "named": sorted({target.table for target in pipeline.targets}),
        "pipeline": pipeline.name,
        "lake": lake,
    }
    units: dict[str, set[tuple[int, str]]] = {}
    counts: dict[str, tuple[int, int]] = {}
    for client in clients:
        for name, committed, rows, rejected_rows in _rows(client, parameters):
            units.setdefault(name, set()).update(map(tuple, committed))
            earlier = counts.get(name, (0, 0))
            counts[name] = earlier[0] + rows, earlier[1] + rejected_rows
    return tuple(DepartedTable(name, len(units[name]), *counts[name]) for name in sorted(units))


def read_departed(pipeline: Pipeline, lake: str) -> tuple[DepartedTable, ...]:
    """Reads those of the servers that answer. Raises what the clients raise."""
    with connect_shards(pipeline) as servers:
        return departed_tables([server.client for server in servers if server.client], pipeline, lake)


def _rows(client: Client, parameters: Mapping[str, Any]) -> list[Sequence[Any]]:
    """A server that was never loaded has no ledger."""
    try:
        return client.rows(render("state/read_departed"), parameters)
    except ServerError as error:
        if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            return []
        raise


# Tables that are not there, and what of a unit's state does not hold without them. Pure.
@dataclass(frozen=True)
class GoneTable:
    """A table that a server lacks. `target` is the target that nothing is loaded into without it: the table
    itself, or the source of a view that writes to it."""

    table: str
    target: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.table}: {self.reason}; {self.remedy}"


def without_tables(statuses: Iterable[UnitStatus], gone: Collection[GoneTable]) -> list[UnitStatus]:
    """Returns the statuses with those units `landed` whose rows are not where the ledger says: a target, or a
    table that a view of it writes to, is gone."""
    tables, targets = {one.table for one in gone}, {one.target for one in gone}
    return [
        replace(
            status,
            state=UnitState.LANDED,
            tables={name: row for name, row in status.tables.items() if name not in tables},
        )
        if status.state.done and targets & status.tables.keys()
        else status
        for status in statuses
    ]


# Target tables, and tables that their views write to, that are not there: nothing is loaded into such a
# target, whatever has landed.
def gone_tables(pipeline: Pipeline) -> tuple[GoneTable, ...]:
    """Returns each table that a server lacks once. Raises what the clients raise."""
    found: dict[str, GoneTable] = {}
    with connect_shards(pipeline) as servers:
        for server in servers:
            for table in _of_server(server.client, pipeline) if server.client else ():
                found.setdefault(table.table, table)
    return tuple(found.values())


def _of_server(client: Client, pipeline: Pipeline) -> Iterator[GoneTable]:
    targets = {target.table: target for target in pipeline.targets}
    missing = gone(client, list(targets))
    for name, remedy in (creations(client, pipeline, missing) if missing else {}).items():
        yield GoneTable(name, name, "there is no such table", remedy)
    databases = sorted({target.database for target in targets.values()})
    for (name,) in client.rows(render("state/fed"), {"tables": list(targets), "databases": databases}):
        target_table = read_table(client, targets[name].database, targets[name].name)
        if target_table is None:
            continue
        try:
            check_written(client, pipeline, target_table)
        except TargetRefused as error:
            yield GoneTable(error.table, name, error.reason, error.remedy)
