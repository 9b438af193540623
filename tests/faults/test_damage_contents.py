"""Damage that keeps every count: `verify --contents` finds its place, and the printed command repairs it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.errors import Conservation
from sluice.flow.contents.sampling import choose
from sluice.flow.load.fencing import fences, stagings
from sluice.flow.steps import verify_range
from sluice.flow.verify.verdict import read_verdict
from sluice.slices import Slice, Unit
from tests.faults.damage import REJECTED_RECORDS_HOUR, REJECTED_ROW_HOUR, Damaged
from tests.integration.landed import client_of
from tests.support.landing_world import START, hours
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

Rows = list[dict[str, Any]]


def at(hour: int) -> str:
    return f"_slice = toDateTime({int(START.add(hours=hour).timestamp())}, 'UTC')"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict:
    return {"folder": tmp_path_factory.mktemp("damage"), "made": False}


@pytest.fixture
def damaged(built, clickhouse_server, monkeypatch, capsys) -> Damaged:
    """Made once; every test leaves it as it found it, and says so by verifying."""
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    world = Damaged(built["folder"], client_of(clickhouse_server), "damage_contents", monkeypatch, capsys)
    if not built["made"]:
        world.make()
        built["made"] = True
    return world


def found(anomalies: list[dict], *fields: str) -> list[tuple]:
    return [tuple(anomaly[name] for name in fields) for anomaly in anomalies]


def repaired(damaged: Damaged, anomalies: list[dict], mode: str) -> None:
    assert all(f"--mode {mode}" in anomaly["command"] for anomaly in anomalies), anomalies
    damaged.repair(anomalies)
    assert damaged.verify("--contents") == []


def change(damaged: Damaged, what: str) -> None:
    damaged.sql(f"ALTER TABLE {what} SETTINGS mutations_sync = 2")


@pytest.mark.long
def test_what_is_whole_has_no_anomaly(damaged: Damaged):
    assert damaged.verify("--contents") == []
    code, out = damaged.command(f"sluice verify ads --config {damaged.config} --contents")
    # 61 records, of which one is rejected: in the lake, and once in a table or in sluice.rejected.
    assert (code, "rows_compared: 120," in out) == (0, True), out
    # Of these targets alone: a server of the tests keeps what other tests' refused loads have left.
    targets = ("damage_contents.clicks", "damage_contents.other")
    own = tuple(prefix(target) for target in targets for prefix in (fences, stagings))
    names = damaged.sql("SELECT name FROM system.tables WHERE database = 'sluice'")
    assert [name for (name,) in names if name.startswith(own)] == []


@pytest.mark.long
def test_an_updated_value(damaged: Damaged):
    change(damaged, f"{{db}}.clicks UPDATE n = n + 1 WHERE {at(2)} AND _partition = 1 AND _offset = 11")
    assert [a for a in damaged.verify() if a["kind"] != "view"] == []
    anomalies = [a for a in damaged.verify("--contents") if a["kind"] != "view"]
    assert found(anomalies, "kind", "table", "slice", "topic", "partition", "offsets", "seen") == [
        (
            "values differ",
            "damage_contents.clicks",
            "2026-01-01T02Z",
            "bids",
            1,
            [11, 12],
            "9 rows, other values in n; records 11",
        )
    ]
    repaired(damaged, anomalies, "repair")


@pytest.mark.long
def test_two_rows_that_have_swapped_their_values(damaged: Damaged):
    change(damaged, f"{{db}}.clicks UPDATE n = 21 - n WHERE {at(3)} AND n IN (10, 11)")
    [anomaly] = [a for a in damaged.verify("--contents") if a["kind"] != "view"]
    assert (anomaly["kind"], anomaly["partition"], anomaly["offsets"]) == ("values differ", 1, [16, 18])
    assert anomaly["seen"] == "9 rows, other values in n; records 16, 17"
    repaired(damaged, [anomaly], "repair")


@pytest.mark.long
def test_a_payload_of_another_type_in_a_table_of_many(damaged: Damaged):
    """The table has no records: hour, type and counts are right."""
    [(payload,)] = damaged.sql(f"SELECT any(_payload) FROM {{db}}.other WHERE {at(1)} AND _type = 'view'")
    change(damaged, f"{{db}}.other UPDATE _payload = '{payload}' WHERE {at(1)} AND _type = 'scroll'")
    assert damaged.verify() == []
    anomalies = damaged.verify("--contents")
    assert found(anomalies, "kind", "table", "slice", "seen") == [
        ("values differ", "damage_contents.other", "2026-01-01T01Z", "6 rows, other values in _payload")
    ]
    repaired(damaged, anomalies, "repair")


@pytest.mark.long
def test_a_row_in_the_wrong_table(damaged: Damaged):
    """A click lies where a view should: every count but the one by type holds, so that is changed, too."""
    change(
        damaged,
        f"{{db}}.other UPDATE _payload = replace(_payload, 'view', 'click') WHERE {at(0)} AND _type = 'view'",
    )
    anomalies = damaged.verify("--contents")
    assert found(anomalies, "kind", "table", "slice") == [
        ("values differ", "damage_contents.other", "2026-01-01T00Z")
    ]
    repaired(damaged, anomalies, "repair")


@pytest.mark.long
def test_a_rejected_row_with_another_payload(damaged: Damaged):
    change(damaged, "sluice.rejected UPDATE payload = '{}' WHERE target = 'damage_contents.clicks'")
    assert damaged.verify() == []
    anomalies = damaged.verify("--contents")
    assert found(anomalies, "kind", "table", "slice", "seen") == [
        (
            "rejected rows differ",
            "damage_contents.clicks",
            damaged.slice_id(REJECTED_ROW_HOUR),
            "1 in sluice.rejected, other ones",
        )
    ]
    repaired(damaged, anomalies, "repair")


def edit(damaged: Damaged, hour: int, name: str, alter: Callable[[Rows], None]) -> str:
    """Alters the rows of an hour's file of one type; the manifest has the right size and checksum after."""
    manifest = damaged.manifest(hour)
    file = next(file for file in manifest.all_files if file.type == name or (not name and not file.hour))
    path = damaged.root / file.key
    table = pq.read_table(path)
    rows = table.to_pylist()
    alter(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    data = path.read_bytes()

    def put(content: dict) -> None:
        for one in (*content["files"], *content["rejected"]):
            if one["key"] == file.key:
                one.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())

    damaged.edit(damaged.manifest_path(hour), put)
    return file.key


