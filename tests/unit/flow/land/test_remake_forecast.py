"""What a plan says that a remake would change is what it then changes."""

from __future__ import annotations

import json

import pytest

from sluice.flow.land.remake import UnitChange, forecast, outcomes, sampled
from sluice.slices import Slice, Unit
from sluice.state.manifests import read_manifests
from tests.support.fakes import MemoryLake
from tests.support.landing_world import START, World, event, hours, pipeline
from tests.unit.flow.land.test_remake import CHANGES, SLICES, landed, remade, spec, units, worlds

BIDS = ("dc1", "bids")


@pytest.mark.parametrize("change", ["type by another field", "another time format", "arrays from now on"])
def test_it_is_what_the_remake_does(change: str):
    before, after = CHANGES[change]
    world, lake = landed(spec(**before), worlds())
    old = read_manifests(lake, units(spec()))
    kept = dict(lake.objects)
    found = list(forecast(spec(**after), lake, old))
    assert lake.objects == kept
    remade(world, lake, spec(**after))
    new = read_manifests(lake, units(spec()))
    assert {one.unit: one.after for one in found} == {unit: outcomes(m) for unit, m in new.items()}
    assert {one.unit: one.before for one in found} == {unit: outcomes(m) for unit, m in old.items()}


def test_a_field_that_counts_read_is_still_there_twice():
    by = {"counts": [{"table": "db.traffic", "by": ["country"]}]}
    twice = b'{"type": "bid", "at": "2026-01-01T00:05:00Z", "country": "CH", "country": "DE"}'
    records = [event("bid", n) for n in range(5)]
    world, lake = World({BIDS: [[*records, (twice, event(minute=5)[1])]]}), MemoryLake()
    world.resolve(pipeline(**by), lake, SLICES)
    world.land(pipeline(**by), lake, SLICES)
    old = read_manifests(lake, [Unit(Slice(START), "dc1")])
    assert [str(change) for change in forecast(pipeline(**by), lake, old)] == [
        "2026-01-01T00Z/dc1: no row would come or go"
    ]
    assert [str(change) for change in forecast(pipeline(), lake, old)] == [
        "2026-01-01T00Z/dc1: 5 rows would be 6: a field is there twice 1 → 0; bid 2026-01-01T00 5 → 6"
    ]


def test_a_line_says_it_by_hand():
    records = [event(("click", "bid")[n % 2], n / 2) for n in range(100)]
    records[7] = (json.dumps({"type": "bid", "at": "noon"}).encode(), records[7][1])
    world, lake = World({BIDS: [records]}), MemoryLake()
    world.resolve(pipeline(), lake, SLICES)
    world.land(pipeline(), lake, SLICES)
    old = read_manifests(lake, [Unit(Slice(START), "dc1")])
    [same] = forecast(pipeline(), lake, old)
    assert str(same) == "2026-01-01T00Z/dc1: no row would come or go"
    [other] = forecast(pipeline(event={"type": {"field": "type"}, "time": {"record": True}}), lake, old)
    assert str(other) == (
        "2026-01-01T00Z/dc1: 99 rows would be 100: bid 2026-01-01T00 49 → 50; time not understood 1 → 0"
    )
    lake.delete([next(iter(old.values())).files[0].key])
    [gone] = forecast(pipeline(), lake, old)
    assert "cannot be made again out of the lake: file type=" in str(gone)
    lake.delete(["_slices/2026-01-01T00Z/dc1/_SUCCESS"])
    [moving] = forecast(pipeline(), lake, old)
    assert str(moving).endswith("its files are still moved: the next run finishes that")


def test_those_with_most_rejected_records_are_tried():
    world, lake = World({BIDS: [[event("click", n) for n in range(170)]]}), MemoryLake()
    world.logs[BIDS][0][70] = (b"no json", event(minute=70)[1])
    world.resolve(pipeline(), lake, SLICES)
    world.land(pipeline(), lake, SLICES)
    old = read_manifests(lake, [Unit(piece, "dc1") for piece in SLICES])
    second = Unit(list(SLICES)[1], "dc1")
    assert sampled(old, 1) == [second]
    assert sampled(old) == list(old)


def test_a_long_list_of_changes_is_cut():
    unit = Unit(next(iter(hours(1))), "dc1")
    found = UnitChange(unit, {("a\x1b", f"h{n}"): n for n in range(9)}, {})
    assert str(found).endswith("; 3 more")
    assert "\x1b" not in str(found)


@pytest.fixture(autouse=True)
def temporary_files_of_its_own(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_rows_that_would_be_masked_are_said_to_change():
    """Their number stays: it was called "nothing"."""
    world, lake = World({BIDS: [[event("bid", n) for n in range(5)]]}), MemoryLake()
    world.resolve(pipeline(), lake, SLICES)
    world.land(pipeline(), lake, SLICES)
    old = read_manifests(lake, [Unit(Slice(START), "dc1")])
    [same] = forecast(pipeline(mask={"ip": "drop"}), lake, old)
    assert str(same) == (
        "2026-01-01T00Z/dc1: no row would come or go, and its rows would be masked as the file says now"
    )
