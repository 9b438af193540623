"""A month in which every third day adds a field, one renames a field and one changes a kind, day by day."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from sluice.slices import SliceRange, Unit, to_ms
from sluice.state.additions import read_additions
from sluice.state.field_changes import ChangeKind, changes_of
from tests.integration.landed import World, client_of
from tests.support.landing_world import START
from tests.support.landing_world import World as Landing

pytestmark = pytest.mark.integration

DAYS, ROWS, AT_LEAST = 30, 60, 10
LENGTH = timedelta(days=1)
RENAMED, RETYPED = 14, 20
VALUES: list[Any] = [7, "text", 2.5, True, [1, 2], {"a": 1}, "2026-01-05T10:00:00Z", -3, ["x"]]
ADDED = {f"added{day}": (day, VALUES[number % len(VALUES)]) for number, day in enumerate(range(3, DAYS, 3))}
KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"


def events_of(random: Random, day: int) -> Iterator[dict[str, Any]]:
    """Each added field is in two rows of the day before already: too few for a column."""
    for number in range(ROWS):
        event: dict[str, Any] = {"type": "click", "n": day * ROWS + number, "sum": number}
        event["customer" if day >= RENAMED else "buyer"] = f"b{number}"
        event["ref"] = number if day >= RETYPED else f"r{number}"
        for name, (since, value) in ADDED.items():
            if (day >= since and random.random() < 0.5) or (day == since - 1 and number < 2):
                event[name] = value
        yield event


def held(name: str, value: Any) -> Any:
    """What the column holds of a value: `ref` was a text when it got its column."""
    return str(value) if name == "ref" else value


@pytest.fixture
def world(clickhouse_server, tmp_path, name) -> Iterator[World]:
    made = World(tmp_path, client_of(clickhouse_server), name)
    made.sql("CREATE DATABASE {db}")
    yield made
    made.sql("DROP DATABASE {db} SYNC")


@pytest.mark.long
def test_every_value_that_ever_came_is_in_its_column(world: World):
    world.sql(f"CREATE TABLE {{db}}.clicks (n UInt64, {KEYS}) ENGINE = MergeTree ORDER BY n")
    target = {"table": "clicks", "evolve": "add", "evolve_rows": AT_LEAST}
    pipeline = world.pipeline({"click": target}, slice="1d")
    random = Random(22)
    events = [list(events_of(random, day)) for day in range(DAYS)]
    log = [
        (json.dumps(event).encode(), to_ms(START.add(days=day, seconds=number)))
        for day in range(DAYS)
        for number, event in enumerate(events[day])
    ]
    kafka = Landing({("dc1", "events"): [log]})
    month = SliceRange(START, START.add(days=DAYS), LENGTH)
    kafka.resolve(pipeline, world.lake, month)
    kafka.land(pipeline, world.lake, month)
    units = [Unit(piece, "dc1") for piece in month]
    for first in range(0, DAYS, 3):  # a field's first rows are loaded before the day that gives it a column
        world.load(pipeline, *units[first : first + 3])
    lacking = {(item["n"], name) for day in events for item in day for name in item} - filled(world)
    assert lacking == {((since - 1) * ROWS + k, name) for name, (since, _) in ADDED.items() for k in range(2)}

    again = world.load(pipeline, *units, mode="reload --missing-columns").loaded
    assert [loaded.unit for loaded in again] == [units[since - 1] for since, _ in ADDED.values()]
    expected = [{k: held(k, v) for k, v in item.items() if k != "type"} for day in events for item in day]
    assert rows(world) == expected
    assert world.sql("SELECT count() FROM sluice.rejected WHERE target = '{db}.clicks'") == [(0,)]
    assert world.load(pipeline, *units, mode="reload --missing-columns").loaded == ()

    added = {one.column: one for one in read_additions(world.lake)}
    assert added.keys() == {*ADDED, "sum", "buyer", "customer", "ref"}
    assert all(added[name].slice >= units[since].slice.id for name, (since, _) in ADDED.items())
    changes = {(c.change.kind, c.change.field): c for c in changes_of(world.lake, units[3:], {}, pytest.fail)}
    renamed = changes[ChangeKind.RENAMED, "buyer"]
    assert (renamed.unit, renamed.change.likely) == (units[RENAMED], "customer")
    assert changes[ChangeKind.KIND, "ref"].unit == units[RETYPED]
    new = {name for kind, name in changes if kind is ChangeKind.NEW}
    assert new == set(ADDED)


def rows(world: World) -> list[dict[str, Any]]:
    """The rows as events: without what is NULL or empty."""
    names = [row[0] for row in world.client.rows(f"DESCRIBE {world.database}.clicks")]
    own = [name for name in names if not name.startswith("_")]
    text = ", ".join(
        f"formatDateTime({n}, '%Y-%m-%dT%H:%i:%SZ') AS {n}" if n == "added21" else n for n in own
    )
    found = world.sql(f"SELECT {text} FROM {{db}}.clicks ORDER BY n")
    return [
        {name: plain(value) for name, value in zip(own, row, strict=True) if plain(value) not in (None, [])}
        for row in found
    ]


def plain(value: Any) -> Any:
    """A Tuple of nothing but NULL is a missing object."""
    if isinstance(value, dict):
        return None if set(value.values()) == {None} else value
    return list(value) if isinstance(value, tuple | list) else value


def filled(world: World) -> set[tuple[int, str]]:
    return {(row["n"], name) for row in rows(world) for name in [*row, "type"]}
