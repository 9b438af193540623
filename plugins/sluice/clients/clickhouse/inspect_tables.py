"""Asks ClickHouse what a target table is, and what gets the rows of an INSERT into it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_IDENTIFIER, ServerError
from sluice.clients.clickhouse.sql import Sql, identifier, listed, render, table
from sluice.clients.clickhouse.tables import (
    Column,
    OtherReader,
    TargetTable,
    ViewTable,
    schedule_of,
    view_target,
    written_by,
)


def read_table(client: Client, database: str, name: str) -> TargetTable | None:
    """Returns the table with its views, or None when there is none."""
    target = (database, name)
    inspected = _inspect(client, [target]).get(target)
    if inspected is None:
        return None
    view_tables, unseen, definitions = _views(client, target, inspected)
    return TargetTable(
        table=f"{database}.{name}",
        uuid=inspected.uuid,
        engine=inspected.engine,
        engine_full=inspected.engine_full,
        columns=inspected.columns,
        projections=inspected.projections,
        view_tables=tuple(view_tables),
        unseen=tuple(unseen),
        partition_key=inspected.partition_key,
        sorting_key=inspected.sorting_key,
        ddl=tuple(dict.fromkeys((inspected.definition, *definitions))),
    )


def read_columns(client: Client, database: str, name: str) -> tuple[Column, ...] | None:
    """Returns the table's columns, or None when there is none."""
    inspected = _inspect(client, [(database, name)]).get((database, name))
    return None if inspected is None else inspected.columns


def keeps_values(client: Client, target_table: TargetTable) -> bool:
    """Returns whether values stay as long as their rows do: no TTL of a column takes them away, and none of
    the table puts others into their place."""
    ttl = target_table.engine_full.partition(" TTL ")[2]
    return " GROUP BY " not in ttl and not expiring_columns(client, target_table)


def expiring_columns(client: Client, described_table: TargetTable | ViewTable) -> tuple[str, ...]:
    """Returns the columns that a TTL of their own empties."""
    rows = client.rows(render("clickhouse/describe_table", table=table(described_table.table)))
    return tuple(row[0] for row in rows if row[6])


_Place = tuple[str, str]


class _Inspected(NamedTuple):
    """A table or a view as the server describes it; empty where the user may not see it."""

    engine: str = ""
    engine_full: str = ""
    uuid: str = ""
    partition_key: str = ""
    sorting_key: str = ""
    definition: str = ""
    select: str = ""
    dependencies: Sequence[_Place] = ()
    columns: tuple[Column, ...] = ()
    projections: bool = False


_UNSEEN = _Inspected()


def _inspect(client: Client, places: Collection[_Place]) -> dict[_Place, _Inspected]:
    """Reads all places by one statement; those that do not exist are left out."""
    if not places:
        return {}
    databases, names = (sorted(set(part)) for part in zip(*places, strict=True))
    rows = client.rows(render("clickhouse/inspect_tables"), {"databases": databases, "names": names})
    return {
        (database, name): _Inspected._make((*rest, _columns(columns), bool(projections)))
        for database, name, *rest, columns, projections in rows
        if (database, name) in places
    }


def _columns(rows: Iterable[Sequence[Any]]) -> tuple[Column, ...]:
    return tuple(Column(*row) for _, *row in rows)


