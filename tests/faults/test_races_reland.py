"""A slice is landed again while its older files are being loaded: a retry of the load is then right."""

from __future__ import annotations

import pytest

from sluice import crash_points
from sluice.crash_points import TableLoad
from sluice.errors import Relanded
from tests.integration.landed import World, client_of, event, land, unit
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults


@pytest.mark.parametrize(("read", "others"), per_commit([("pull", 1), ("push", 0), ("pull", 0), ("push", 1)]))
def test_files_removed_by_a_reland_are_no_loss(
    clickhouse_server, tmp_path, name: str, monkeypatch, read: str, others: int, fault_log
):
    world = World(tmp_path, client_of(clickhouse_server), name)
    world.sql("CREATE DATABASE {db}")
    world.sql(
        "CREATE TABLE {db}.t (n UInt16, _slice DateTime('UTC'), _cluster LowCardinality(String)) "
        "ENGINE = MergeTree ORDER BY n"
    )
    units = [unit(hour) for hour in range(1 + others)]
    landed = [land(world.lake, place, [event(n=10 * number)]) for number, place in enumerate(units)]

    def reland(point: crash_points.Point) -> None:
        if point is TableLoad.CHECKED:
            monkeypatch.undo()
            land(world.lake, unit(0), [event(n=0)], generation=2)
            world.lake.delete(file.key for file in landed[0].files)

    monkeypatch.setattr(crash_points, "reached", reland)
    pipeline = world.pipeline({"click": "t"}, clickhouse={"read": read})
    with fault_log.trial("race", f"reland during a load, {read}, {others} other slices"):
        with pytest.raises(Relanded, match="landed again while it was loaded"):
            world.load(pipeline, *units)
        assert len(world.load(pipeline, *units).loaded) == len(units)
        assert world.sql("SELECT n FROM {db}.t ORDER BY n") == [(0,), (10,)][: len(units)]
