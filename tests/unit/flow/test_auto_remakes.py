"""What an hourly run inspects for `remake: auto`, and a run over some units alone."""

from __future__ import annotations

import pytest

from sluice.flow import auto_remakes, batch_loop, steps
from sluice.flow.auto_remakes import forecast_remakes, hourly_remakes
from sluice.flow.land.rules_now import rules_now
from sluice.manifest import Manifest
from sluice.plan.estimate import TimeEstimate
from sluice.plan.plan import work_of
from sluice.slices import SliceRange, Unit
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.fakes import MemoryLake
from tests.support.landing_world import World, event, hours, pipeline

AUTO = pipeline(remake="auto")
OWN = hours(4, first=6)


def status(unit: Unit, rules: str) -> UnitStatus:
    manifest = Manifest("p", unit.slice.id, "dc1", 1, "a", (), (), (), 10, {}, 0, rules=rules)
    return UnitStatus(unit, UnitState.COMPLETE, (), (), manifest, {}, (), 1)


@pytest.fixture
def surveyed(monkeypatch: pytest.MonkeyPatch) -> list[SliceRange]:
    """The ranges that were surveyed: each of ten hours landed by other rules."""
    lake, asked = MemoryLake(), list[SliceRange]()
    world = World({("dc1", "bids"): [[event("click", n) for n in range(600)]]})
    world.resolve(AUTO, lake, hours(10))

    def survey_of(spec, slices, *_):
        asked.append(slices)
        return [status(Unit(slice_, "dc1"), {"bids": "other"}) for slice_ in slices]

    monkeypatch.setattr(auto_remakes, "open_lake", lambda spec: lake)
    monkeypatch.setattr(auto_remakes, "survey_of", survey_of)
    return asked


def test_its_own_hours_and_a_window_of_older_ones(surveyed):
    found = hourly_remakes(AUTO, OWN, [hours(1, first=9)], turn=0)
    assert surveyed == [OWN, hours(6)]
    assert [one.unit.slice for one in found.units] == list(hours(9))
    assert found.left == 1


def test_a_run_for_a_past_hour_inspects_its_own_alone(surveyed):
    found = hourly_remakes(AUTO, OWN, (), turn=0, older=False)
    assert surveyed == [OWN]
    assert [one.unit.slice for one in found.units] == list(OWN)


def test_nothing_is_asked_without_auto(surveyed):
    assert not hourly_remakes(pipeline(), OWN, (), turn=0)
    assert surveyed == []


@pytest.mark.parametrize(
    ("spec", "mode", "tables", "remade", "outdated"),
    [
        (AUTO, "fill", None, 2, 2),
        (pipeline(), "fill", None, 0, 2),
        (AUTO, "reload", None, 0, 0),
        (AUTO, "fill", frozenset({"db.click"}), 0, 0),
    ],
)
def test_a_plan_says_what_a_fill_remakes(spec, mode, tables, remade, outdated):
    units = [Unit(slice_, "dc1") for slice_ in hours(3)]
    rules = ["other", rules_now(spec), "other"]
    found = [status(unit, own) for unit, own in zip(units, rules, strict=True)]
    remakes, count = forecast_remakes(spec, found, mode, tables)
    assert (len(remakes.units), count) == (remade, outdated)


def test_a_run_over_some_units_loads_these_and_verifies_their_slices(monkeypatch: pytest.MonkeyPatch):
    did: list[tuple] = []
    units = [Unit(slice_, "dc1") for number, slice_ in enumerate(hours(6)) if number in (0, 1, 4)]

    def verify(spec, slices, tables):
        did.append(("verify", slices, tables))
        return []

    def load(spec, table, slices, mode, token, say, only):
        did.append(("load", table, slices, mode, only))

    monkeypatch.setattr(steps, "load_table", load)
    monkeypatch.setattr(steps, "estimated_time", lambda *_: TimeEstimate({}, ()))
    monkeypatch.setattr(steps, "verify_range", verify)
    monkeypatch.setattr(steps, "publish_range", lambda spec, slices, found: did.append(("publish", slices)))
    work = work_of([status(unit, {}) for unit in units], "reload")
    known = (pipeline(), units, work, "reload", "t", batch_loop.landed_before, lambda line: None)
    assert batch_loop.run_chosen(*known) == 0
    spells = [hours(2), hours(1, first=4)]
    assert did == [
        ("load", "db.click", hours(5), "reload", units),
        *((what, one, *more) for one in spells for what, *more in (("verify", None), ("publish",))),
    ]
    did.clear()
    assert batch_loop.run_chosen(*known, frozenset({"db.click"})) == 0
    assert [what for what, *_ in did] == ["load", "verify", "verify"]