def _views(
    client: Client, target: _Place, inspected: _Inspected
) -> tuple[list[ViewTable], list[OtherReader], list[str]]:
    """Returns every view that an INSERT into the target feeds, directly or through another's table, once, and
    the CREATE statements of the views and their tables."""
    definitions: list[str] = []
    view_tables: list[ViewTable] = []
    unseen: list[OtherReader] = []
    visited, level = {target}, {target: inspected}
    while feeds := [(source, view) for source, table in level.items() for view in table.dependencies]:
        views = _inspect(client, {view for _, view in feeds})
        written = {
            view: view_target(view[0], seen.uuid, seen.definition)
            for view, seen in views.items()
            if seen.engine == "MaterializedView"
        }
        tables = _inspect(
            client, {destination for destination in written.values() if destination is not None}
        )
        level = {}
        definitions += [seen.definition for seen in (*tables.values(), *views.values()) if seen.definition]
        for source, view in feeds:
            if view not in written:
                engine = views.get(view, _UNSEEN).engine
                unseen.append(OtherReader(".".join(source), ".".join(view), engine))
            elif (destination := written[view]) is not None:
                view_tables.append(
                    _view_table(source, view, views[view], destination, tables.get(destination, _UNSEEN))
                )
                if destination in tables and destination not in visited:
                    visited.add(destination)
                    level[destination] = tables[destination]
    return view_tables, unseen, definitions


def _view_table(
    source: _Place, view: _Place, seen: _Inspected, destination: _Place, written: _Inspected
) -> ViewTable:
    return ViewTable(
        view=".".join(view),
        table=".".join(destination),
        engine=written.engine,
        sorting_key=written.sorting_key,
        columns=written.columns,
        view_columns=frozenset(column.name for column in seen.columns),
        projections=written.projections,
        source=".".join(source),
        select=seen.select,
        engine_full=written.engine_full,
    )


# Tables that stand over others and keep no rows: Distributed, Buffer, Merge, Alias, a view, remote() …
#
# What is inserted into them goes on to the table below. What reaches that table in another way does not pass
# through them, and feeds none of the views that read them.

_TOKEN = re.compile(
    r"""`(?:\\.|``|[^`\\])*`|"(?:\\.|""|[^"\\])*"|'(?:\\.|''|[^'\\])*'|\w+|[^\s\w]""", re.DOTALL
)
_QUOTES = "`\"'"
_MERGE = re.compile(
    r"Merge\((?P<pattern>REGEXP\()?(?P<database>'(?:\\.|[^'\\])*')\)?, (?P<name>'(?:\\.|[^'\\])*')"
)


@dataclass(frozen=True)
class Passing:
    """`place` stands over `base`, itself or through others; an INSERT into it feeds `views`."""

    place: str
    engine: str
    base: str
    views: tuple[str, ...]


def read_passing(client: Client, tables: Sequence[str]) -> list[Passing]:
    """Returns what stands over one of the tables, or over what does, as far as the user sees it."""
    passing: list[Passing] = []
    bases = {name: name for name in tables}
    below = list(bases)
    while below:
        texts = [re.split(r"[\\`']", name.partition(".")[2])[0] for name in below]
        rows = client.rows(render("clickhouse/passing_tables"), {"texts": texts})
        above = []
        for database, name, engine, text, views in rows:
            table = f"{database}.{name}"
            over = next((base for base in below if _stands_over(client, engine, database, text, base)), None)
            if over is not None and table not in bases:
                bases[table] = bases[over]
                above.append(table)
                passing.append(Passing(table, engine, bases[over], tuple(views)))
        below = above
    return passing


@dataclass(frozen=True)
class Refreshing:
    """A view that writes to `table` when it refreshes by itself, out of `sources`; it `appends`, or replaces
    what is there."""

    view: str
    table: str
    sources: frozenset[str]
    appends: bool


def read_refreshing(client: Client, tables: Sequence[str]) -> list[Refreshing]:
    """Returns the views that read one of the tables, what stands over one, or the table of such a view, as
    far as the user sees them: each behind those whose tables it reads."""
    views = [row for row in client.rows(render("clickhouse/refreshing_views")) if schedule_of(row[3])]
    found: dict[str, Refreshing] = {}
    below = list(tables)
    for _ in views:  # so many may read one another
        places = {name: name for name in below} | {p.place: p.base for p in read_passing(client, below)}
        level: dict[str, Refreshing] = {}
        for database, name, uuid, text, select in views:
            read = (base for place, base in places.items() if _names(select, database, place))
            if sources := frozenset(read):
                view, table = f"{database}.{name}", ".".join(written_by(database, uuid, text))
                before = found.pop(view).sources if view in found else frozenset()
                appends = " APPEND " in schedule_of(text)
                level[view] = Refreshing(view, table, sources | before, appends)
        found |= level
        below = [refreshing.table for refreshing in level.values()]
    return list(found.values())


