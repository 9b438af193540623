"""Of which slices a table's TTL cannot have deleted rows: the server evaluates it, and merges the table.

Slices begin in 1980 and in 2060: a TTL of thirty years has deleted the one and keeps the other.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pendulum
import pytest

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.clients.connections import Connection
from sluice.doctor.clickhouse import ttl_age
from sluice.slices import Slice, Unit
from sluice.state.ttl import forgets, lasting
from tests.integration.landed import client_of
from tests.mutants.server import ADDRESS
from tests.support.clickhouse_at import at
from tests.support.long_form import per_commit
from tests.support.page_world import pipeline

pytestmark = pytest.mark.integration

OLD, YOUNG, OLD_DC2 = (
    Unit(Slice(pendulum.datetime(year, 3, 1, 7)), cluster)
    for year, cluster in ((1980, "dc1"), (2060, "dc1"), (1980, "dc2"))
)
ALL = (YOUNG, OLD_DC2, OLD)
UNIT = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
MADE_HERE = "test_verification_lasting"


@pytest.fixture(scope="module")
def client(request: pytest.FixtureRequest) -> Client:
    """`make mutants` keeps one server running for all of them."""
    if ADDRESS not in os.environ:
        return client_of(request.getfixturevalue("clickhouse_server"))
    return open_client(Connection("clickhouse_test", **at(int(os.environ[ADDRESS])).place))


def made(client: Client, columns: str, ttl: str) -> TargetTable:
    """A new table as the server describes it."""
    client.run(f"CREATE DATABASE IF NOT EXISTS {MADE_HERE}")
    client.run(f"DROP TABLE IF EXISTS {MADE_HERE}.t SYNC")
    client.run(f"CREATE TABLE {MADE_HERE}.t ({columns}) ENGINE = MergeTree ORDER BY _slice {ttl}")
    found = read_table(client, MADE_HERE, "t")
    assert found is not None
    return found


def merged(client: Client) -> set[Unit]:
    """The units of which the server still has a row, after one of each was inserted, with an n of 5."""
    for unit in ALL:
        start = int(unit.slice.start.timestamp())
        row = f"toDateTime({start}, 'UTC') AS _slice, '{unit.cluster}' AS _cluster, 5 AS n"
        client.run(f"INSERT INTO {MADE_HERE}.t SELECT {row}")
    client.run(f"OPTIMIZE TABLE {MADE_HERE}.t FINAL")
    rows = client.rows(f"SELECT toInt64(toDateTime64(_slice, 0)), toString(_cluster) FROM {MADE_HERE}.t")
    return {unit for unit in ALL if (int(unit.slice.start.timestamp()), unit.cluster) in rows}


@pytest.mark.parametrize(
    ("ttl", "kept"),
    [
        ("_slice + INTERVAL 30 YEAR", {YOUNG}),
        # Before all others are moved, none is deleted.
        ("_slice TO VOLUME 'default', _slice + INTERVAL 30 YEAR", {YOUNG}),
        # Whatever rule deletes first.
        ("_slice + INTERVAL 40 YEAR, _slice + INTERVAL 30 YEAR DELETE WHERE n > 3", {YOUNG}),
        ("_slice + INTERVAL 45 YEAR, _slice - INTERVAL 5 YEAR WHERE n > 3", {YOUNG}),
        # The epoch is no end: such rows stay.
        ("if(_cluster = 'dc1', _slice + INTERVAL 30 YEAR, toDateTime(0))", {YOUNG, OLD_DC2}),
        # Ends that DateTime does not hold.
        ("toDate32(_slice) + INTERVAL 200 YEAR", set(ALL)),
        ("toDateTime64(_slice, 3) + INTERVAL 200 YEAR", set(ALL)),
        ("toDateTime64(_slice, 9, 'Asia/Tokyo') + INTERVAL 60 YEAR", set(ALL)),
        ("toDateTime64(_slice, 0) - INTERVAL 20 YEAR", {YOUNG}),
    ],
)
@pytest.mark.parametrize("kind", per_commit(["DateTime('UTC')", "DateTime64(3, 'UTC')"]))
def test_slices_that_no_ttl_has_reached(client: Client, ttl: str, kept: set[Unit], kind: str):
    found = made(client, f"_slice {kind}, _cluster LowCardinality(String), n UInt8", f"TTL {ttl}")
    assert forgets(found)
    assert merged(client) == kept
    assert lasting(client, pipeline(), found, ALL) == kept
    assert lasting(client, pipeline(), found, [OLD]) == kept & {OLD}


@pytest.mark.parametrize(
    ("ttl", "kept"),
    [
        ("_slice + INTERVAL 30 YEAR GROUP BY _slice SET n = max(n), _cluster = any(_cluster)", {YOUNG}),
        # What the slice alone does not tell may have happened.
        ("_slice + toIntervalYear(n)", set()),
    ],
)
def test_slices_of_which_rows_may_be_left(client: Client, ttl: str, kept: set[Unit]):
    found = made(client, f"{UNIT}, n UInt8", f"TTL {ttl}")
    assert forgets(found)
    assert merged(client) > kept
    assert lasting(client, pipeline(), found, ALL) == kept


@pytest.mark.parametrize("ttl", ["", "TTL _slice TO DISK 'default', _slice RECOMPRESS CODEC(ZSTD(3))"])
def test_without_a_ttl_that_deletes_nothing_is_asked(client: Client, ttl: str):
    found = made(client, UNIT, ttl)
    assert not forgets(found)
    assert lasting(cast(Any, None), pipeline(), found, ALL) == frozenset()


def test_without_units_nothing_is_asked(client: Client):
    found = made(client, UNIT, "TTL _slice + INTERVAL 30 YEAR")
    assert lasting(client, pipeline(), found, ALL) == {YOUNG}
    assert lasting(cast(Any, None), pipeline(), found, []) == frozenset()


def test_a_table_without_the_units_columns_tells_nothing(client: Client):
    found = made(client, "_slice DateTime('UTC')", "TTL _slice + INTERVAL 30 YEAR")
    assert forgets(found)
    assert lasting(cast(Any, None), pipeline(), found, ALL) == frozenset()


def test_columns_are_read_with_their_own_types(client: Client):
    """In Tokyo the year begins nine hours earlier."""
    ttl = "TTL toDateTime(if(toYear(_slice) = 2060, '2100-01-01', '1990-01-01'), 'UTC')"
    found = made(client, "_slice DateTime64(3, 'Asia/Tokyo'), _cluster String", ttl)
    before, after = (replace(YOUNG, slice=Slice(pendulum.datetime(2059, 12, 31, hour))) for hour in (14, 15))
    assert lasting(client, pipeline(), found, [before, after]) == {after}


def test_what_else_the_server_refuses_is_told(client: Client):
    found = made(client, UNIT, "TTL _slice + INTERVAL 30 YEAR")
    damaged = replace(found, engine_full=found.engine_full.replace("toIntervalYear", "toNothing"))
    assert damaged != found
    with pytest.raises(ServerError) as raised:
        lasting(client, pipeline(), damaged, ALL)
    assert raised.value.code == 46  # UNKNOWN_FUNCTION


@pytest.mark.parametrize(
    ("ttl", "hours"),
    [
        ("", None),
        ("TTL _slice + INTERVAL 90 DAY", 90 * 24),
        ("TTL toDate(at) + INTERVAL 30 DAY", 30 * 24 - 23),  # of the day's last hour
        ("TTL toDateTime(at) + toIntervalDay(n)", None),  # it reads a column that is no time
        ("TTL _slice + INTERVAL 1 DAY TO DISK 'default'", None),
    ],
)
def test_after_what_time_a_ttl_deletes_rows(client: Client, ttl: str, hours: int | None):
    found = made(client, f"{UNIT}, at DateTime64(3, 'UTC'), n UInt8", ttl)
    assert ttl_age(client, found) == (None if hours is None else timedelta(hours=hours))
