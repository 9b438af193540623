"""How the embedded stack's Airflow opens its database, which is SQLite; Airflow imports it by this name.

Airflow's `begin_nested` begins a transaction with SAVEPOINT, reads, and then writes. Where another process
has written in between, SQLite refuses the write at once with "database is locked", for what was read is no
longer true and waiting cannot make it so (SQLITE_BUSY_SNAPSHOT, https://sqlite.org/isolation.html). So
`airflow backfill create` failed now and then beside a scheduler. Here such a transaction asks for the right
to write when it begins, and then waits for its turn.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import Engine, create_engine

__all__ = ["create_metadata_engine"]

_PATIENCE_SECONDS = 60
# Changes nothing, and has to be allowed to.
_WRITE = "DELETE FROM alembic_version WHERE 0"


class _Cursor(sqlite3.Cursor):
    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        begins = sql.startswith("SAVEPOINT") and not self.connection.in_transaction
        super().execute(sql, parameters)
        return super().execute(_WRITE) if begins else self


class _Connection(sqlite3.Connection):
    def cursor(self, factory: type[sqlite3.Cursor] = _Cursor) -> sqlite3.Cursor:
        return super().cursor(factory)


def create_metadata_engine(
    sql_alchemy_conn: str, *, engine_args: dict[str, Any], connect_args: dict[str, Any]
) -> Engine:
    """Takes the place of the function of this name in `airflow.settings`."""
    if sql_alchemy_conn.startswith("sqlite"):
        connect_args = {**connect_args, "factory": _Connection, "timeout": _PATIENCE_SECONDS}
    return create_engine(sql_alchemy_conn, connect_args=connect_args, **engine_args)
