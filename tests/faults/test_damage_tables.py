"""Damage in ClickHouse: each is found at its place, and the printed command repairs it."""

from __future__ import annotations

import pytest

from tests.faults.damage import REJECTED_ROW_HOUR, Damaged
from tests.integration.landed import client_of
from tests.support.landing_world import START
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults


def at(hour: int) -> str:
    return f"_slice = toDateTime({int(START.add(hours=hour).timestamp())}, 'UTC')"


@pytest.fixture(scope="module")
def built(clickhouse_server, tmp_path_factory) -> dict:
    return {
        "folder": tmp_path_factory.mktemp("damage"),
        "client": client_of(clickhouse_server),
        "made": False,
    }


@pytest.fixture
def damaged(built, clickhouse_server, monkeypatch, capsys) -> Damaged:
    """Made once; every test leaves it as it found it, and says so by verifying."""
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    world = Damaged(built["folder"], built["client"], "damage_tables", monkeypatch, capsys)
    if not built["made"]:
        world.make()
        built["made"] = True
    return world


def found(anomalies: list[dict], *fields: str) -> list[tuple]:
    return [tuple(anomaly[name] for name in fields) for anomaly in anomalies]


def repaired(damaged: Damaged, anomalies: list[dict], mode: str) -> None:
    assert all(f"--mode {mode}" in anomaly["command"] for anomaly in anomalies), anomalies
    damaged.repair(anomalies)
    assert damaged.verify() == []


@pytest.mark.long
def test_what_is_whole_has_no_anomaly(damaged: Damaged):
    assert damaged.verify("--checksums") == []
    assert damaged.sql("SELECT count() FROM {db}.clicks") == [(35,)]


@pytest.mark.long
def test_a_row_that_was_deleted(damaged: Damaged):
    damaged.sql(f"DELETE FROM {{db}}.clicks WHERE {at(2)} AND _partition = 1 AND _offset = 11")
    anomalies = damaged.verify()
    assert found(anomalies, "kind", "table", "slice", "cluster", "type", "topic", "partition", "offsets") == [
        ("rows missing", "damage_tables.clicks", "2026-01-01T02Z", "dc1", "click", "bids", 1, [11, 12])
    ]
    assert found(anomalies, "expected", "seen") == [("9 rows", "8")]
    repaired(damaged, anomalies, "repair")


@pytest.mark.long
def test_every_row_of_an_hour_deleted(damaged: Damaged):
    damaged.sql(f"DELETE FROM {{db}}.clicks WHERE {at(0)}")
    anomalies = damaged.verify()
    assert {(a["kind"], a["slice"], a["seen"]) for a in anomalies} == {
        ("rows missing", "2026-01-01T00Z", "0")
    }
    repaired(damaged, anomalies, "repair")


@pytest.mark.long
def test_a_row_of_one_type_in_the_table_of_many(damaged: Damaged):
    damaged.sql(
        f"ALTER TABLE {{db}}.other DELETE WHERE {at(1)} AND _type = 'scroll' SETTINGS mutations_sync = 2"
    )
    anomalies = damaged.verify()
    assert found(anomalies, "kind", "table", "slice", "type", "expected", "seen") == [
        ("rows missing", "damage_tables.other", "2026-01-01T01Z", "scroll", "3 rows", "0")
    ]
    repaired(damaged, anomalies, "repair")


@pytest.mark.long
def test_a_row_inserted_twice(damaged: Damaged):
    one = f"SELECT * FROM {{db}}.clicks WHERE {at(3)} AND _partition = 2 AND _offset = 15"
    damaged.sql(f"INSERT INTO {{db}}.clicks {one}")
    anomalies = damaged.verify()
    assert found(anomalies, "kind", "table", "slice", "partition", "offsets", "seen") == [
        ("duplicate rows", "damage_tables.clicks", "2026-01-01T03Z", 2, [15, 16], "4 rows of 3 records")
    ]
    repaired(damaged, anomalies, "repair")


