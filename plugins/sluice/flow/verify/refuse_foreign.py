"""Refuses a verify whose repairs could not work: what it would fill is another pipeline's."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.lake.base import Lake
from sluice.clients.lake.own_folder import check_new
from sluice.config.pipeline import Pipeline
from sluice.state.system_tables import check_owner


def refuse_foreign(
    pipeline: Pipeline, lake: Lake, clients: Iterable[Client], tables: Collection[str] | None
) -> None:
    """Raises LakeTaken and TargetRefused as a run does."""
    check_new(pipeline, lake)
    for client in clients:
        for target in pipeline.chosen(tables):
            try:
                check_owner(client, pipeline, lake.url, target)
            except ServerError as error:
                if error.code not in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
                    raise
