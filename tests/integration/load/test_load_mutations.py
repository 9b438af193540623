"""Mutations that nobody waits for any more, on tables that a load deletes from."""

from __future__ import annotations

import pytest

from local.readiness import wait_until
from sluice.flow.load.fencing import LoadAttempt
from tests.integration.landed import World, client_of, event, land, unit

pytestmark = pytest.mark.integration

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
DEADLINE_SECONDS = 30
FENCE = "slice DateTime('UTC'), cluster LowCardinality(String)"
UNFINISHED = (
    "SELECT command FROM system.mutations WHERE database = 'sluice' AND table = 'rejected' AND NOT is_done"
)


@pytest.fixture
def world(start_clickhouse_server, tmp_path, name) -> World:
    made = World(tmp_path, client_of(start_clickhouse_server()), name)
    made.sql("CREATE DATABASE {db}")
    made.sql(f"CREATE TABLE {{db}}.clicks (n UInt16, {KEYS}) ENGINE = MergeTree ORDER BY n")
    return made


def delete_rejected_rows_of_nobody(world: World, fence: str) -> None:
    """A killed attempt's deletion at another target, which waits."""
    world.sql(f"CREATE TABLE sluice.{fence} ({FENCE}) ENGINE = MergeTree ORDER BY slice")
    world.sql("SYSTEM STOP MERGES sluice.rejected")
    where = f"target = 'other.t' AND (slice, cluster) IN (SELECT slice, cluster FROM sluice.{fence})"
    settings = {"lightweight_deletes_sync": 0, "mutations_execute_subqueries_on_initiator": 0}
    world.client.run(f"DELETE FROM sluice.rejected WHERE {where}", settings=settings)


def rejected(world: World) -> list[tuple]:
    return world.sql("SELECT toUnixTimestamp(slice), column, value FROM sluice.rejected ORDER BY value")


def test_a_dead_attempt_at_another_target_does_not_block_rejected_rows(world: World):
    pipeline = world.pipeline({"click": "clicks"})
    land(world.lake, unit(), [event(n=1), event(n="x")])
    world.load(pipeline, unit())
    fence = LoadAttempt("other.t", 3, 1).fence_name
    delete_rejected_rows_of_nobody(world, fence)
    world.sql(f"DROP TABLE sluice.{fence} SYNC")
    world.sql("SYSTEM START MERGES sluice.rejected")
    failing = UNFINISHED + " AND notEmpty(latest_fail_reason)"
    wait_until(lambda: bool(world.sql(failing)), "the mutation's failure", DEADLINE_SECONDS)
    land(world.lake, unit(), [event(n=2), event(n="y")], generation=2)
    world.load(pipeline, unit())
    assert rejected(world) == [(int(unit().slice.start.timestamp()), "n", "y")]
    assert world.sql("SELECT n FROM {db}.clicks") == [(2,)]
    assert world.sql(UNFINISHED) == []


def test_a_live_attempt_at_another_target_keeps_its_mutation(world: World):
    pipeline = world.pipeline({"click": "clicks"})
    land(world.lake, unit(), [event(n=1), event(n="x")])
    world.load(pipeline, unit())
    fence = LoadAttempt("other.t", 3, 1).fence_name
    delete_rejected_rows_of_nobody(world, fence)
    land(world.lake, unit(1), [event(n=2)])
    world.load(pipeline, unit(1))
    [(command,)] = world.sql(UNFINISHED)
    assert fence in command
