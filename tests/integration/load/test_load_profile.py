"""A user's profile may say what it likes: the same rows arrive, and the same are rejected rows."""

from __future__ import annotations

import json

import pytest

from sluice.clients.clickhouse.connect import open_client
from sluice.clients.connections import Connection
from tests.integration.landed import Event, World, event, land, unit

pytestmark = pytest.mark.integration

ODD = {
    "date_time_overflow_behavior": "throw",
    "session_timezone": "Asia/Tokyo",
    "cast_keep_nullable": 1,
    "cast_ipv4_ipv6_default_on_conversion_error": 1,
    "cast_string_to_dynamic_use_inference": 1,
    "decimal_check_overflow": 0,
    "precise_float_parsing": 0,
    "bool_true_representation": "yes",
    "date_time_input_format": "basic",
    "formatdatetime_f_prints_single_zero": 1,
    "short_circuit_function_evaluation": "disable",
    "type_json_skip_duplicated_paths": 1,
    "json_type_escape_dots_in_keys": 1,
    "join_use_nulls": 1,
    "aggregate_functions_null_for_empty": 1,
    "transform_null_in": 1,
    "union_default_mode": "DISTINCT",
    "prefer_column_name_to_alias": 1,
    "insert_null_as_default": 0,
    "extremes": 1,
    "max_result_rows": 1000,
    "result_overflow_mode": "break",
    "max_ast_elements": 2000,
    "limit": 1,
    "final": 1,
}
EVENTS = [
    {
        "n": 5,
        "at": "2026-02-28T10:00:00Z",
        "ip": "1.2.3.4",
        "d": 1.23,
        "b": True,
        "j": {"a": 1, "t": "2026-01-01"},
    },
    {"at": "2200-01-01T00:00:00Z"},
    {"ip": "nowhere"},
    {"d": 1.239},
    {"j": {"a": 1.5}},
    {},
]


def hold(world: World, read: str) -> tuple[list, list, list]:
    world.sql("CREATE DATABASE {db}")
    world.sql(
        "CREATE TABLE {db}.t (n UInt8 DEFAULT 7, at DateTime('UTC'), ip IPv4, d Decimal(9, 2), b Bool, "
        "j JSON(a UInt8), s Nullable(String) DEFAULT 'none', _timestamp DateTime('UTC'), _offset Int64, "
        "_slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _offset"
    )
    world.sql(
        "CREATE TABLE {db}.sums (n UInt64, at DateTime('UTC'), flag String, kept UInt64, "
        "_slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY n"
    )
    file = world.root / "sums.sql"
    file.write_text(
        "SELECT sum(c.n) AS n, max(at) AS at, toString(any(b)) AS flag, sumIf(c.n, c.n > 100) AS kept "
        "FROM {source} AS c LEFT JOIN (SELECT 1 AS n, 2 AS m) AS o USING (n)"
    )
    sums = {f"{world.database}.sums": {"from": f"{world.database}.t", "sql": str(file)}}
    pipeline = world.pipeline({"click": "t"}, rollups=sums, clickhouse={"read": read})
    land(world.lake, unit(), [Event("click", event(**fields).payload) for fields in EVENTS])
    world.load(pipeline, unit())
    world.load(pipeline, unit(), table="sums")
    read_all = world.client.reading({"limit": 0, "extremes": 0, "session_timezone": ""}).rows
    rows = read_all(
        f"SELECT _offset, n, toUnixTimestamp(at), toString(ip), d, toUInt8(b), toString(j), s, "
        f"toUnixTimestamp(_timestamp) FROM {world.database}.t ORDER BY _offset"
    )
    rejected_rows = (
        f"SELECT offset, column FROM sluice.rejected WHERE target = '{world.database}.t' ORDER BY offset"
    )
    made = f"SELECT n, toUnixTimestamp(at), flag, kept FROM {world.database}.sums"
    return (
        [*map(tuple, rows)],
        [*map(tuple, read_all(rejected_rows))],
        [*map(tuple, read_all(made))],
    )


@pytest.mark.long
@pytest.mark.parametrize("read", ["pull", "push"])
def test_an_odd_profile_changes_nothing(start_clickhouse_server, tmp_path, name, read: str):
    settings = "".join(f"<{key}>{value}</{key}>" for key, value in ODD.items())
    networks = "<networks><ip>127.0.0.1</ip></networks>"
    users = (
        f"<clickhouse><profiles><default/><odd>{settings}</odd></profiles><users><default><password/>"
        f"<profile>default</profile>{networks}</default><odd><password>odd</password><profile>odd</profile>"
        f"{networks}<access_management>1</access_management></odd></users></clickhouse>"
    )
    server = start_clickhouse_server(users=users)
    connection = Connection("odd", host=server.host, port=server.port, login="odd", password="odd")
    world = World(tmp_path, open_client(connection), name)
    start = int(unit().slice.start.timestamp())
    rows, rejected_rows, sums = hold(world, read)
    rows = [(*row[:6], json.loads(row[6]), *row[7:]) for row in rows]
    assert rows == [
        (0, 5, 1_772_272_800, "1.2.3.4", rows[0][4], 1, {"a": 1, "t": "2026-01-01"}, "none", start),
        (5, 7, 0, "0.0.0.0", 0, 0, {"a": 0}, "none", start),
    ]
    assert str(rows[0][4]) == "1.23"
    assert rejected_rows == [(1, "at"), (2, "ip"), (3, "d"), (4, "j.a")]
    assert sums == [(12, 1_772_272_800, "true", 0)]
