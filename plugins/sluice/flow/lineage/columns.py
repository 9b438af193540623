"""Which field fills which column of a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.clients.clickhouse.tables import Column
from sluice.clients.openlineage.values import ColumnSource, DatasetName
from sluice.config.pipeline import Target
from sluice.flow.load.casts.columns import HOLDERS, LAKE


def sources_of(target: Target, columns: Iterable[Column], lake: DatasetName) -> dict[str, ColumnSource]:
    """Returns the source of each column that a load fills; a field of the event is a dotted path.

    Columns of counts and rollups have none: they are computed of many rows, and a SELECT is not taken apart.
    """
    if target.counted or target.rollup is not None:
        return {}
    sources = {}
    for column in columns:
        if column.name in LAKE:
            sources[column.name] = ColumnSource(lake, column.name)
        elif column.filled and column.name not in HOLDERS:
            path = target.columns.get(column.name, column.name)
            sources[column.name] = ColumnSource(lake, path, cast=column.type)
    return sources
