"""A user's profile that bends what a SELECT reads: status and verify say what the tables hold nonetheless."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from local.services import ClickHouseServer
from sluice.cli.status import as_json
from sluice.clients.clickhouse.client import READS
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.errors import READONLY, ServerError
from sluice.clients.connections import Connection
from sluice.config.pipeline import Pipeline
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.audit import audit
from sluice.slices import SliceRange
from sluice.state.survey import survey
from tests.integration.landed import START, World, event, land, unit
from tests.integration.verify.test_contents import compared, told
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

HOURS = SliceRange(START, START.add(hours=2))
# Rows are hidden, of the others some are read, and the answer is cut.
BENT = {
    "limit": 1,
    "final": 1,
    "additional_result_filter": "1",
    "max_rows_to_read": 1,
    "max_bytes_to_read": 1,
    "read_overflow_mode": "break",
    "max_result_rows": 1,
    "result_overflow_mode": "break",
    "extremes": 1,
    "join_use_nulls": 1,
    "transform_null_in": 1,
    "union_default_mode": "DISTINCT",
    "prefer_column_name_to_alias": 1,
    "aggregate_functions_null_for_empty": 1,
    "session_timezone": "Asia/Tokyo",
}
TABLES = (
    AnomalyKind.ROWS_MISSING,
    AnomalyKind.ROWS_EXTRA,
    AnomalyKind.LEDGER,
    AnomalyKind.REJECTED_ROWS,
    AnomalyKind.VALUES,
)


@pytest.fixture
def server(start_clickhouse_server, name: str) -> ClickHouseServer:
    hidden = f"{{'{name}.clicks': 'n != 2', 'sluice.ledger': '0', 'sluice.rejected': '0'}}"
    profiles = {
        "bent": {**BENT, "additional_table_filters": hidden},
        "reader": {"readonly": 1},
        "bent_reader": {"readonly": 1, "final": 1},
        "limited_reader": {"readonly": 1, "limit": 1},
        "offset_reader": {"readonly": 1, "offset": 1},
        "offset_writer": {"offset": 1},
        "filtered_reader": {"readonly": 1, "additional_result_filter": "0"},
    }
    network = "<networks><ip>127.0.0.1</ip></networks>"
    made = "".join(
        f"<{one}>{''.join(f'<{key}>{value}</{key}>' for key, value in settings.items())}</{one}>"
        for one, settings in profiles.items()
    )
    fixed = "<constraints><allow_simdjson><const/></allow_simdjson></constraints>"
    made += f"<fixed_writer><allow_simdjson>0</allow_simdjson>{fixed}</fixed_writer>"
    users = "".join(
        f"<{one}><password/><profile>{one}</profile>{network}</{one}>"
        for one in ("default", "fixed_writer", *profiles)
    )
    return start_clickhouse_server(
        users=f"<clickhouse><profiles><default/>{made}</profiles><users>{users}</users></clickhouse>"
    )


@pytest.fixture
def world(server: ClickHouseServer, tmp_path, name: str) -> World:
    world = World(tmp_path, open_client(connection(server, "default")), name)
    world.sql("CREATE DATABASE {db}")
    world.sql(
        "CREATE TABLE {db}.clicks (n UInt8, s String, _topic String, _partition Int32, _offset Int64, "
        "_slice DateTime('UTC'), _cluster String) ENGINE = MergeTree ORDER BY _offset"
    )
    for hour in range(2):
        events = [*(event(n=n, s=f"{hour}-{n}") for n in range(4)), event(n=300)]
        land(world.lake, unit(hour), [replace(one, hour=f"2026-11-20T{10 + hour}") for one in events])
    world.load(pipeline_of(world), unit(0), unit(1))
    return world


def pipeline_of(world: World) -> Pipeline:
    return world.pipeline({"click": "clicks"})


def connection(server: ClickHouseServer, login: str) -> Connection:
    return Connection(login, host=server.host, port=server.port, login=login)


def seen(world: World, server: ClickHouseServer, login: str, monkeypatch) -> tuple[list, list, list]:
    """What status, verify and, of one who may write, `verify --contents` say to this user."""
    at = f"clickhouse://{login}@{server.host}:{server.port}"
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", at)
    pipeline = pipeline_of(world)
    states: list[dict[str, Any]] = [as_json(pipeline, one) for one in survey(pipeline, HOURS)]
    counted = [(a.kind, a.slice, a.expected, a.seen) for a in audit(pipeline, HOURS).anomalies]
    whole = [] if "reader" in login else told(compared(world, pipeline, unit(0), unit(1)))
    return states, [one for one in counted if one[0] in TABLES], whole


@pytest.mark.long
@pytest.mark.parametrize("login", ["bent", "reader"])
def test_a_profile_hides_nothing_and_breaks_nothing(world: World, server, login: str, monkeypatch):
    states, counted, whole = seen(world, server, login, monkeypatch)
    assert [state["tables"][f"{world.database}.clicks"] for state in states] == [
        {"rows": 4, "rejected_rows": 1, "defaulted": {}, "nulls": {}},
        {"rows": 4, "rejected_rows": 1, "defaulted": {}, "nulls": {}},
    ]
    assert (counted, whole) == ([], [])
    world.sql("ALTER TABLE {db}.clicks UPDATE s = 'x' WHERE s = '1-2' SETTINGS mutations_sync = 2")
    world.sql("DELETE FROM {db}.clicks WHERE s = '0-2' SETTINGS lightweight_deletes_sync = 2")
    world.sql("DELETE FROM sluice.rejected WHERE slice = toDateTime('2026-11-20 11:00:00', 'UTC')")
    _, counted, whole = seen(world, server, login, monkeypatch)
    assert [one[:2] for one in counted] == [
        (AnomalyKind.ROWS_MISSING, unit(0).slice.id),
        (AnomalyKind.REJECTED_ROWS, unit(1).slice.id),
    ]
    if login == "bent":
        assert [(kind, said) for kind, _, _, said in whole] == [
            (AnomalyKind.VALUES, "3 rows; records 2"),
            (AnomalyKind.VALUES, "4 rows, other values in s; records 2"),
            (AnomalyKind.REJECTED_VALUES, "0 in sluice.rejected"),
        ]


@pytest.mark.parametrize(
    ("login", "setting"),
    per_commit(
        [
            ("bent_reader", "final"),
            ("limited_reader", "limit"),
            ("offset_reader", "offset"),
            ("filtered_reader", "additional_result_filter"),
        ],
        2,
    ),
)
def test_who_may_only_read_and_reads_otherwise_is_refused_with_the_setting(server, login: str, setting: str):
    """The server has answered: it is not unavailable, and another try gives the same."""
    with pytest.raises(ServerError, match=rf"'{setting}' setting.*give it another profile") as refused:
        open_client(connection(server, login))
    assert (refused.value.code, refused.value.retryable) == (READONLY, False)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.long
def test_a_writer_whose_profile_hides_each_first_row_reads_them_all(server):
    assert open_client(connection(server, "offset_writer")).rows("SELECT 1") == [(1,)]


def test_who_may_not_set_back_what_the_profile_has_set_is_told_which(server):
    with pytest.raises(ServerError, match=r"profile sets `allow_simdjson`, .*take it out of the") as refused:
        open_client(connection(server, "fixed_writer"))
    assert (refused.value.code, len(str(refused.value).splitlines())) == (READONLY, 1)


def test_what_readers_carry_are_the_servers_own_defaults(world: World):
    names = ", ".join(f"'{name}'" for name in READS)
    found = dict(world.sql(f"SELECT name, default FROM system.settings WHERE name IN ({names})"))
    assert {name: str(value) for name, value in READS.items()} == found
