"""A table that may get columns has the fields of its types counted in every row."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.flow.land.task import field_tally
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.landing_world import World, event, hours, pipeline

EVENTS = [event("click", minute, more=str(minute)) for minute in range(40)]
EVENTS += [event("view", minute) for minute in range(40, 50)]


@pytest.mark.parametrize(
    ("tables", "exact"),
    [
        ({"click": {"table": "db.c", "evolve": "add"}, "*": "db.o"}, {"click": True, "view": False}),
        ({"click": "db.c", "*": {"table": "db.o", "evolve": "add"}}, {"click": False, "view": True}),
        ({"click": "db.c", "*": "db.o"}, {"click": False, "view": False}),
    ],
)
def test_the_pipeline_file_says_which_types_are_counted_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: dict, exact: dict[str, bool]
):
    monkeypatch.setattr(field_tally, "step_of", lambda *_: 4)
    world, lake = World({("dc1", "bids"): [EVENTS]}), FolderLake(tmp_path / "demo")
    spec = pipeline(tables=tables)
    world.resolve(spec, lake, hours(1))
    world.land(spec, lake, hours(1))
    (manifest,) = read_manifests(lake, [Unit(piece, "dc1") for piece in hours(1)]).values()
    assert {one.type: one.exact for one in manifest.fields} == exact
    for one in manifest.fields:
        assert not one.exact or one.rows == manifest.rows_by_type()[one.type]
