"""What ClickHouse says about a target table."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sluice.clickhouse.client import Client
from sluice.load.columns import Column
from sluice.load.sql import render

_VIEW = re.compile(
    r"CREATE MATERIALIZED VIEW (?:`(?:\\.|[^`])*`|[^\s`.])+\.(?:`(?:\\.|[^`])*`|[^\s`])+"
    r"(?: UUID '[^']*')?(?P<refresh> REFRESH )?.*?"
    r"(?: TO (?P<database>`(?:\\.|[^`])*`|[^\s`.]+)\.(?P<table>`(?:\\.|[^`])*`|[^\s`(]+))?(?= |$)",
    re.DOTALL,
)


@dataclass(frozen=True)
class FedTable:
    """A table that a materialized view writes to when rows are inserted. `view_columns` are the SELECT's."""

    view: str
    table: str
    engine: str
    sorting_key: str
    columns: tuple[Column, ...]
    view_columns: frozenset[str]
    projections: bool

    @property
    def replicated(self) -> bool:
        return self.engine.startswith("Replicated")


@dataclass(frozen=True)
class TargetTable:
    """A target as it is now; `fed` are the tables of its views, and of their views."""

    table: str
    uuid: str
    engine: str
    engine_full: str
    partition_key: str
    columns: tuple[Column, ...]
    projections: bool
    fed: tuple[FedTable, ...]

    @property
    def ttl(self) -> bool:
        """Whether rows may vanish by themselves."""
        return " TTL " in self.engine_full

    @property
    def replicated(self) -> bool:
        return self.engine.startswith("Replicated")

    @property
    def attachable(self) -> bool:
        """Whether parts may be handed over whole: no view has to see the rows, no TTL to be reckoned, and no
        replica to have them before the statement ends (a quorum is for INSERT only)."""
        return not (self.fed or self.ttl or self.replicated)

    @property
    def filled(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.filled)


def read_table(client: Client, database: str, name: str) -> TargetTable | None:
    """The table with its views, or None when there is none."""
    place = {"database": database, "name": name}
    found = client.rows(render("inspect_table"), place)
    if not found:
        return None
    engine, engine_full, uuid, partition_key, _ = found[0]
    return TargetTable(
        table=f"{database}.{name}",
        uuid=uuid,
        engine=engine,
        engine_full=engine_full,
        partition_key=partition_key,
        columns=_columns(client, database, name),
        projections=_projections(client, database, name),
        fed=tuple(_fed(client, database, name, {(database, name)})),
    )


def _fed(client: Client, database: str, name: str, seen: set[tuple[str, str]]) -> list[FedTable]:
    tables: list[FedTable] = []
    for view_database, view, uuid, text in client.rows(
        render("inspect_views"), {"database": database, "name": name}
    ):
        place = view_target(view_database, uuid, text)
        if place is None or place in seen:
            continue
        seen.add(place)
        found = client.rows(render("inspect_table"), {"database": place[0], "name": place[1]})
        engine, _, _, _, sorting_key = found[0] if found else ("", "", "", "", "")
        columns = frozenset(column.name for column in _columns(client, view_database, view))
        tables.append(
            FedTable(
                view=f"{view_database}.{view}",
                table=".".join(place),
                engine=engine,
                sorting_key=sorting_key,
                columns=_columns(client, *place),
                view_columns=columns,
                projections=_projections(client, *place),
            )
        )
        tables += _fed(client, *place, seen)
    return tables


def view_target(database: str, uuid: str, text: str) -> tuple[str, str] | None:
    """(database, table) that a view of this definition writes to; None for one that refreshes by itself."""
    found = _VIEW.match(text)
    if found is not None and found["refresh"]:
        return None
    if found is not None and found["table"]:
        return _unquoted(found["database"]), _unquoted(found["table"])
    return database, f".inner_id.{uuid}"


def _unquoted(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if name.startswith("`") else name


def _columns(client: Client, database: str, name: str) -> tuple[Column, ...]:
    place = {"database": database, "name": name}
    return tuple(Column(*row) for row in client.rows(render("inspect_columns"), place))


def _projections(client: Client, database: str, name: str) -> bool:
    return bool(client.rows(render("inspect_projections"), {"database": database, "name": name})[0][0])
