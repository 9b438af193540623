"""Takes values of events out of the COMMENTs of columns: older releases wrote some into them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.settings import WRITE
from sluice.clients.clickhouse.sql import identifier, literal, render, table

# How a comment of Sluice's begins, and what stands before a value in one of an older release.
_OWN = re.compile(
    r"(?P<share>(?:added by Sluice: in|in (?:all|[\d.]+ % of)) [\d,]+ (?:of [\d,]+ )?(?:events|rows)[^;]*)"
)
_BEFORE_VALUE = re.compile(
    r"; (?:such as |.*?(?:whole numbers from |would be (?:a misfit|misfits): |with a key |at key ))",
    re.DOTALL,
)


def without_values(comment: str) -> str:
    """Returns the comment, of one that holds values only its share: one of a person's own stays as it is."""
    own = _OWN.match(comment)
    if own is None or not _BEFORE_VALUE.search(comment, own.end("share")):
        return comment
    return own["share"]


def clear_value_comments(client: Client, tables: Iterable[str]) -> list[str]:
    """Takes the values out of all comments of the tables (`database.table`); returns the columns that had
    some, as `database.table.column`. Raises what the client raises."""
    cleared: list[str] = []
    for name in tables:
        database, _, plain = name.partition(".")
        asked = {"database": database, "name": plain}
        for column, comment in client.rows(render("clickhouse/column_comments"), asked):
            kept = without_values(comment)
            if kept != comment:
                sql = render(
                    "clickhouse/comment_column",
                    table=table(name),
                    column=identifier(column),
                    comment=literal(kept),
                )
                client.run(sql, settings=WRITE)
                cleared.append(f"{name}.{column}")
    return cleared
