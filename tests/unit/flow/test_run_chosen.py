"""A run over some units alone, and what a plan says of rules."""

from __future__ import annotations

import pytest

from sluice.cli.run import run_units
from sluice.errors import Conservation, NotLoaded, SluiceError
from sluice.flow import steps
from sluice.plan.estimate import TimeEstimate
from sluice.slices import SliceRange, Unit
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.landing_world import hours, pipeline
from tests.support.manifests import made_manifest


def status(unit: Unit, rules: str) -> UnitStatus:
    manifest = made_manifest("p", unit.slice.id, "dc1", 1, "a", (), (), (), 10, {}, 0, rules=rules)
    return UnitStatus(unit, UnitState.COMPLETE, (), (), manifest, {}, (), 1)


def test_a_run_over_some_units_loads_these_and_verifies_their_slices(monkeypatch: pytest.MonkeyPatch):
    did: list[tuple] = []
    units = [Unit(slice_, "dc1") for number, slice_ in enumerate(hours(6)) if number in (0, 1, 4)]
    spells = [hours(2), hours(1, first=4)]
    wrong: dict[SliceRange, SluiceError] = {}

    def verify(spec, slices, tables):
        did.append(("verify", slices, tables))
        if slices in wrong:
            raise wrong[slices]
        return []

    def publish(spec, slices, found, tables):
        did.append(("publish", slices, tables))

    def load(spec, table, slices, mode, token, say, only):
        did.append(("load", table, slices, mode, only))

    monkeypatch.setattr(steps, "load_table", load)
    monkeypatch.setattr(steps, "estimated_time", lambda *_: TimeEstimate({}, ()))
    monkeypatch.setattr(steps, "verify_range", verify)
    monkeypatch.setattr(
        steps, "publish_range", lambda spec, slices, found, only: did.append(("publish", slices, only))
    )
    statuses = [status(unit, "") for unit in units]
    assert run_units(pipeline(), statuses, "reload") == []
    assert did == [
        ("load", "db.click", hours(5), "reload", frozenset(units)),
        *((what, one, None) for one in spells for what in ("verify", "publish")),
    ]
    did.clear()
    chosen = frozenset({"db.click"})
    assert run_units(pipeline(), statuses, "reload", chosen) == []
    assert did[1:] == [(what, one, chosen) for one in spells for what in ("verify", "publish")]

    # What is not right of some slices holds up no others.
    for error in (Conservation("…"), NotLoaded("…")):
        did.clear()
        wrong[spells[0]] = error
        assert run_units(pipeline(), statuses, "reload") == [error]
        assert did[1:] == [
            ("verify", spells[0], None),
            ("verify", spells[1], None),
            ("publish", spells[1], None),
        ]
