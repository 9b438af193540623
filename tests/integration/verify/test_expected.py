"""The view of what is expected, over counts and commits that are written by hand."""

from __future__ import annotations

from collections.abc import Iterable

import pendulum
import pytest

from sluice.cli.traffic import TrafficHour, _read
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.sql import identifier
from sluice.config.counts import OF_VIEW, OWN, Counts
from sluice.config.pipeline import Pipeline
from sluice.flow.load.count_targets import create_expected
from sluice.slices import HOUR
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries, LogEntry
from sluice.state.system_tables import create_system_tables, create_view
from tests.integration.landed import START, World, client_of
from tests.support.statement_names import names

pytestmark = pytest.mark.integration

NEWEST, DAY = START.int_timestamp, 86_400
FIELDS = [name for name in names() if name not in (*OWN, *OF_VIEW)]


@pytest.fixture
def world(clickhouse_server, tmp_path, name) -> World:
    made = World(tmp_path, client_of(clickhouse_server), name)
    made.sql("CREATE DATABASE {db}")
    create_system_tables(made.client, "sluice verify made")
    yield made
    made.sql("DROP DATABASE {db} SYNC")


def make(world: World, fields: Iterable[str] = (), **more: object) -> Pipeline:
    """A pipeline and its table of counts."""
    columns = "".join(f", {identifier(name)} LowCardinality(Nullable(String))" for name in fields)
    world.sql(
        "CREATE TABLE {db}.traffic (hour DateTime('UTC'), type LowCardinality(String), count UInt64, "
        f"_slice DateTime('UTC'), _cluster LowCardinality(String){columns}) ENGINE = MergeTree ORDER BY hour"
    )
    counts = [{"table": f"{world.database}.traffic", "by": list(fields)}]
    return world.pipeline({"*": "other"}, counts=counts, **more)


def commit(world: World, at: int, cluster: str, rows: Iterable[tuple[object, ...]] = ()) -> None:
    """The hour of a cluster, with rows of the type `click`: how many, and the fields."""
    [(uuid,)] = world.sql("SELECT toString(uuid) FROM system.tables WHERE database = '{db}'")
    slice_ = f"toDateTime({at}, 'UTC')"
    world.sql(
        "INSERT INTO sluice.ledger (target, table_uuid, slice, cluster, generation, attempt, state) "
        f"VALUES ('{{db}}.traffic', '{uuid}', {slice_}, '{cluster}', 1, 1, 'committed')"
    )
    for count, *fields in rows:
        given = "".join(f", '{value}'" for value in fields)
        world.sql(
            f"INSERT INTO {{db}}.traffic VALUES ({slice_}, 'click', {count}, {slice_}, '{cluster}'{given})"
        )


def seen(world: World, pipeline: Pipeline, columns: str = "expected, seen, difference") -> list[tuple]:
    found = read_table(world.client, world.database, "traffic")
    assert found is not None
    create_view(world.client, found)
    create_expected(world.client, pipeline, world.lake, found)
    return world.sql(
        f"SELECT toUnixTimestamp(hour), {columns} FROM sluice.`{{db}}.traffic expected` ORDER BY ALL"
    )


def test_by_fields_of_any_name(world: World):
    pipeline = make(world, FIELDS)
    keys = [tuple(f"{name} {n}" for name in FIELDS) for n in range(2)]
    for back in (2, 1, 0):
        commit(world, NEWEST - back * DAY, "dc1", [(10 * n + back, *keys[n]) for n in range(2)])
    rows = seen(world, pipeline, f"{', '.join(map(identifier, FIELDS))}, expected, seen, difference")
    assert [row for row in rows if row[0] >= NEWEST] == [
        (NEWEST, *keys[0], 1.5, 0, 1.5),
        (NEWEST, *keys[1], 11.5, 10, 1.5),
        (NEWEST + DAY, *keys[0], 1, None, None),
        (NEWEST + DAY, *keys[1], 11, None, None),
    ]
    table = f"{world.database}.traffic"
    for name in ("at", "value"):
        read = _read(world.client, Counts(table=table, by={name: name}))
        assert read[-1] == TrafficHour(NEWEST + DAY, f"{name} 1", 11, None)
    assert _read(world.client, Counts(table=table))[-1] == TrafficHour(NEWEST + DAY, "", 12, None)


def clusters(**of_dc2: object) -> list[dict[str, object]]:
    known = {"bootstrap": "nowhere:1", "topics": ["events"]}
    return [{"cluster": "dc1", **known}, {"cluster": "dc2", **known, **of_dc2}]


def test_an_hour_that_one_cluster_lacks_is_unknown_and_expected_of_none(world: World):
    pipeline = make(world, kafka=clusters())
    for back, rows in ((2, {"dc1": 10, "dc2": 30}), (1, {"dc1": 12, "dc2": 30}), (0, {"dc1": 11})):
        for cluster, count in rows.items():
            commit(world, NEWEST - back * DAY, cluster, [(count,)])
    lacking = [(NEWEST - DAY, 40, 42, -2), (NEWEST, 41, None, None)]
    assert seen(world, pipeline) == lacking
    commit(world, NEWEST, "dc2", [(30,)])
    assert seen(world, pipeline)[-2:] == [(NEWEST, 41, 41, 0), (NEWEST + DAY, 41, None, None)]


@pytest.mark.parametrize("begins", ["by the file", "where it was first asked for", "never yet"])
def test_an_hour_waits_for_the_clusters_that_had_begun(world: World, begins: str):
    """The first cluster's hours alone are whole where the other had not begun, and only there."""
    now = pendulum.from_timestamp(NEWEST)
    start = {"start": now.isoformat()} if begins == "by the file" else {}
    pipeline = make(world, kafka=clusters(**start))
    asked = {"dc1": NEWEST - 2 * DAY}
    if begins == "where it was first asked for":
        asked["dc2"] = NEWEST
    if begins != "by the file":
        assert BoundaryLog(world.lake).append(Boundaries(), LogEntry(HOUR, (), asked=asked), now)
    commit(world, NEWEST - DAY, "dc1", [(10,)])
    commit(world, NEWEST, "dc1", [(10,)])
    whole = [(NEWEST, 10, 10, 0), (NEWEST + DAY, 10, None, None)]
    waits = [(NEWEST - DAY, None, 10, None), (NEWEST, 10, None, None)]
    assert seen(world, pipeline) == (whole if begins == "never yet" else waits)
    if begins != "never yet":
        commit(world, NEWEST, "dc2", [(30,)])
        assert seen(world, pipeline) == [(NEWEST, 10, 40, -30), (NEWEST + DAY, 25, None, None)]
