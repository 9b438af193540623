"""What the ledger has to hold for the rollups of a unit. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.config.pipeline import Pipeline
from sluice.config.rollups import Rollup
from sluice.slices import Unit
from sluice.state.ledger import LedgerRow
from sluice.state.unit_state import Commit


def rollups_wanted(pipeline: Pipeline, rows: Mapping[str, LedgerRow]) -> dict[str, Commit]:
    """By table, out of the unit's ledger rows in all tables: a rollup follows its source's commit, shard by
    shard. As long as the source has none, the unit is not complete anyway."""
    commits = {}
    for table, rollup in pipeline.rollups.items():
        source, row = rows.get(rollup.source), rows.get(table)
        sharding = pipeline.clickhouse.sharding(table)
        if source is not None and row is not None and is_fresh(rollup, row, source):
            commits[table] = Commit(row.manifest, row.types, sharding)
        elif source is not None:
            commits[table] = Commit(commit_of(rollup, source), (), sharding)
    return commits


def is_hour(unit: Unit) -> bool:
    return not unit.cluster


def is_fresh(rollup: Rollup, row: LedgerRow, source: LedgerRow) -> bool:
    """Returns whether the rollup's commit is of the source's commit, on every shard."""
    if not source.shares:
        return row.manifest == commit_of(rollup, source)
    rollup_rows = dict(row.shares)
    return all(
        commit is not None
        and (rollup_row := rollup_rows.get(shard)) is not None
        and is_fresh(rollup, rollup_row, commit)
        for shard, commit in source.shares
    )


def manifests_in(row: LedgerRow) -> set[str]:
    """Returns the manifests whose rows a table has of a unit, by its commit, or the shards' own; a rollup's
    are its source's."""
    commits = [share for _, share in row.shares if share is not None] or [row]
    return {commit.manifest.partition("@")[0] for commit in commits}


def commit_of(rollup: Rollup, source: LedgerRow) -> str:
    """Names the source's commit and the SELECT: what the ledger holds for a rollup in place of a manifest."""
    return f"{source.manifest}@{source.generation}#{rollup.digest}"
