"""The Airflow assets that say which hours of a table became complete, for DAGs downstream.

A DAG that starts after each publish of a table's hours has
`schedule=Asset("sluice://<pipeline>/<db.table>")`, and reads slices and rows from the event's `extra`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import airflow.sdk
import structlog
from airflow.sdk import Asset, AssetAlias

from sluice.config.pipeline import Pipeline
from sluice.metrics.meter import count
from sluice.slices import Slice, SliceRange

log = structlog.get_logger(__name__)


def table_asset(pipeline: str, table: str) -> Asset:
    return Asset(f"sluice://{pipeline}/{table}")


def pipeline_alias(pipeline: str) -> AssetAlias:
    """Returns the outlet of `publish`. With the assets as outlets Airflow would also send events of tables
    that got nothing."""
    return AssetAlias(f"sluice://{pipeline}")


def table_events(published: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Returns the rows by slice id of each table, from `steps.publish_range`'s {table, slice, rows}.

    A publish sends one event per table. Of several at once Airflow 3.3.2 gives a run only the first; the
    others come with the next event's run (https://github.com/apache/airflow/issues/54659).
    """
    by_table: dict[str, dict[str, int]] = defaultdict(dict)
    for row in published:
        by_table[row["table"]][row["slice"]] = row["rows"]
    return dict(by_table)


def emit_events(pipeline: str, published: Sequence[dict[str, Any]], outlet_events: Any) -> None:
    """Emits the events of the published slices. `outlet_events` are those of the task's context; the
    pipeline's alias is its outlet."""
    alias, events = outlet_events[pipeline_alias(pipeline)], table_events(published)
    for table, slices in events.items():
        alias.add(table_asset(pipeline, table), extra={"slices": slices})
        count("asset_events", pipeline=pipeline, table=table)
    ids = sorted({row["slice"] for row in published})
    log.info(
        "asset events",
        events=len(events),
        slices=f"{len(ids)}, from {ids[0]} to {ids[-1]}" if ids else "0",
        rows={table: sum(slices.values()) for table, slices in events.items()},
    )


# Event hours as partitions: each table has an asset `…/hours`, with a key for each hour of all tables. It is
# an asset of its own beside the table's: an event with a key starts only DAGs that ask for keys, and an alias
# takes none.
#
# Keys that a task chooses itself came with Airflow 3.3.
KEYS_AT_RUNTIME = "PartitionedAtRuntime" in airflow.sdk.__all__
KEY = "%Y-%m-%dT%H:%M:%S"
"""Of the hour's start in UTC, as Airflow's own mappers of times read keys."""
MOST_HOURS = 48
"""Airflow stores a batch's keys in one request, which has five seconds by default."""


def hours_asset(pipeline: str, table: str) -> Asset:
    return Asset(f"{table_asset(pipeline, table).uri}/hours")


def hour_outlets(pipeline: Pipeline) -> list[Asset]:
    """Returns the assets of the hours; none where Airflow takes no keys from a task, because it would send
    only events without one."""
    if not KEYS_AT_RUNTIME:
        return []
    return [hours_asset(pipeline.name, target.table) for target in pipeline.targets]


def announce_hours(pipeline: Pipeline, published: Sequence[dict[str, Any]], context: Any) -> None:
    """Adds the keys of the hours that the published slices made whole, to every table's asset at once."""
    from sluice.flow import steps

    outlets = hour_outlets(pipeline)
    slices = published_range(pipeline, published)
    hours = steps.proven_hours(pipeline, slices) if outlets and slices else []
    if len(hours) > MOST_HOURS:
        log.warning("event hours not announced", hours=len(hours), most=MOST_HOURS, slices=str(slices))
        hours = []
    if not hours:
        # Airflow sends an event without a key for each outlet that got none.
        task = context["task"]
        task.outlets = [outlet for outlet in task.outlets if outlet not in outlets]
        return
    keys = [hour.strftime(KEY) for hour in hours]
    for asset, target in zip(outlets, pipeline.targets, strict=True):
        context["outlet_events"][asset].add_partitions(keys)
        count("asset_events", len(keys), pipeline=pipeline.name, table=target.table)
    log.info("event hours", hours=len(keys), first=keys[0], last=keys[-1])


def published_range(pipeline: Pipeline, published: Sequence[dict[str, Any]]) -> SliceRange | None:
    """Returns the range from the first slice that was published to the last; None where none was."""
    slices = sorted(Slice.from_id(row["slice"], pipeline.slice) for row in published)
    return SliceRange(slices[0].start, slices[-1].end, pipeline.slice) if slices else None
