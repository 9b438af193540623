"""LowCardinality of other types than strings, which ClickHouse calls suspicious: such a table loads."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from tests.integration.landed import World, client_of, event, land, unit

pytestmark = pytest.mark.integration

SUSPICIOUS = {"allow_suspicious_low_cardinality_types": 1}
COLUMNS = (
    "n LowCardinality(Int32), day LowCardinality(Date), big LowCardinality(Nullable(UInt64)) DEFAULT 7, "
    "at LowCardinality(DateTime('UTC')), half LowCardinality(Float64), _offset Int64, "
    "_slice DateTime('UTC'), _cluster LowCardinality(String)"
)


@pytest.fixture
def world(clickhouse_server, tmp_path, name) -> World:
    made = World(tmp_path, client_of(clickhouse_server), name)
    made.sql("CREATE DATABASE {db}")
    create = f"CREATE TABLE {made.database}.t ({COLUMNS}) ENGINE = MergeTree ORDER BY _offset"
    made.client.run(create, settings=SUSPICIOUS)
    view = (
        f"CREATE MATERIALIZED VIEW {made.database}.v ENGINE = MergeTree ORDER BY tuple() AS "
        f"SELECT _slice, _cluster, n, day FROM {made.database}.t"
    )
    made.client.run(view, settings=SUSPICIOUS)
    return made


def test_its_values_are_those_of_the_events(world: World):
    events = [
        event("t", n=-5, day="2026-02-28", at="2026-01-01T10:00:00Z", half=0.5, big=None),
        event("t", n=2**31, day="2026-02-28", at="2026-01-01T10:00:00Z", half=0.5),
        event("t", n=5, day="2026-02-30", at="2026-01-01T10:00:00Z", half=0.5),
        event("t", n=0, day="1970-01-01", at="2026-01-01T10:00:00Z", half=-1.25, big=2**64 - 1),
        event("t", n=1, day="2100-01-01", at="2026-01-01T10:00:00Z", half=0),
    ]
    land(world.lake, unit(0), events)
    pipeline = world.pipeline({"t": "t"})
    at = datetime(2026, 1, 1, 10)
    rows = [
        (0, -5, date(2026, 2, 28), None, at, 0.5),
        (3, 0, date(1970, 1, 1), 2**64 - 1, at, -1.25),
        (4, 1, date(2100, 1, 1), 7, at, 0.0),
    ]
    for mode in ("fill", "reload"):
        world.load(pipeline, unit(0), mode=mode)
        found = world.sql("SELECT _offset, n, day, big, at, half FROM {db}.t ORDER BY _offset")
        assert [(*row[:4], row[4].replace(tzinfo=None), row[5]) for row in found] == rows
        passed = world.sql("SELECT n, day FROM {db}.v ORDER BY n")
        assert [tuple(row) for row in passed] == sorted((row[1], row[2]) for row in rows)
        [(shown,)] = world.client.rows(f"SELECT count() FROM sluice.`{world.database}.t`")
        assert shown == 3
    rejected = world.sql("SELECT offset, column FROM sluice.rejected WHERE target = '{db}.t' ORDER BY offset")
    assert [tuple(row) for row in rejected] == [(1, "n"), (2, "day")]