def set_all(**values: Any) -> Callable[[Rows], None]:
    return lambda rows: [row.update(values) for row in rows[:1]]


def swap_payloads(damaged: Damaged) -> str:
    """Of the last click and the first view of the hour: each is in the other's place."""
    taken: dict[str, Any] = {}

    def take(rows: Rows) -> None:
        taken["view"] = rows[0]["_payload"]

    def put(rows: Rows) -> None:
        taken["click"], rows[-1]["_payload"] = rows[-1]["_payload"], taken["view"]

    edit(damaged, 2, "view", take)
    key = edit(damaged, 2, "click", put)
    edit(damaged, 2, "view", lambda rows: rows[0].update(_payload=taken["click"]))
    return key


CLICK_AT = '{"type":"click","at":"2026-01-01T05:00:00+00:00","n":"1"}'
LAKE_DAMAGE = {
    "type": (
        "click",
        set_all(_type="view"),
        "wrong type",
        "type 'click', by its payload",
        "_type 'view' in the",
    ),
    "hour": (
        "click",
        set_all(_payload=CLICK_AT),
        "wrong event hour",
        "event hour 2026-01-01T05, by its payload",
        "2026-01-01T02; so in 1 rows",
    ),
    "twice": ("click", set_all(_offset=11), "wrong identity", "each record once", "1 more"),
}


@pytest.mark.parametrize("point", per_commit(LAKE_DAMAGE))
@pytest.mark.long
def test_a_row_of_the_lake(damaged: Damaged, point: str):
    name, alter, kind, expected, seen = LAKE_DAMAGE[point]
    edit(damaged, 2, name, alter)
    assert damaged.verify("--checksums") == []
    anomalies = damaged.verify("--contents")
    mine = [a for a in anomalies if a["kind"] == kind and a["expected"] == expected]
    assert mine and mine[0]["slice"] == "2026-01-01T02Z", anomalies
    assert mine[0]["seen"].startswith(seen), mine
    repaired(damaged, [a for a in anomalies if "reland" in a["command"]], "reland")


