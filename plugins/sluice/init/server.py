"""Asks ClickHouse which tables are there, and runs the statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.connections.find import find


@contextmanager
def connected(connection: str) -> Iterator[Client]:
    """Raises WrongUse for an unknown connection, ClickHouseUnavailable, and ServerError."""
    with closing(open_client(find(connection))) as client:
        yield client


def existing_columns(client: Client, tables: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Returns the columns of those tables (database.table) that are there."""
    columns_by_table = {}
    for name in tables:
        table = read_table(client, *name.split(".", 1))
        if table is not None:
            columns_by_table[name] = tuple(column.name for column in table.columns if column.taken)
    return columns_by_table


def run_statements(client: Client, statements: Iterable[str]) -> int:
    """Returns how many were run. Raises ServerError at the first that is refused."""
    count = 0
    for statement in statements:
        client.run(statement)
        count += 1
    return count
