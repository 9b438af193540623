"""`sluice run` with `remake: auto`: what is wrong because records landed by other rules is remade."""

from __future__ import annotations

from pathlib import Path

import pendulum
import pytest

from sluice.cli import run
from sluice.errors import Conservation
from sluice.plan.auto_remake import Remakes
from sluice.slices import SliceRange
from sluice.state.unit_state import UnitState
from tests.support.verified import pipeline
from tests.unit.plan.test_plan_actions import status

DAY = pendulum.datetime(2026, 11, 20)
SLICES = SliceRange(DAY, DAY.add(hours=1))
UNIT = status(UnitState.COMPLETE)
WRONG = Conservation("wrong event hour: …")


class World:
    """`verdicts`: what verify says after each pass of the steps; `outdated`: whether a remake is wanted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, verdicts: list[Conservation | None], outdated: bool):
        self.did: list[str] = []
        self.verdicts, self.outdated = iter(verdicts), outdated
        monkeypatch.setattr(run, "_steps", self.steps)
        monkeypatch.setattr(run, "run_units", self.remake)
        monkeypatch.setattr("sluice.state.survey.survey", lambda spec, slices: [UNIT])
        monkeypatch.setattr("sluice.flow.auto_remakes.auto_remakes", self.wanted)

    def steps(self, spec, path, slices, mode, token, tables):
        self.did.append(mode)
        if error := next(self.verdicts):
            raise error
        return [UNIT], {}

    def wanted(self, spec, found):
        return Remakes((UNIT,)) if self.outdated else Remakes()

    def remake(self, spec, path, units, mode):
        self.did.append(mode)
        self.outdated = False

    def fill(self):
        return run._fill(pipeline(), Path("x"), SLICES, "token")


def test_what_is_wrong_by_the_rules_of_now_is_remade_and_verified_again(monkeypatch: pytest.MonkeyPatch):
    world = World(monkeypatch, [WRONG, None], outdated=True)
    assert world.fill() == ([UNIT], {})
    assert world.did == ["fill", "remake", "fill"]


def test_what_a_remake_does_not_cure_is_told_after_it(monkeypatch: pytest.MonkeyPatch):
    world = World(monkeypatch, [WRONG, WRONG], outdated=True)
    with pytest.raises(Conservation, match="wrong event hour"):
        world.fill()
    assert world.did == ["fill", "remake", "fill"]


def test_where_nothing_is_to_be_remade_the_error_stands(monkeypatch: pytest.MonkeyPatch):
    world = World(monkeypatch, [WRONG], outdated=False)
    with pytest.raises(Conservation, match="wrong event hour"):
        world.fill()
    assert world.did == ["fill"]


@pytest.mark.parametrize("outdated", [True, False])
def test_where_all_holds_it_is_verified_once(outdated: bool, monkeypatch: pytest.MonkeyPatch):
    world = World(monkeypatch, [None], outdated)
    assert world.fill() == ([UNIT], {})
    assert world.did == (["fill", "remake"] if outdated else ["fill"])
