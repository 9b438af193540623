"""Forgetting killed at each point: after one retry no file is left, and tables hold what they held."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluice.crash_points import Forget
from tests.faults import kills_trials
from tests.faults.kills_effects import EFFECT, without_point
from tests.faults.kills_points import Order, name_of
from tests.faults.kills_trials import Trials
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

AT_SERVER = (Forget.DECIDED, Forget.NOTED, Forget.DELETED)


@pytest.fixture(scope="module")
def trials(tmp_path_factory) -> Iterator[Trials]:
    started = kills_trials.start(tmp_path_factory.mktemp("forget"))
    yield started
    kills_trials.stop(started)


@pytest.mark.parametrize(
    "point", per_commit([Forget.UNMARKED, *(p for p in Forget if p != Forget.UNMARKED)], 1), ids=str
)
def test_the_process_killed_at_a_point(trials: Trials, fault_log, point: Forget):
    with fault_log.trial("kill", name_of(point), victim="process"):
        trials.obeys("forget", Order(name_of(point)))


@pytest.mark.long
@pytest.mark.parametrize("point", AT_SERVER, ids=str)
def test_clickhouse_killed_at_a_point(trials: Trials, fault_log, point: Forget):
    with fault_log.trial("kill", name_of(point), victim="ClickHouse server"):
        order = Order(name_of(point), victim=str(trials.server.process.pid))
        trials.obeys("forget", order, trials.revive_server)


@pytest.mark.long
def test_each_point_is_reached_and_one_is_between_two_different_effects(trials: Trials):
    trace = trials.trace("forget", effects=True)
    assert {name_of(point) for point in Forget} <= set(trace)
    assert len({line for line in trace if line.startswith(EFFECT)}) > 2
    assert without_point(trace) == []
