"""What a commit says of the materialized views whose rows it holds. Pure."""

from __future__ import annotations

import hashlib

from sluice.clients.clickhouse.tables import TargetTable


def view_stamps(target_table: TargetTable) -> dict[str, str]:
    """By table that gets the target's rows, and the target itself, 16 hexadecimal digits that stand for the
    table and for all SELECTs through which rows come to it."""
    names = dict.fromkeys(
        (target_table.table, *(view_table.table for view_table in target_table.view_tables))
    )
    return {name: _stamp(target_table, name) for name in names}


def _stamp(target_table: TargetTable, name: str) -> str:
    upstream: set[str] = set()
    waiting = {name}
    while waiting:
        upstream |= waiting
        waiting = {
            view_table.source for view_table in target_table.view_tables if view_table.table in upstream
        } - upstream
    views = sorted(
        {
            (view_table.source, view_table.table, view_table.select)
            for view_table in target_table.view_tables
            if view_table.table in upstream
        }
    )
    return hashlib.sha256(repr((name, views)).encode()).hexdigest()[:16]
