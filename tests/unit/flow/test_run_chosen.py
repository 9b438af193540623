"""A run over some units alone, and what a plan says of rules."""

from __future__ import annotations

import pytest

from sluice.flow import batch_loop, steps
from sluice.manifest import Manifest
from sluice.plan.estimate import TimeEstimate
from sluice.plan.plan import work_of
from sluice.slices import Unit
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.landing_world import hours, pipeline


def status(unit: Unit, rules: str) -> UnitStatus:
    manifest = Manifest("p", unit.slice.id, "dc1", 1, "a", (), (), (), 10, {}, 0, rules=rules)
    return UnitStatus(unit, UnitState.COMPLETE, (), (), manifest, {}, (), 1)


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
    work = work_of([status(unit, "") for unit in units], "reload")
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
