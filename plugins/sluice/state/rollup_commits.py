"""What the ledger has to hold for the rollups of a unit. Pure.

In place of a manifest the row of a rollup names what decides its rows: `<manifest>@<generation>` is the
commit of the source, `#<digest>` the rollup's source and SELECT. Where these rows cannot be made, because
their input is gone, the unit is frozen: `<what its rows are of> frozen for <what they should be of>`.
"""

from __future__ import annotations

from collections.abc import Mapping

from sluice.config.pipeline import Pipeline
from sluice.config.rollups import Rollup
from sluice.slices import Unit
from sluice.state.ledger import LedgerRow
from sluice.state.unit_state import Commit

_FROZEN = " frozen for "


def rollups_wanted(pipeline: Pipeline, rows: Mapping[str, LedgerRow]) -> dict[str, Commit]:
    """By table, out of the unit's ledger rows in all tables: a rollup follows its source's commit, shard by
    shard. As long as the source has none, the unit is not complete anyway."""
    commits = {}
    for table, rollup in pipeline.rollups.items():
        source, row = rows.get(rollup.source), rows.get(table)
        sharding = pipeline.clickhouse.sharding(table)
        if row and source and source.sharding != pipeline.clickhouse.sharding(rollup.source):
            sharding = row.sharding  # placed as its source
        if source is not None and row is not None and is_settled(rollup, row, source):
            commits[table] = Commit(row.manifest, row.types, sharding)
        elif source is not None:
            commits[table] = Commit(commit_of(rollup, source), (), sharding)
    return commits


def is_settled(rollup: Rollup, row: LedgerRow, source: LedgerRow) -> bool:
    """Returns whether the rollup's commit is of the source's commit, or frozen for it, on every shard."""
    if not source.shares:
        return settles(row.manifest, commit_of(rollup, source))
    rollup_rows = dict(row.shares)
    return all(
        commit is not None
        and (rollup_row := rollup_rows.get(shard)) is not None
        and is_settled(rollup, rollup_row, commit)
        for shard, commit in source.shares
    )


def settles(held: str, commit: str) -> bool:
    """Returns whether a ledger row that names `held` leaves nothing to do for `commit`."""
    return commit in (held, held.partition(_FROZEN)[2])


def frozen_commit(row: LedgerRow | None, commit: str) -> str:
    """Names the commit of a unit whose rows stay as `row` has them, because `commit` cannot be made."""
    return f"{made_of(row.manifest) if row else ''}{_FROZEN}{commit}"


def made_of(held: str) -> str:
    """Returns the commit that the rows are made of; empty where none is known."""
    return held.partition(_FROZEN)[0]


def is_frozen(row: LedgerRow) -> bool:
    """Returns whether the rows of a rollup's unit stay as they are, on some shard."""
    return any(_FROZEN in commit.manifest for commit in _commits(row))


def manifests_in(row: LedgerRow) -> set[str]:
    """Returns the manifests whose rows a table has of a unit, by its commit, or the shards' own; a rollup's
    are its source's."""
    return {made_of(commit.manifest).partition("@")[0] for commit in _commits(row)}


def is_of_another(row: LedgerRow, manifest: str) -> bool:
    """Returns whether a table has rows of a unit, not frozen, that are another manifest's."""
    return manifests_in(row) != {manifest} and not is_frozen(row)


def frozen_units(
    pipeline: Pipeline, ledgers: Mapping[str, Mapping[Unit, LedgerRow]]
) -> dict[str, list[Unit]]:
    """Returns by rollup the units that are frozen: rows of records that an erasure has taken out since may
    be among theirs."""
    frozen = {
        table: sorted(unit for unit, row in ledgers.get(table, {}).items() if is_frozen(row))
        for table in pipeline.rollups
    }
    return {table: units for table, units in frozen.items() if units}


def _commits(row: LedgerRow) -> list[LedgerRow]:
    return [share for _, share in row.shares if share is not None] or [row]


def commit_of(rollup: Rollup, source: LedgerRow) -> str:
    """Names all that decides the rows that a rollup has of a unit."""
    return f"{source.manifest}@{source.generation}#{rollup.digest}"
