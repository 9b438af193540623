"""Which table on which server a connection leads to, whatever the connection and its shard are called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import render
from sluice.config.target import Target


@dataclass(frozen=True)
class TableIdentity:
    """`table`: the server's UUID, its host's name and the table's UUID, as any one of them may be the same on
    two servers. Of a replicated table `path` in Keeper, its own `replica` name, and all `replicas` of it."""

    table: tuple[str, str, str]
    path: str = ""
    replica: str = ""
    replicas: frozenset[str] = frozenset()

    def same_rows(self, other: TableIdentity) -> bool:
        """Returns whether both are one table, or replicas of one."""
        if self.table == other.table:
            return True
        return bool(self.path) and self.path == other.path and self.replica in other.replicas


def identify_table(client: Client, target: Target) -> TableIdentity | None:
    """Returns None where the server has no such table."""
    parameters = {"database": target.database, "name": target.name}
    found = client.rows(render("state/server_identity"), parameters)
    if not found:
        return None
    [(server, host, table)] = found
    for path, replica, replicas in client.rows(render("state/replica_identity"), parameters):
        return TableIdentity((server, host, table), path, replica, frozenset(replicas))
    return TableIdentity((server, host, table))


def identify_server(client: Client) -> str:
    [(server,)] = client.rows(render("state/server"))
    return str(server)


def held_elsewhere(identity: TableIdentity, live: Iterable[TableIdentity]) -> bool:
    """Returns whether a table that is in use holds the rows of this one, because it is the same."""
    return any(identity.same_rows(one) for one in live)
