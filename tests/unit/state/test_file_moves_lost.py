"""A file that is gone before its landing has moved it: a reland, which the error names, writes it again."""

from __future__ import annotations

import pytest

from sluice.clients.lake import layout
from sluice.errors import Conservation
from sluice.slices import Unit
from sluice.state.file_moves import finish_moves
from tests.support.fakes import MemoryLake
from tests.support.landing_world import World, event, hours, pipeline

SLICES = hours(2)
UNITS = [Unit(slice_, "dc1") for slice_ in SLICES]


def test_a_reland_writes_a_file_again_that_was_deleted_before_its_move():
    spec, lake = pipeline(), MemoryLake()
    world = World({("dc1", "bids"): [[event("click", n * 20) for n in range(6)]]}, plain=True)
    world.resolve(spec, lake, SLICES)
    first, second = world.land(spec, lake, SLICES).landed
    mark = layout.slice_success(first.slice, "dc1")
    lake.delete([mark, first.files[0].key])
    for mode in ("fill", "reload", "remake"):
        with pytest.raises(
            Conservation, match="it was deleted; `sluice run .* --mode reland` writes it again"
        ):
            world.land(spec, lake, SLICES, mode, mode)

    # Not marked: the old manifest's file is gone for good.
    finish_moves(lake, UNITS, replaced=True)
    assert lake.read(mark) is None

    landed = world.land(spec, lake, hours(1), "reland", "again", accept_loss=False).landed
    assert [(one.slice, one.generation, one.read) for one in landed] == [(first.slice, 2, 3)]
    assert list(finish_moves(lake, UNITS).values()) == [*landed, second]
    kept = {file.key for one in (*landed, second) for file in one.files}
    assert {item.key for item in lake.list("type=")} == kept
