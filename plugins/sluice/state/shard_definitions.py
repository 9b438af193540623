"""The shards of a target define its columns alike.

Each shard brings a row into its own table's types before it says whether the row fits, and where `shard_by`
places it. Where one has `id String` and another `id UInt32`, `007` may belong on both, or on none, and `x` is
a row on one and a rejected row on the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sluice.clients.clickhouse.inspect_tables import read_columns
from sluice.clients.clickhouse.shards import Server, Servers
from sluice.clients.clickhouse.sql import Sql, identifier, listed, table
from sluice.clients.clickhouse.tables import Column
from sluice.clients.lake.base import Lake
from sluice.concurrency import each
from sluice.config.pipeline import Target
from sluice.errors import TargetRefused
from sluice.safe_text import line, visible
from sluice.state.additions import Addition, latest, read_additions

Definitions = Mapping[str, tuple[Column, ...]]
"""The columns of one table, by shard."""

_SHOWN = 3  # columns that differ
_NOTHING: Mapping[str, Addition] = MappingProxyType({})


def check_alike(servers: Servers, target: Target, lake: Lake) -> Definitions:
    """Returns the columns on each shard that answers and has the table.

    Raises TargetRefused where they differ, and what the clients and the lake raise.
    """
    definitions = read_definitions(servers, target)
    unlike = find_unlike(target.table, definitions, coming(target, lake))
    if unlike is not None:
        raise TargetRefused(target.table, unlike.reason, unlike.remedy)
    return definitions


def read_definitions(servers: Servers, target: Target) -> Definitions:
    """Raises what the clients raise."""
    answering = [server for server in servers if server.client is not None]

    def read(server: Server) -> tuple[Column, ...] | None:
        return read_columns(server.reached, target.database, target.name)

    found = zip(answering, each(read, answering), strict=True)
    return {server.shard.name: columns for server, columns in found if columns is not None}


def coming(target: Target, lake: Lake) -> Mapping[str, Addition]:
    """Returns the columns that a load adds by itself on a shard that lacks them."""
    return latest(read_additions(lake), target.table) if target.evolves else {}


@dataclass(frozen=True)
class Unlike:
    """What `shard` has to change to define its columns as most shards do: pairs of a column here (None where
    it lacks it) and there, with a shard that has that one. `others`: how many more shards differ."""

    table: str
    shard: str
    pairs: tuple[tuple[Column | None, Column, str], ...]
    others: int = 0

    @property
    def reason(self) -> str:
        said = [_said(self.shard, *pair) for pair in self.pairs[:_SHOWN]]
        said += [f"{len(self.pairs) - _SHOWN:,} more columns differ"] if len(self.pairs) > _SHOWN else []
        said += [f"{self.others:,} more shards differ"] if self.others else []
        return f"its shards have other columns: {', '.join(said)}; rows could be on no shard, or on two"

    @property
    def remedy(self) -> str:
        """The statements that make the shard like the others. Of two changes of a column in one ALTER the
        server makes only one."""
        pairs = [(here, there) for here, there, _ in self.pairs]
        removed = [change for here, there in pairs for change in _removals(here, there)]
        changed = [change for here, there in pairs for change in _changes(here, there)]
        alter = f"ALTER TABLE {table(self.table)}"
        statements = [f"{alter} {listed(changes)}" for changes in (removed, changed) if changes]
        return f"make them alike; on {self.shard}: {'; '.join(statements)}"


def find_unlike(
    name: str, definitions: Definitions, coming: Mapping[str, Addition] = _NOTHING
) -> Unlike | None:
    """Returns the first shard that differs from what most shards have; None where all are alike. Pure.

    An ALIAS that only some have is nothing that a load fills or computes. Columns of `coming` that a shard
    lacks come with its next load, as they are on the others.
    """
    named = {shard: {column.name: column for column in columns} for shard, columns in definitions.items()}
    agreed = {
        column: _most(column, named) for column in dict.fromkeys(n for own in named.values() for n in own)
    }
    differing: dict[str, list[tuple[Column | None, Column, str]]] = {}
    for shard, own in named.items():
        for column, there in agreed.items():
            here = own.get(column)
            absent = here is None and (there.kind == "ALIAS" or _comes(there, coming))
            if here != there and not absent:
                holder = next(other for other, columns in named.items() if columns.get(column) == there)
                differing.setdefault(shard, []).append((here, there, holder))
    if not differing:
        return None
    shard, pairs = next(iter(differing.items()))
    return Unlike(name, shard, tuple(pairs), len(differing) - 1)


def _most(column: str, named: Mapping[str, Mapping[str, Column]]) -> Column:
    """Returns what most of those shards have that have the column; of as many the first."""
    return Counter(own[column] for own in named.values() if column in own).most_common(1)[0][0]


def _comes(there: Column, coming: Mapping[str, Addition]) -> bool:
    addition = coming.get(there.name)
    return addition is not None and there == Column(there.name, addition.type)


def _said(shard: str, here: Column | None, there: Column, holder: str) -> str:
    own = "missing" if here is None else _defined(here)
    return f"{visible(there.name)} is {own} on {shard} and {_defined(there)} on {holder}"


def _defined(column: Column) -> str:
    return line(f"{column.type} {column.kind} {column.default}".rstrip(), 200)


def _removals(here: Column | None, there: Column) -> Iterator[Sql]:
    if here is not None and here.kind and not there.kind:
        yield Sql(f"MODIFY COLUMN {identifier(there.name)} REMOVE {here.kind}")


def _changes(here: Column | None, there: Column) -> Iterator[Sql]:
    if here is None:
        yield Sql(f"ADD COLUMN {there.definition}")
    elif there.kind or here.type != there.type:
        yield Sql(f"MODIFY COLUMN {there.definition}")


def had_elsewhere(
    shard: str, shards: Sequence[str], definitions: Definitions, additions: Mapping[str, Addition]
) -> frozenset[str]:
    """Returns the added columns that another shard has, or may have: it had them, and does not answer."""
    names = {other: {column.name for column in columns} for other, columns in definitions.items()}
    return frozenset(
        name
        for name, addition in additions.items()
        if any(
            name in names[other] if other in names else other in addition.shards
            for other in shards
            if other != shard
        )
    )
