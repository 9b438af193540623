"""A damaged file of the lake is named as such, whoever reads it; a refused row of a sound one is not."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.errors import ServerError
from sluice.errors import Conservation
from tests.integration.landed import World, event, land, unit
from tests.integration.verify.test_contents import KEYS, compared, world  # noqa: F401 - a fixture
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

DAMAGES = {
    "flipped": lambda data: data[:200] + bytes(b ^ 0x55 for b in data[200:300]) + data[300:],
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
}


@pytest.mark.long
@pytest.mark.parametrize("read", per_commit(["pull", "push"]))
def test_a_damaged_file(world: World, read: str):  # noqa: F811
    world.sql(
        f"CREATE TABLE {{db}}.clicks (n UInt16 DEFAULT 5, s String, {KEYS}) ENGINE = MergeTree ORDER BY n"
    )
    pipeline = world.pipeline({"click": "clicks"}, clickhouse={"read": read})
    events = [event(n=n, s=f"{n * 7919} " * (n % 9)) for n in range(500)]
    key = land(world.lake, unit(), events).files[0].key
    world.load(pipeline, unit())
    file = world.root / "p" / key
    sound = file.read_bytes()
    for damage in DAMAGES.values():
        file.write_bytes(damage(sound))
        with pytest.raises(Conservation, match=f"lake file {key} .*`sluice run .* --mode reland` writes it"):
            world.load(pipeline, unit(), mode="reload")
        found = compared(world, pipeline)
        assert all("--mode reland" in anomaly.command for anomaly in found.anomalies) and found.anomalies
        assert not any("correct the view" in note for note in found.notes)
        [(rows,)] = world.sql(f"SELECT count() FROM sluice.`{world.database}.clicks`")
        assert rows == 500
    file.write_bytes(sound)
    assert world.load(pipeline, unit(), mode="reload").summary()["rows"] == 500


def test_a_row_that_a_constraint_refuses_is_no_damage(world: World):  # noqa: F811
    columns = f"n UInt16, CONSTRAINT c CHECK n < 9, {KEYS}"
    world.sql(f"CREATE TABLE {{db}}.clicks ({columns}) ENGINE = MergeTree ORDER BY n")
    land(world.lake, unit(), [event(n=9)])
    with pytest.raises(ServerError, match="VIOLATED_CONSTRAINT"):
        world.load(world.pipeline({"click": "clicks"}, clickhouse={"read": "pull"}), unit())
