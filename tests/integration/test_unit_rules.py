"""A load that isn't a change of rules fills the columns by the rules of the unit's last load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sluice import crash_points
from sluice.clients.lake import layout
from sluice.config.pipeline import Pipeline
from sluice.crash_points import TableLoad
from sluice.errors import TargetRefused
from sluice.manifest import encode
from sluice.state.rules import FOLDER
from tests.integration.landed import World, client_of, event, land, unit

pytestmark = pytest.mark.integration

OLD = [event(passenger=f"p{n}") for n in range(5)]
NAMED_OLD = [(f"p{n}",) for n in range(5)]
NAMED_NEW = [("",)] * 5


class Killed(BaseException):
    pass


@pytest.fixture
def world(name: str, tmp_path, clickhouse_server) -> Iterator[World]:
    client = client_of(clickhouse_server)
    client.run(f"CREATE DATABASE {name}")
    client.run(
        f"CREATE TABLE {name}.rides (rider String, _slice DateTime('UTC'), _cluster String) "
        "ENGINE = MergeTree ORDER BY rider"
    )
    yield World(tmp_path, client, name)
    client.run(f"DROP DATABASE {name} SYNC")


def by(world: World, field: str) -> Pipeline:
    return world.pipeline({"click": {"table": "rides", "columns": {"rider": field}}})


def rows(world: World) -> list[tuple]:
    return world.sql("SELECT rider FROM {db}.rides ORDER BY ALL")


def amended(world: World) -> None:
    """The next manifest of the unit, as an erasure writes it: another generation of the same rows."""
    before = land(world.lake, unit(), OLD)
    after = replace(before, generation=2, attempt="e", amends=(before.id,))
    world.lake.put(layout.manifest(unit().slice.id, "dc1"), encode(before))
    world.load(by(world, "passenger"), unit())
    world.lake.put(layout.manifest(unit().slice.id, "dc1"), encode(after))


def test_a_repair_keeps_the_rules_and_a_reload_changes_them(world: World):
    land(world.lake, unit(), OLD)
    world.load(by(world, "passenger"), unit())
    world.client.run(
        f"ALTER TABLE {world.database}.rides DELETE WHERE rider = 'p3' SETTINGS mutations_sync = 2"
    )
    world.load(by(world, "person"), unit(), mode="repair")
    assert rows(world) == NAMED_OLD
    world.load(by(world, "person"), unit(), mode="reload")
    assert rows(world) == NAMED_NEW
    world.load(by(world, "passenger"), unit(), mode="repair")
    assert rows(world) == NAMED_NEW


def test_a_fill_of_a_manifest_that_amends_the_loaded_one_keeps_the_rules(world: World):
    amended(world)
    [loaded] = world.load(by(world, "person"), unit()).loaded
    assert loaded.rows == 5
    assert rows(world) == NAMED_OLD


def test_a_fill_of_a_unit_that_was_landed_again_takes_the_file(world: World):
    land(world.lake, unit(), OLD)
    world.load(by(world, "passenger"), unit())
    land(world.lake, unit(), OLD, generation=2)
    world.load(by(world, "person"), unit())
    assert rows(world) == NAMED_NEW


@pytest.mark.parametrize(
    ("mode", "found"), [("reload", NAMED_NEW), ("repair", NAMED_OLD), ("fill", NAMED_OLD)]
)
def test_a_load_that_was_killed_after_its_revocation_goes_on_by_the_same_rules(
    world: World, monkeypatch: pytest.MonkeyPatch, mode: str, found: list
):
    amended(world)

    def kill(point) -> None:
        if point is TableLoad.DELETED:
            raise Killed

    monkeypatch.setattr(crash_points, "reached", kill)
    with pytest.raises(Killed):
        world.load(by(world, "person"), unit(), mode=mode)
    monkeypatch.undo()
    assert rows(world) == []
    world.load(by(world, "other"), unit())
    assert rows(world) == found


def test_a_column_that_the_table_lost_is_left_out(world: World):
    columns = {"rider": "passenger", "extra": "passenger"}
    world.client.run(f"ALTER TABLE {world.database}.rides ADD COLUMN extra String")
    land(world.lake, unit(), OLD)
    world.load(world.pipeline({"click": {"table": "rides", "columns": columns}}), unit())
    world.client.run(f"ALTER TABLE {world.database}.rides DROP COLUMN extra SETTINGS mutations_sync = 2")
    world.load(by(world, "person"), unit(), mode="repair")
    assert rows(world) == NAMED_OLD


def test_rules_that_the_lake_lost_are_not_guessed(world: World):
    land(world.lake, unit(), OLD)
    world.load(by(world, "passenger"), unit())
    for item in world.lake.list(FOLDER):
        world.lake.delete([item.key])
    with pytest.raises(TargetRefused, match="has no rules .* `--mode reload`"):
        world.load(by(world, "passenger"), unit(), mode="repair")
    assert rows(world) == NAMED_OLD
    world.load(by(world, "person"), unit(), mode="reload")
    assert rows(world) == NAMED_NEW