@pytest.mark.long
def test_two_payloads_swapped_in_the_lake(damaged: Damaged):
    key = swap_payloads(damaged)
    assert damaged.verify("--checksums") == []
    anomalies = damaged.verify("--contents")
    assert ("wrong type", key, "type 'view', by its payload") in found(anomalies, "kind", "file", "expected")
    # The tables were loaded before, and those of the views: their values are others than the lake's now.
    names = ("clicks", "other", "large", "sums", "thirds")
    assert {a["table"] for a in anomalies if a["kind"] == "values differ"} == {
        f"damage_contents.{name}" for name in names
    }
    repaired(damaged, [a for a in anomalies if "reland" in a["command"]], "reland")


@pytest.mark.long
def test_an_event_hour_in_another_folder(damaged: Damaged):
    """The file lies, and is named, under another hour."""
    old = next(file for file in damaged.manifest(1).files if file.type == "view")
    key = old.key.replace("hour=01", "hour=09")
    (damaged.root / key).parent.mkdir(parents=True)
    (damaged.root / old.key).rename(damaged.root / key)

    def put(content: dict) -> None:
        [file] = [file for file in content["files"] if file["key"] == old.key]
        file.update(key=key, hour="2026-01-01T09")

    damaged.edit(damaged.manifest_path(1), put)
    assert damaged.verify() == []
    anomalies = damaged.verify("--contents")
    assert found(anomalies, "kind", "file", "expected", "seen") == [
        (
            "wrong event hour",
            key,
            "event hour 2026-01-01T01, by its payload",
            "2026-01-01T09; so in 3 rows of the file",
        )
    ]
    repaired(damaged, anomalies, "reland")


@pytest.mark.long
def test_a_rejected_record_with_another_reason(damaged: Damaged):
    edit(damaged, REJECTED_RECORDS_HOUR, "", set_all(_reason="no type"))
    anomalies = damaged.verify("--contents")
    assert found(anomalies, "kind", "expected", "seen") == [
        ("wrong identity", "0 rejected as 'no type'", "1"),
        ("wrong identity", "1 rejected as 'not JSON'", "0"),
    ]
    repaired(damaged, anomalies, "reland")


def click_is_looked_at(damaged: Damaged, hour: int) -> bool:
    unit = Unit(Slice(START.add(hours=hour)), "dc1")
    return any(chosen.file.type == "click" for chosen in choose([(unit, damaged.manifest(hour))]))


@pytest.fixture
def plain(clickhouse_server, monkeypatch, capsys, tmp_path, name: str) -> Damaged:
    """Without views, which would tell that their source is another."""
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    world = Damaged(tmp_path, client_of(clickhouse_server), name, monkeypatch, capsys)
    world.make()
    for view in ("sums", "large", "thirds", "means"):
        world.sql(f"DROP TABLE {{db}}.{view} SYNC")
    return world


@pytest.mark.long
def test_a_run_looks_at_other_files_in_each_landing(plain: Damaged):
    """One value of every click is wrong: a run sees it as soon as it looks at a file of clicks."""
    damaged = plain
    hour = hours(1, 3)
    edges = f"--from {hour.start:%Y-%m-%dT%H:%MZ} --to {hour.end:%Y-%m-%dT%H:%MZ}"
    line = f"sluice run ads --config {damaged.config} {edges} --mode reland"
    for _ in range(30):
        if click_is_looked_at(damaged, 3):
            break
        assert damaged.command(line)[0] == 0
    change(damaged, f"{{db}}.clicks UPDATE n = n + 1 WHERE {at(3)}")
    with pytest.raises(Conservation, match=r"values differ.*9 rows, other values in n"):
        verify_range(damaged.pipeline, hour)
    # It stays open until the rows have been compared again: a count cannot take it back.
    assert {one.kind for one in read_verdict(damaged.lake).anomalies} == {"values differ"}
    assert damaged.verify() == []
    assert {one.kind for one in read_verdict(damaged.lake).anomalies} == {"values differ"}
    assert damaged.command(line.replace("reland", "reload"))[0] == 0
    assert read_verdict(damaged.lake).anomalies == ()
    assert damaged.verify("--contents") == []
