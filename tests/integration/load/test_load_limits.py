"""Limits of the server and its user's profile, set low: a load goes on, and leaves nothing behind."""

from __future__ import annotations

import pytest

from local.readiness import wait_until
from sluice.flow.load.fencing import digest
from sluice.flow.load.protocol import LoadRun
from tests.integration.landed import World, client_of, event, land, unit

pytestmark = pytest.mark.integration

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
DROP_LIMITS = (
    "<clickhouse><max_table_size_to_drop>1</max_table_size_to_drop>"
    "<max_partition_size_to_drop>1</max_partition_size_to_drop></clickhouse>"
)


DEADLINE_SECONDS = 60


@pytest.fixture
def world(start_clickhouse_server, tmp_path, name) -> World:
    made = World(tmp_path, client_of(start_clickhouse_server(config=DROP_LIMITS)), name)
    made.sql("CREATE DATABASE {db}")
    return made


def test_temporary_tables_above_the_servers_drop_limit_are_dropped(world: World, monkeypatch):
    world.sql(f"CREATE TABLE {{db}}.clicks (n UInt16, {KEYS}) ENGINE = MergeTree ORDER BY n")
    pipeline = world.pipeline({"click": "clicks"}, clickhouse={"lease": "1s"})
    land(world.lake, unit(), [event(n=n) for n in range(100)] + [event(n="x")])

    def broken(run: LoadRun) -> None:
        raise ConnectionError("the loader dies here")

    with monkeypatch.context() as patch:
        patch.setattr(LoadRun, "_revoke", broken)
        with pytest.raises(ConnectionError):
            world.load(pipeline, unit())
    for mode in ("fill", "reload"):
        assert world.load(pipeline, unit(), mode=mode).summary()["rows"] == 100
        assert world.sql("SELECT n FROM {db}.clicks ORDER BY n") == [(n,) for n in range(100)]
    own = digest(f"{world.database}.clicks")
    names = world.sql("SELECT name FROM system.tables WHERE database = 'sluice'")
    assert [name for (name,) in names if own in name] == []


def test_expired_rows_stay_in_the_staging_table(world: World, monkeypatch):
    """A table that is made alike, and filled at the same time, has lost all of them by then."""
    for table in ("clicks", "control"):
        world.sql(
            f"CREATE TABLE {{db}}.{table} (n UInt16, d Date DEFAULT '2020-01-01', {KEYS}) ENGINE = MergeTree "
            "ORDER BY n TTL d + INTERVAL 1 DAY"
        )
    pipeline = world.pipeline({"click": "clicks"}, clickhouse={"lease": "60s"})
    land(world.lake, unit(), [event(n=n) for n in range(100)])
    revoke, staged = LoadRun._revoke, []

    def when_all_has_expired(run: LoadRun) -> None:
        world.sql(f"INSERT INTO {{db}}.control SELECT * FROM {run.writer.attempt.staging}")
        gone = "SELECT count() FROM {db}.control"
        wait_until(lambda: world.sql(gone) == [(0,)], "the merge that forgets rows", DEADLINE_SECONDS)
        staged.extend(world.sql(f"SELECT n FROM {run.writer.attempt.staging} ORDER BY n"))
        revoke(run)

    monkeypatch.setattr(LoadRun, "_revoke", when_all_has_expired)
    assert world.load(pipeline, unit()).summary()["rows"] == 100
    assert staged == [(n,) for n in range(100)]