def _names(text: str, database: str, table: str) -> bool:
    return _reads(text, table) or _passes_to(text, database, table)


def _stands_over(client: Client, engine: str, database: str, text: str, table: str) -> bool:
    if engine == "Merge":
        return _merges(client, text, table)
    return _reads(text, table) or (engine != "View" and _passes_to(text, database, table))


def _reads(text: str, table: str) -> bool:
    """Returns whether a SELECT, or a function's argument, names the table (database.table)."""
    tokens, name_tokens = _tokens(text), _name(table)
    return any(tokens[at : at + 3] == name_tokens for at in range(len(tokens)))


def _passes_to(text: str, database: str, table: str) -> bool:
    """Returns whether arguments of an engine or a function of a table in `database` name the table. Without a
    database it may be in any: which one each server of a cluster takes is a setting of that server."""
    tokens, (table_database, _, name) = _tokens(text), _name(table)
    if table in tokens:  # a string may be the whole name
        return True
    if tokens[:3] == ["Alias", "(", name] and database == table_database:
        return True
    pairs = zip(tokens, tokens[1:], tokens[2:], strict=False)
    return any(
        after == name and comma == "," and before in (table_database, "") for before, comma, after in pairs
    )


def _name(table: str) -> list[str]:
    database, dot, name = table.partition(".")
    return [database, dot, name]


def _tokens(text: str) -> list[str]:
    """Returns each name and string without its quotes and escapes, and each sign as it is."""
    return [
        re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL) if token[0] in _QUOTES else token
        for token in _TOKEN.findall(text)
    ]


def _merges(client: Client, text: str, table: str) -> bool:
    """Returns whether the pattern occurs anywhere in the name, as the server matches it."""
    match = _MERGE.match(text)
    if match is None:
        return False
    database, _, name = table.partition(".")
    if match["pattern"]:
        fits = _matches(client, database, match["database"])
    else:
        fits = [database] == _tokens(match["database"])
    return fits and _matches(client, name, match["name"])


def _matches(client: Client, text: str, pattern: str) -> bool:
    [(fits,)] = client.rows(render("clickhouse/matches", pattern=Sql(pattern)), {"text": text})
    return bool(fits)


# Which rights a user lacks, and the GRANT that gives them, as an administrator pastes it.


def lacking(client: Client, rights: Iterable[str], place: Sql) -> list[str]:
    """Returns those of the rights that the connection's user does not have there."""
    return [right for right in rights if not _has(client, right, place)]


def _has(client: Client, right: str, place: Sql) -> bool:
    [(granted,)] = client.rows(render("clickhouse/check_grant", rights=Sql(right), place=place))
    return bool(int(granted))


def grant(client: Client, rights: Iterable[str], place: Sql) -> str:
    """Returns the statement that gives the connection's user the rights."""
    [(user,)] = client.rows(render("clickhouse/current_user"))
    return f"GRANT {listed(rights)} ON {place} TO {identifier(user)}"


def deterministic(client: Client, names: Sequence[str]) -> frozenset[str]:
    """Returns the functions that give the same every time; none where the server does not say."""
    for column in ("deterministic", "is_deterministic") if names else ():
        sql = render("clickhouse/deterministic_functions", deterministic=Sql(column))
        try:
            return frozenset(name for (name,) in client.rows(sql, {"names": list(names)}))
        except ServerError as error:
            if error.code != UNKNOWN_IDENTIFIER:
                raise
    return frozenset()
