"""A table that was taken out of the pipeline file: its rows stay, and Sluice knows of them."""

from __future__ import annotations

import pytest

from sluice.doctor.check import Level
from sluice.doctor.clickhouse import clickhouse_checks
from sluice.flow.verify.audit import audit
from sluice.slices import SliceRange
from sluice.state.departed_tables import DepartedTable, departed_tables
from tests.integration.landed import START, World, client_of, event, land, unit

pytestmark = pytest.mark.integration

KEYS = "n UInt16, _slice DateTime('UTC'), _cluster String"


@pytest.fixture
def world(clickhouse_server, tmp_path, name: str, monkeypatch) -> World:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    found = World(tmp_path, client_of(clickhouse_server), name)
    found.sql("CREATE DATABASE {db}")
    for table in ("clicks", "views"):
        found.sql(f"CREATE TABLE {{db}}.{table} ({KEYS}) ENGINE = MergeTree ORDER BY _slice")
    return found


@pytest.mark.long
def test_a_table_that_left_the_file_is_known_by_its_rows(world: World) -> None:
    both = world.pipeline({"click": "clicks", "view": "views"})
    for hour in range(2):
        land(world.lake, unit(hour), [event("click", n=1), event("view", n=2), event("view", n="x")])
        for table in ("clicks", "views"):
            world.load(both, unit(hour), table=table)
    one, url = world.pipeline({"click": "clicks"}), world.lake.url
    assert departed_tables([world.client], both, url) == ()
    left = DepartedTable(f"{world.database}.views", units=2, rows=2, rejected_rows=2)
    assert departed_tables([world.client], one, url) == (left,)
    assert departed_tables([world.client], one, f"{url}-of-another") == ()
    said = f"table {left.name} has 2 rows and 2 rejected rows of this pipeline and is no longer in the file"
    notes = audit(one, SliceRange(START, START.add(hours=2))).notes
    assert [note for note in notes if said in note] == [f"{said}: {left.remedy}"]
    checks = clickhouse_checks(world.client, one, url)
    assert [(c.place, c.finding) for c in checks if c.level is Level.WARN and "longer" in c.finding] == [
        (left.name, said)
    ]
    assert not [note for note in audit(both, SliceRange(START, START.add(hours=2))).notes if said in note]
    world.sql("DROP TABLE {db}.views SYNC")
    assert departed_tables([world.client], one, url) == ()
