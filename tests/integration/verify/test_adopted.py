"""A table that had rows before Sluice: they stay, whatever is done, and no verify takes them for damage."""

from __future__ import annotations

import pytest

from sluice.flow.verify.audit import AuditScope, audit
from sluice.slices import SliceRange
from tests.integration.landed import World, client_of, event, land, unit

pytestmark = pytest.mark.integration

OLD = [(n, "old") for n in range(7)]


@pytest.fixture
def world(clickhouse_server, tmp_path, name, monkeypatch) -> World:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    found = World(tmp_path, client_of(clickhouse_server), name)
    found.sql("CREATE DATABASE {db} ENGINE = Atomic")
    found.sql("CREATE TABLE {db}.clicks (n UInt16, by String) ENGINE = MergeTree ORDER BY n")
    found.sql("INSERT INTO {db}.clicks SELECT number, 'old' FROM numbers(7)")
    found.sql(
        "ALTER TABLE {db}.clicks ADD COLUMN _slice DateTime('UTC'), "
        "ADD COLUMN _cluster LowCardinality(String)"
    )
    return found


def test_rows_of_before_stay_and_are_no_anomaly(world: World):
    pipeline = world.pipeline({"click": "clicks"})
    for mode in ("fill", "reload", "repair"):
        land(world.lake, unit(), [event(n=n, by="new") for n in range(5)]) if mode == "fill" else None
        world.load(pipeline, unit(), mode=mode)
        rows = world.sql("SELECT n, by FROM {db}.clicks ORDER BY by DESC, n")
        assert rows == [*OLD, *((n, "new") for n in range(5))], mode
    hour = unit().slice
    found = audit(pipeline, SliceRange(hour.start, hour.end), AuditScope(whole=True, contents=True))
    assert [str(one) for one in found.anomalies if one.table] == []
    [said] = [line for line in found.notes if "before Sluice" in line]
    assert said.startswith(f"table {world.database}.clicks: 7 rows without `_cluster` were there before")
    world.sql("INSERT INTO {db}.clicks SELECT 9, 'else', toDateTime(0, 'UTC'), 'dc1'")
    found = audit(pipeline, SliceRange(hour.start, hour.end), AuditScope(whole=True))
    assert [one.kind for one in found.anomalies if one.table] == ["uncovered rows"], "a cluster is named"
