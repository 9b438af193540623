"""Tables with a TTL, and tables that are gone: verify tells every loss that it can know of."""

from __future__ import annotations

import json

import pytest

from tests.faults.damage import Damaged
from tests.integration.landed import client_of
from tests.support.landing_world import START
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults


@pytest.fixture
def damaged(clickhouse_server, monkeypatch, capsys, tmp_path, name: str) -> Damaged:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    return Damaged(tmp_path, client_of(clickhouse_server), name, monkeypatch, capsys)


def at(hour: int) -> str:
    return f"_slice = toDateTime({int(START.add(hours=hour).timestamp())}, 'UTC')"


@pytest.mark.parametrize(
    "ttl",
    per_commit(
        [
            "_slice + INTERVAL 1 DAY TO DISK 'default'",
            "_slice + INTERVAL 1 DAY RECOMPRESS CODEC(ZSTD(3))",
            "_slice + INTERVAL 1 DAY TO VOLUME 'default', _slice + INTERVAL 50 YEAR DELETE WHERE n > 3",
            "_slice + INTERVAL 50 YEAR",
        ]
    ),
)
@pytest.mark.long
def test_rows_that_no_ttl_can_have_deleted(damaged: Damaged, ttl: str):
    """By their age the rows are moved or compressed anew, but none is deleted."""
    damaged.make()
    damaged.sql(f"ALTER TABLE {{db}}.clicks MODIFY TTL {ttl}")
    damaged.sql(f"DELETE FROM {{db}}.clicks WHERE {at(2)} AND _partition + _offset > 11")
    [(left,)] = damaged.sql(f"SELECT count() FROM {{db}}.clicks WHERE {at(2)}")
    assert left < 9
    anomalies = [a for a in damaged.verify() if a["kind"] == "rows missing"]
    assert {(a["slice"], a["expected"], a["seen"]) for a in anomalies} == {
        (damaged.slice_id(2), "9 rows", str(left))
    }


@pytest.mark.parametrize(("age", "expired"), per_commit([("1 DAY", True), ("50 YEAR", False)]))
@pytest.mark.long
def test_a_ttl_that_adds_rows_up(damaged: Damaged, age: str, expired: bool):
    """What has expired is compared with nothing; of the rest every value is."""
    damaged.make()
    damaged.sql(
        f"ALTER TABLE {{db}}.clicks MODIFY TTL _slice + INTERVAL {age} "
        "GROUP BY _slice, _partition SET n = max(n), _offset = min(_offset)"
    )
    damaged.sql("OPTIMIZE TABLE {db}.clicks FINAL")
    [(left,)] = damaged.sql("SELECT count() FROM {db}.clicks")
    assert left == (12 if expired else 35)  # a row of each hour and partition, or all clicks
    assert damaged.verify("--contents") == []
    damaged.sql(f"ALTER TABLE {{db}}.clicks UPDATE n = n + 1 WHERE {at(2)} SETTINGS mutations_sync = 2")
    found = [(a["kind"], a["slice"]) for a in damaged.verify("--contents") if a["kind"] != "view"]
    assert set(found) == (set() if expired else {("values differ", damaged.slice_id(2))})


@pytest.mark.long
def test_a_ttl_that_reads_other_columns_is_said(damaged: Damaged):
    damaged.make()
    damaged.sql("ALTER TABLE {db}.clicks MODIFY TTL _slice + toIntervalYear(n + 50)")
    assert damaged.verify() == []
    damaged.sql(f"DELETE FROM {{db}}.clicks WHERE {at(2)} AND _partition = 1")
    words = f"sluice verify ads --config {damaged.config}"
    code, out = damaged.command(f"{words} --verbose")
    assert code == 0
    assert [text for text in out.splitlines() if "TTL" in text] == [
        f"table {damaged.database}.clicks: missing rows of 4 slices are not reported, because its TTL "
        f"deletes rows; `{words} --contents` compares those that cannot have expired"
    ]


@pytest.mark.long
def test_status_tells_of_a_table_that_is_gone(damaged: Damaged):
    damaged.make()
    words = f"sluice status ads --config {damaged.config} --from 2026-01-01T00Z --to 2026-01-01T04Z"
    assert "missing_tables" not in json.loads(damaged.command(f"{words} --json")[1])
    damaged.sql("RENAME TABLE {db}.other TO {db}.away")
    told = json.loads(damaged.command(f"{words} --json")[1])["missing_tables"]
    assert list(told) == [f"{damaged.database}.other"]
    assert told[f"{damaged.database}.other"].startswith("create it as it was: CREATE TABLE IF NOT EXISTS ")
    assert (
        f"{damaged.database}.other: there is no such table; create it as it was" in damaged.command(words)[1]
    )


@pytest.mark.long
def test_a_missing_table_does_not_hide_the_losses_of_others(damaged: Damaged):
    damaged.make()
    [(definition,)] = damaged.sql(
        "SELECT create_table_query FROM system.tables WHERE database = '{db}' AND name = 'other'"
    )
    damaged.sql("DROP TABLE {db}.other SYNC")
    damaged.sql(f"DELETE FROM {{db}}.clicks WHERE {at(1)} AND _partition = 2")
    anomalies = damaged.verify()
    assert {(a["kind"], a["table"], a["slice"]) for a in anomalies} == {
        ("table missing", f"{damaged.database}.other", ""),
        ("rows missing", f"{damaged.database}.clicks", damaged.slice_id(1)),
    }
    assert {a["command"] for a in anomalies} == {""}  # no run starts while it is missing
    missing = next(a for a in anomalies if a["kind"] == "table missing")
    damaged.sql(missing["advice"].removeprefix("create it as it was: ").partition("; then: ")[0])
    [again] = damaged.sql(
        "SELECT create_table_query FROM system.tables WHERE database = '{db}' AND name = 'other'"
    )
    assert again == (definition,)
    later = [a["advice"].rpartition(": ")[2] for a in anomalies]
    assert {line.partition(" --mode ")[2].partition(" ")[0] for line in later} == {"fill", "repair"}
    for line in sorted(later, key=lambda line: "repair" not in line):
        assert damaged.command(line)[0] == 0, line
    assert damaged.verify() == []
    assert damaged.sql("SELECT count() FROM {db}.clicks") == [(35,)]
    assert damaged.sql("SELECT count() FROM {db}.other") == [(24,)]
