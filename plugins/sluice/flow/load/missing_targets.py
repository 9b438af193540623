"""Target tables that are not there: nothing is loaded into them, whatever has landed."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.clients.clickhouse.shards import connect_shards
from sluice.config.pipeline import Pipeline
from sluice.state.last_ddl import creations, gone


def gone_targets(pipeline: Pipeline) -> Mapping[str, str]:
    """Returns the remedy for each table that a server lacks. Raises what the clients raise."""
    tables = [target.table for target in pipeline.targets]
    remedies: dict[str, str] = {}
    with connect_shards(pipeline) as servers:
        for server in servers:
            if server.client and (missing := gone(server.client, tables)):
                remedies |= creations(server.client, pipeline, missing)
    return remedies
