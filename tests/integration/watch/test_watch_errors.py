"""What the watch says of errors that a real server has met: one code may have several causes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import ServerError
from sluice.watch.observe import meaning_of, server_facts
from tests.integration.landed import client_of

pytestmark = pytest.mark.integration
MERGES = "merges are behind: try again later"


@pytest.fixture
def client(clickhouse_server) -> Iterator[Client]:
    client = client_of(clickhouse_server)
    client.run("CREATE DATABASE watched")
    yield client
    client.run("DROP DATABASE watched SYNC")


def said(client: Client) -> str:
    (error,) = [one for one in server_facts(client, [], []).errors if one.code == 252]
    return meaning_of(error)


def test_too_many_partitions_of_one_insert_are_no_merges_that_are_behind(client: Client):
    client.run("CREATE TABLE watched.fine (n UInt64) ENGINE = MergeTree PARTITION BY n ORDER BY n")
    with pytest.raises(ServerError) as raised:
        client.run("INSERT INTO watched.fine SELECT number FROM numbers(101)")
    assert "partitions" in raised.value.reason
    assert "max_partitions_per_insert_block" in said(client) and MERGES not in said(client)

    client.run(
        "CREATE TABLE watched.slow (n UInt64) ENGINE = MergeTree ORDER BY n "
        "SETTINGS parts_to_throw_insert = 2, parts_to_delay_insert = 1, max_delay_to_insert = 1"
    )
    client.run("SYSTEM STOP MERGES watched.slow")
    for _ in range(2):
        client.run("INSERT INTO watched.slow SELECT 1")
    with pytest.raises(ServerError) as raised:
        client.run("INSERT INTO watched.slow SELECT 1")
    assert "Too many parts" in raised.value.reason
    assert said(client) == MERGES
