"""The Airflow assets that say "this hour of this table is complete", for DAGs downstream.

A DAG that starts with every new hour of a table has `schedule=Asset("sluice://<pipeline>/<db.table>")`
and reads slice, rows and manifests from the triggering event's `extra`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import structlog
from airflow.sdk import Asset, AssetAlias

from sluice.metrics.sink import count

log = structlog.get_logger(__name__)

# Above this many slices in a batch a table gets one event for all of them: a year's backfill would
# otherwise write 8,760 rows per table into Airflow's database in one request.
EVENTS_PER_TABLE = 48


def table_asset(pipeline: str, table: str) -> Asset:
    return Asset(f"sluice://{pipeline}/{table}")


def pipeline_alias(pipeline: str) -> AssetAlias:
    """Returns the outlet of `publish`: only through an alias can one task emit several events of one asset
    with an `extra` each."""
    return AssetAlias(f"sluice://{pipeline}")


def table_events(
    published: Sequence[dict[str, Any]], limit: int = EVENTS_PER_TABLE
) -> list[tuple[str, dict[str, Any]]]:
    """Returns (table, extra) per event, from `steps.publish_range`'s {table, slice, rows, manifests} rows.

    `extra` is {slice, rows, manifests}, or for more than `limit` slices {slices, rows}: all their ids
    and the sum of their rows.
    """
    by_table: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in published:
        by_table[row["table"]].append({key: row[key] for key in ("slice", "rows", "manifests")})
    return [(table, extra) for table, rows in by_table.items() for extra in _extras(rows, limit)]


def emit_events(pipeline: str, published: Sequence[dict[str, Any]], outlet_events: Any) -> None:
    """Emits the events of the published slices. `outlet_events` are those of the task's context; the
    pipeline's alias is its outlet."""
    alias, events = outlet_events[pipeline_alias(pipeline)], table_events(published)
    for table, extra in events:
        alias.add(table_asset(pipeline, table), extra=extra)
        count("asset_events", pipeline=pipeline, table=table)
    slices = sorted({row["slice"] for row in published})
    log.info(
        "asset events",
        events=len(events),
        slices=f"{len(slices)}, from {slices[0]} to {slices[-1]}" if slices else "0",
        rows=dict(_rows(published)),
    )


def _rows(published: Sequence[dict[str, Any]]) -> Counter[str]:
    """Returns the rows by table."""
    rows: Counter[str] = Counter()
    for row in published:
        rows[row["table"]] += row["rows"]
    return rows


def _extras(rows: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    if len(rows) <= limit:
        return rows
    return [{"slices": [row["slice"] for row in rows], "rows": sum(row["rows"] for row in rows)}]
