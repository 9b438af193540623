"""How many rows and bytes INSERTs wrote, as a real server says it."""

from __future__ import annotations

import pytest

from sluice.metrics import meter
from tests.integration.landed import client_of

pytestmark = pytest.mark.integration


def test_rows_and_bytes_of_inserts_are_counted_also_those_of_views(clickhouse_server, name):
    client = client_of(clickhouse_server)
    client.run(f"CREATE DATABASE `{name}`")
    client.run(f"CREATE TABLE `{name}`.t (n UInt64) ENGINE = MergeTree ORDER BY n")
    meter.take()
    client.run(f"INSERT INTO `{name}`.t SELECT number FROM numbers(1000)")
    assert (meter.total("insert_rows"), meter.total("insert_bytes")) == (1_000, 8_000)
    client.run(f"INSERT INTO `{name}`.t FORMAT JSONEachRow", body=b'{"n": 1}\n{"n": 2}\n')
    assert (meter.total("insert_rows"), meter.total("insert_bytes")) == (1_002, 8_016)
    view = f"CREATE MATERIALIZED VIEW `{name}`.v ENGINE = MergeTree ORDER BY n AS SELECT n FROM `{name}`.t"
    client.run(view)
    meter.take()
    client.run(f"INSERT INTO `{name}`.t SELECT number FROM numbers(10)")
    assert meter.total("insert_rows") == 20
    assert len(meter.take().times) == 1
