"""The pipeline file has changed since an hour landed: an erasure of it changes nobody else's rows."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.crash_points import TableLoad
from sluice.flow.contents.compare import auditor
from sluice.flow.steps import load_table
from sluice.flow.verify.audit import AuditScope, audit
from sluice.state.manifests import read_manifests, units_in
from tests.integration.landed import client_of
from tests.integration.test_erase import Killed, of_person
from tests.support.erase_world import PERSON, SLICES, EraseWorld
from tests.support.landing_world import START, hours

pytestmark = pytest.mark.integration
TABLES = ("clicks", "other", "traffic")


@pytest.fixture
def world(start_clickhouse_server, name: str, tmp_path, monkeypatch) -> EraseWorld:
    server = start_clickhouse_server()
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", server.at.variable)
    found = EraseWorld.made(tmp_path, client_of(server), name)
    found.variable = server.at.variable
    return found


def rows(world: EraseWorld) -> dict[str, list[tuple]]:
    return {table: world.rows(table) for table in TABLES}


def without_person(before: dict[str, list[tuple]]) -> dict[str, list[tuple]]:
    return {table: [row for row in rows if row not in of_person(rows)] for table, rows in before.items()}


def sound(world: EraseWorld) -> None:
    found, anomalies, *_ = audit(world.pipeline(), SLICES, AuditScope(whole=True, checksums=True))
    compared = auditor(world.pipeline()).whole(found)
    assert (anomalies, compared.anomalies, compared.busy) == ([], [], [])


def test_the_time_field_was_renamed_since(world: EraseWorld) -> None:
    """A remake would reject everybody: no event of an older hour has the field of now."""
    world.begin()
    before, misfits = rows(world), world.misfits()
    world.more["event"] = {"type": {"field": "type"}, "time": {"field": "happened_at"}}
    receipt = world.erase(f"uid={PERSON}")
    assert rows(world) == without_person(before)
    assert world.misfits() == [row for row in misfits if row not in of_person(misfits)]
    assert receipt["erased"]["rows"] > 20 and receipt["left"] == []
    assert {m.generation for m in read_manifests(world.lake, units_in(world.lake, SLICES)).values()} == {2}
    sound(world)


@pytest.mark.parametrize("killed", [None, TableLoad.REVOKED, TableLoad.DELETED], ids=str)
def test_a_column_has_another_field_from_a_later_hour_on(killed: Any, world: EraseWorld, monkeypatch) -> None:
    """The documented way to follow a renamed field: the new name under `columns`, and a reload from then on.
    Also where the load after the erasure is killed when the rows of before are gone."""
    world.client.run(f"ALTER TABLE `{world.database}`.clicks ADD COLUMN rider String")
    clicks = {"table": f"{world.database}.clicks", "columns": {"rider": "uid"}}
    world.more["tables"] = {"click": clicks, "*": f"{world.database}.other"}
    world.begin()
    before = rows(world)
    clicks["columns"] = {"rider": "passenger"}
    load_table(world.pipeline(), clicks["table"], hours(1, first=2), "reload", "later", lambda _: None)
    older = [row for row in world.rows("clicks") if row[0] < START.add(hours=2).naive()]
    assert older and older == [row for row in before["clicks"] if row in older]
    assert all("user" in str(row) or PERSON in str(row) for row in older)

    def reached(one: Any) -> None:
        if one is killed:
            raise Killed

    if killed is not None:
        monkeypatch.setattr("sluice.crash_points.reached", reached)
        with pytest.raises(Killed):
            world.erase("uid=user-1")
        monkeypatch.undo()
        monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", world.variable)
    world.erase("uid=user-1")
    left = [row for row in world.rows("clicks") if row[0] < START.add(hours=2).naive()]
    assert left == [row for row in older if "user-1" not in row]
    assert 0 < len(left) < len(older)


def test_what_cannot_be_searched_is_said_and_a_table_that_left_the_file_is_named(world: EraseWorld) -> None:
    """0 rows matched is not erased: the value was hashed with a key that nobody has any more."""
    world.more["mask"] = {"uid": {"hash": "a key of long ago, 32 bytes long"}}
    world.begin()
    world.more["mask"] = {"uid": {"hash": "a key of now, also 32 bytes long"}}
    world.more["tables"] = {"click": f"{world.database}.clicks"}
    receipt = world.erase(f"uid={PERSON}")
    assert receipt["erased"]["rows"] == 0
    [line] = receipt["not_searchable"]
    assert line.startswith(
        "uid cannot be searched in 3 units, 2026-01-01T00Z/dc1 … 2026-01-01T02Z/dc1: it was"
    )
    assert f"not searchable: {line}" in receipt["left"]
    [table] = [line for line in receipt["left"] if line.startswith("table ")]
    rows = len(world.rows("other"))
    assert (
        f"table {world.database}.other is no longer in the pipeline file" in table and f"{rows} rows" in table
    )
    places = {place["place"]: place["searched"] for place in receipt["places"]}
    assert {"lake: events", "lake: _rejected", "lake: _counts", "lake: state", "tables"} <= places.keys()
    del world.more["mask"]
    assert world.erase("uid=user-1")["not_searchable"]
