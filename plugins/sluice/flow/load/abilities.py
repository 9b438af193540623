"""Asks once per load how its target is read, written, deleted from and fenced off: by its engine's family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sluice.clients.clickhouse.client import READ_QUORUM, Client
from sluice.clients.clickhouse.engine import Family
from sluice.clients.clickhouse.errors import NO_CLUSTER, ServerError
from sluice.clients.clickhouse.inspect_tables import grant, lacking
from sluice.clients.clickhouse.sql import Sql
from sluice.clients.clickhouse.tables import TargetTable
from sluice.config.clickhouse import ClickHouse
from sluice.errors import TargetRefused
from sluice.flow.load.fencing import CLUSTER, EVERYWHERE, HERE, Reach, left_by
from sluice.flow.load.replicas import write_settings

# A statement may run on any server of a service of ClickHouse Cloud. What it does is in Keeper and in the
# store that they share, so that there is no quorum.
SHARED_WRITES: dict[str, object] = {
    "select_sequential_consistency": 1,  # of what an INSERT selects
    # 3 waits for the active servers: another one reads what was done in Keeper when it begins.
    "mutations_sync": 3,
    "lightweight_deletes_sync": 3,
    "mutations_execute_subqueries_on_initiator": 1,
}
_EVERYTHING = Sql("*.*")


@dataclass(frozen=True)
class Abilities:
    """`reads` and `writes` are settings. `quorum`: an INSERT waits for other replicas. `marks`: others carry
    out a deletion from Sluice's own tables, so that it holds values, and its fence's name as a mark."""

    reads: Mapping[str, object]
    writes: Mapping[str, object]
    reach: Reach
    quorum: bool
    marks: bool


def abilities_of(family: Family, clickhouse: ClickHouse, replicas: bool) -> Abilities:
    """`replicas`: the shard lists them."""
    if family is Family.SHARED:
        return Abilities(READ_QUORUM, SHARED_WRITES, EVERYWHERE, quorum=False, marks=True)
    if family is Family.REPLICATED:
        limit = clickhouse.takeover if replicas else None
        return Abilities(READ_QUORUM, write_settings(clickhouse, limit), HERE, quorum=True, marks=replicas)
    return Abilities({}, {}, HERE, quorum=False, marks=False)


def ask_abilities(
    client: Client, target_table: TargetTable, clickhouse: ClickHouse, replicas: str | None
) -> Abilities:
    """`replicas`: the shard that lists them. Raises TargetRefused where a load could not be exact."""
    family, engine = target_table.storage.family, target_table.engine
    if replicas is not None and family is not Family.REPLICATED:
        raise TargetRefused(
            target_table.table,
            f"its engine is {engine}, and shard {replicas} lists replicas",
            "make it a ReplicatedMergeTree on each of them, or list one server as its `connection`",
        )
    if family is Family.SHARED:
        check_reach(client, target_table)
    return abilities_of(family, clickhouse, replicas is not None)


def check_reach(client: Client, target_table: TargetTable) -> None:
    """Raises TargetRefused where statements of an earlier attempt could not be seen and killed on all
    servers."""
    name, engine = target_table.table, target_table.engine
    if missing := lacking(client, ("REMOTE", "CLUSTER"), _EVERYTHING):
        reason = (
            f"its engine is {engine}, and the user of the connection can't kill statements on all servers"
        )
        raise TargetRefused(name, reason, grant(client, missing, _EVERYTHING))
    try:
        left_by(client, name, EVERYWHERE)
    except ServerError as error:
        if error.code != NO_CLUSTER:
            raise
        reason = f"its engine is {engine}, and the server has no cluster {CLUSTER} of all that serve it"
        raise TargetRefused(name, reason, f"name them as cluster {CLUSTER}, or load a MergeTree") from error
