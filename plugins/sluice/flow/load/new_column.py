"""What a column that is added may be called. Pure."""

from __future__ import annotations

from collections.abc import Collection

from sluice.clients.clickhouse.sql import identifier, table
from sluice.field_path import MOST_NAMES, names_of
from sluice.flow.load.casts.event_paths import RESERVED

NAME_BYTES = 100


def refusal(name: str, columns: Collection[str]) -> str:
    """Returns why no column of a table that has `columns` can have the name; empty where one can."""
    if name == "" or RESERVED in names_of(name) or len(names_of(name)) > MOST_NAMES:
        return "no column can have this name"
    if name.startswith("_"):
        return "names that begin with _ are Sluice's and ClickHouse's own"
    if not name.isprintable() or len(name.encode()) > NAME_BYTES:
        return f"a name has at most {NAME_BYTES} bytes, all of them visible"
    if name in columns:
        return "its name is that of a column that another field fills"
    near = next((one for one in sorted(columns) if _within(name, one) or _within(one, name)), "")
    return f"ClickHouse would take it for a part of column {near}" if near else ""


def _within(name: str, outer: str) -> bool:
    return name.startswith(f"{outer}.")


def remedy(of: str, name: str, kind: str, columns: Collection[str], otherwise: str) -> str:
    """Returns the statement that adds a column to table `of`; where no column can have its name `otherwise`,
    with the reason."""
    why = refusal(name, columns)
    return f"{otherwise}: {why}" if why else f"ALTER TABLE {table(of)} ADD COLUMN {identifier(name)} {kind}"
