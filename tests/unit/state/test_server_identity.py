"""When two tables are one: by what the servers say of themselves, not by what connections are called."""

from __future__ import annotations

import pytest

from sluice.state.shard_ledgers import TableIdentity, held_elsewhere

REPLICAS = frozenset({"a", "b"})
LIVE = TableIdentity(("server-1", "host-1", "table-1"), "/clickhouse/tables/1/clicks", "a", REPLICAS)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (TableIdentity(LIVE.table), True),
        (TableIdentity(("server-2", "host-1", "table-1")), False),  # ON CLUSTER: every server's has this UUID
        (TableIdentity(("server-1", "host-2", "table-1")), False),  # a copied machine
        (TableIdentity(("server-1", "host-1", "table-2")), False),  # dropped and created again
        (TableIdentity(("server-2", "host-2", "table-9"), LIVE.path, "b", REPLICAS), True),
        (TableIdentity(("server-2", "host-2", "table-9"), LIVE.path, "c", frozenset({"c"})), False),
        (TableIdentity(("server-2", "host-2", "table-9"), "", "b"), False),
    ],
)
def test_a_table_is_the_same_when_it_is_one_or_a_replica_of_one(other: TableIdentity, same: bool):
    assert held_elsewhere(other, [LIVE]) is same