@pytest.mark.long
def test_one_row_deleted_and_another_one_twice(damaged: Damaged):
    """The count is right: only the records tell."""
    damaged.sql(
        "INSERT INTO {db}.clicks SELECT * FROM {db}.clicks "
        f"WHERE {at(0)} AND _partition = 0 AND _offset = 0"
    )
    damaged.sql(f"DELETE FROM {{db}}.clicks WHERE {at(0)} AND _partition = 1 AND _offset = 2")
    anomalies = damaged.verify()
    assert ("duplicate rows", "2026-01-01T00Z", 0, [0, 1]) in found(
        anomalies, "kind", "slice", "partition", "offsets"
    )
    repaired(damaged, anomalies, "repair")


@pytest.mark.long
def test_a_row_of_another_offset(damaged: Damaged):
    damaged.sql(
        f"INSERT INTO {{db}}.clicks SELECT * REPLACE (9999 AS _offset) FROM {{db}}.clicks "
        f"WHERE {at(1)} AND _partition = 1 LIMIT 1"
    )
    anomalies = damaged.verify()
    kinds = found(anomalies, "kind", "slice", "partition", "seen")
    assert ("foreign rows", "2026-01-01T01Z", 1, "offsets from 5 to 9999") in kinds
    assert ("rows too many", "2026-01-01T01Z", None, "9") in kinds
    repaired(damaged, anomalies, "repair")


@pytest.mark.parametrize("twice", per_commit([True, False]))
@pytest.mark.long
def test_rejected_rows(damaged: Damaged, twice: bool):
    where = "target = 'damage_tables.clicks'"
    if twice:
        damaged.sql(f"INSERT INTO sluice.rejected SELECT * FROM sluice.rejected WHERE {where}")
    else:
        damaged.sql(f"DELETE FROM sluice.rejected WHERE {where}")
    anomalies = damaged.verify()
    assert found(anomalies, "kind", "table", "slice", "expected", "seen") == [
        (
            "rejected_rows",
            "damage_tables.clicks",
            damaged.slice_id(REJECTED_ROW_HOUR),
            "1 rejected rows, by the ledger",
            f"{2 if twice else 0} in sluice.rejected",
        )
    ]
    repaired(damaged, anomalies, "repair")


@pytest.mark.long
def test_a_ledger_row_that_says_other_counts(damaged: Damaged):
    damaged.sql(
        "INSERT INTO sluice.ledger SELECT * REPLACE (rows + 1 AS rows, attempt + 1 AS attempt) "
        f"FROM sluice.ledger WHERE target = 'damage_tables.clicks' AND {at(2).replace('_slice', 'slice')} "
        "ORDER BY generation DESC, attempt DESC LIMIT 1"
    )
    anomalies = damaged.verify()
    assert found(anomalies, "kind", "table", "slice", "expected", "seen") == [
        (
            "ledger",
            "damage_tables.clicks",
            "2026-01-01T02Z",
            "9 rows landed",
            "10 rows and 0 rejected rows in the ledger",
        ),
        ("rows missing", "damage_tables.clicks", "2026-01-01T02Z", "10 rows", "9"),
    ]
    repaired(damaged, anomalies, "repair")


@pytest.mark.long
def test_a_ledger_row_that_is_revoked(damaged: Damaged):
    damaged.sql(
        "INSERT INTO sluice.ledger SELECT * REPLACE ('revoked' AS state, attempt + 1 AS attempt) "
        f"FROM sluice.ledger WHERE target = 'damage_tables.other' AND {at(1).replace('_slice', 'slice')} "
        "ORDER BY generation DESC, attempt DESC LIMIT 1"
    )
    anomalies = damaged.verify()
    assert found(anomalies, "kind", "table", "slice") == [
        ("incomplete", "", "2026-01-01T01Z"),
        ("uncovered rows", "damage_tables.other", "2026-01-01T01Z"),
    ]
    repaired(damaged, anomalies, "fill")


