"""Which rights a user lacks, and the GRANT that gives them, as an administrator pastes it."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import Sql, identifier, listed, render


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
