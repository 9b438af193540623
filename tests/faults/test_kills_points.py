"""No point is dead, and between two different effects there is always one: a new step cannot be forgotten."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluice.crash_points import POINTS, Land, Load, Point, Resolve, TableLoad
from tests.faults import kills_trials
from tests.faults.kills_effects import EFFECT, without_point
from tests.faults.kills_points import name_of
from tests.faults.kills_trials import MODES, Trials

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def traces(tmp_path_factory) -> Iterator[dict[str, list[str]]]:
    """What a normal run of each mode reaches and writes, in order."""
    trials: Trials = kills_trials.start(tmp_path_factory.mktemp("points"))
    try:
        yield {mode: trials.trace(mode, effects=True) for mode in MODES}
    finally:
        kills_trials.stop(trials)


def test_a_normal_run_reaches_every_point(traces: dict[str, list[str]]):
    reached = {line for trace in traces.values() for line in trace}
    assert {name_of(point) for point in POINTS} - reached == set()


def boundaries(trace: list[str]) -> list[str]:
    """Without the point after each statement: it is within steps, too."""
    return [line for line in trace if line != name_of(Load.STATEMENT)]


@pytest.mark.parametrize("mode", MODES)
def test_between_two_different_effects_there_is_a_point(traces: dict[str, list[str]], mode: str):
    effects = {line for line in traces[mode] if line.startswith(EFFECT)}
    assert len(effects) > 10
    assert without_point(boundaries(traces[mode])) == []


@pytest.mark.parametrize(
    "point", [Resolve.STORED, Land.COMMITTED, Land.OLD_COPIED, TableLoad.FENCED, TableLoad.DELETED]
)
def test_a_forgotten_point_would_be_found(traces: dict[str, list[str]], point: Point):
    mode = "fill" if point is Resolve.STORED else "reland"
    assert without_point(line for line in boundaries(traces[mode]) if line != name_of(point)) != []