@pytest.mark.parametrize(
    ("when", "cluster"),
    [("2031-01-01 00:00:00", "dc1"), ("2026-01-01 01:00:00", "dc9"), ("2026-01-01 00:20:00", "dc1")],
)
@pytest.mark.long
def test_rows_of_no_slice_are_for_a_person_to_judge(damaged: Damaged, when: str, cluster: str):
    damaged.sql(
        f"INSERT INTO {{db}}.other SELECT 'view', '', toDateTime('{when}', 'UTC'), '{cluster}' "
        "FROM numbers(2)"
    )
    anomalies = damaged.verify()
    assert found(anomalies, "kind", "table", "cluster", "seen", "command") == [
        ("uncovered rows", "damage_tables.other", cluster, "2 rows", "")
    ]
    advice = anomalies[0]["advice"]
    damaged.sql(advice[advice.index("DELETE FROM") :])
    assert damaged.verify() == []


@pytest.mark.parametrize(
    "damage",
    per_commit(
        [
            "DROP VIEW sluice.`damage_tables.clicks`",
            "CREATE OR REPLACE VIEW sluice.`damage_tables.clicks` AS "
            "SELECT * FROM damage_tables.clicks WHERE 0",
            "CREATE OR REPLACE VIEW sluice.`damage_tables.clicks` AS SELECT * FROM damage_tables.clicks",
        ]
    ),
)
@pytest.mark.long
def test_the_readers_view(damaged: Damaged, damage: str):
    """The next load of any slice makes it again."""
    rows = damaged.sql("SELECT * FROM sluice.`damage_tables.clicks` ORDER BY ALL")
    damaged.sql(damage)
    anomalies = damaged.verify()
    assert found(anomalies, "kind", "table", "seen") == [
        ("readers' view", "damage_tables.clicks", "another one, or none")
    ]
    repaired(damaged, anomalies, "repair")
    assert damaged.sql("SELECT * FROM sluice.`damage_tables.clicks` ORDER BY ALL") == rows != []


@pytest.mark.long
def test_rejected_rows_that_no_ledger_row_covers(damaged: Damaged):
    damaged.sql(
        "INSERT INTO sluice.rejected SELECT * REPLACE ('dc9' AS cluster) FROM sluice.rejected "
        "WHERE target = 'damage_tables.clicks'"
    )
    anomalies = damaged.verify()
    assert found(anomalies, "kind", "table", "cluster") == [("uncovered rows", "sluice.rejected", "dc9")]
    advice = anomalies[0]["advice"]
    damaged.sql(advice[advice.index("DELETE FROM") :])
    assert damaged.verify() == []


@pytest.mark.parametrize(
    ("damage", "table", "hour", "kind"),
    per_commit(
        [
            (f"DELETE FROM {{db}}.`{{inner}}` WHERE {at(1)} AND _partition = 1", "sums", 1, "view"),
            (
                f"INSERT INTO {{db}}.`{{inner}}` SELECT * FROM {{db}}.`{{inner}}` WHERE {at(2)}",
                "sums",
                2,
                "values differ",
            ),
            (f"DELETE FROM {{db}}.`{{inner}}` WHERE {at(3)} AND n = 21", "large", 3, "view"),
            (f"DELETE FROM {{db}}.`{{inner}}` WHERE {at(0)}", "large", 0, "view"),
            # The last bit of one floating point number.
            (
                "ALTER TABLE {db}.`{inner}` UPDATE third = "
                "reinterpretAsFloat64(reinterpretAsUInt64(third) + 1) "
                f"WHERE {at(1)} AND n = 20 SETTINGS mutations_sync = 2",
                "thirds",
                1,
                "values differ",
            ),
        ]
    ),
)
@pytest.mark.long
def test_the_table_of_a_view(damaged: Damaged, damage: str, table: str, hour: int, kind: str):
    """What leaves as many rows is found by their values."""
    [(uuid,)] = damaged.sql(
        f"SELECT toString(uuid) FROM system.tables WHERE database = '{{db}}' AND name = '{table}'"
    )
    damaged.sql(damage.replace("{inner}", f".inner_id.{uuid}"))
    counted = damaged.verify()
    anomalies = counted if kind == "view" else damaged.verify("--contents")
    assert found(anomalies, "kind", "table", "slice") == [
        (kind, f"damage_tables.{table}", damaged.slice_id(hour))
    ]
    assert anomalies is counted or counted == []
    repaired(damaged, anomalies, "repair")
