"""A table that takes the lake's own columns only has no value that could be a rejected row."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.errors import Conservation
from sluice.manifest import Manifest
from tests.integration.landed import World, client_of, event, land, unit
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

EVENTS = [event(n=n) for n in range(4)]
HELD = sorted(("click", one.payload, "dc1") for one in EVENTS)


@pytest.fixture
def world(name: str, tmp_path, clickhouse_server) -> Iterator[World]:
    client = client_of(clickhouse_server)
    client.run(f"CREATE DATABASE {name}")
    client.run(
        f"CREATE TABLE {name}.bare (_type String, _payload String, _slice DateTime('UTC'), _cluster String) "
        "ENGINE = MergeTree ORDER BY _payload"
    )
    yield World(tmp_path, client, name)
    client.run(f"DROP DATABASE {name} SYNC")


def damage(world: World, manifest: Manifest) -> None:
    """One row of the unit's file says another cluster."""
    [file] = manifest.files
    with world.lake.local(file.key) as path:
        table = pq.read_table(path)
    clusters = pa.array(["dc2", *["dc1"] * (table.num_rows - 1)]).dictionary_encode()
    place = table.schema.names.index("_cluster")
    begun = world.lake.begin(file.key)
    pq.write_table(table.set_column(place, "_cluster", clusters), begun.path)
    world.lake.finish(file.key, begun)


def state(world: World) -> tuple[list, list, list]:
    table = f"'{world.database}.bare'"
    return (
        world.sql("SELECT _type, _payload, _cluster FROM {db}.bare ORDER BY _payload"),
        world.sql(f"SELECT offset, column FROM sluice.rejected WHERE target = {table}"),
        world.sql(f"SELECT * FROM sluice.ledger WHERE target = {table} ORDER BY ALL"),
    )


@pytest.mark.parametrize("read", per_commit(["pull", "push"]))
@pytest.mark.parametrize("loaded", [False, True], ids=["first load", "reload"])
def test_a_row_of_another_cluster_stops_the_load_and_changes_nothing(world: World, read: str, loaded: bool):
    pipeline = world.pipeline({"click": "bare"}, clickhouse={"read": read})
    land(world.lake, unit(1), EVENTS[:1])
    world.load(pipeline, unit(1))
    manifest = land(world.lake, unit(0), EVENTS)
    if loaded:
        world.load(pipeline, unit(0))
    before = state(world)
    assert before[:2] == (sorted([*HELD[:1], *HELD]) if loaded else HELD[:1], [])
    damage(world, manifest)
    said = (
        rf"^table {world.database}\.bare, slice {unit(0)}: its manifest says 4 rows landed, the lake's files "
        r"gave 3 \(rejected rows included\): `sluice verify p` says which file changed; "
        r"`sluice run p --from .* --to .* --mode reland` writes them again$"
    )
    with pytest.raises(Conservation, match=said):
        world.load(pipeline, unit(0), mode="reload")
    assert state(world) == before
