"""A flow killed at every named point, and at random moments: after one retry everything is there once.

Victims: the process that runs the flow (what `sluice run` and an Airflow task are), and the ClickHouse
server. A `fill` begins with nothing; `reload`, `remake` and `reland` do again what is there.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from sluice.crash_points import POINTS, Land, Load, Publish, TableLoad
from tests.faults import kills_trials
from tests.faults.kills_points import Order, name_of
from tests.faults.kills_trials import MODES, Trials, occurrences

pytestmark = pytest.mark.faults

NAMES = [name_of(point) for point in POINTS]
AT_SERVER = [
    name for name in NAMES if name.partition(".")[0] in (Load.__name__, TableLoad.__name__, Publish.__name__)
]
# The short form: where most is half done.
SHORT = [Land.OLD_COPIED, TableLoad.DELETED, TableLoad.MOVED]
SHORT_AT_SERVER = [TableLoad.MOVED]
# What only a run over finished hours reaches, or does something at.
AGAIN = ("Land.OLD_", "TableLoad.REVOKED", "TableLoad.DELETED")
LONG_MOMENTS = 12
SHORT_MOMENTS = [("reland", "ClickHouse server")]


@pytest.fixture(scope="module")
def trials(tmp_path_factory) -> Iterator[Trials]:
    started = kills_trials.start(tmp_path_factory.mktemp("kills"))
    yield started
    kills_trials.stop(started)


@pytest.fixture(scope="module")
def traces(trials: Trials, long_form: bool) -> dict[str, list[str]]:
    return {mode: trials.trace(mode) for mode in MODES} if long_form else {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    long_form = metafunc.config.getoption("--long")
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", NAMES if long_form else [name_of(p) for p in SHORT])
    if "at_server" in metafunc.fixturenames:
        short = [name_of(point) for point in SHORT_AT_SERVER]
        metafunc.parametrize("at_server", AT_SERVER if long_form else short)


def test_the_process_killed_at_a_point(trials: Trials, traces, fault_log, name: str):
    short = [("reland" if name.startswith(AGAIN) else "fill", 1)]
    places = [(mode, nth) for mode in traces for point, nth in occurrences(traces[mode], 2) if point == name]
    for mode, nth in places or short:
        with fault_log.trial("kill", name, victim="process"):
            trials.obeys(mode, Order(name, nth))


def test_clickhouse_killed_at_a_point(trials: Trials, traces, fault_log, at_server: str):
    """Its process is killed there, and the flow goes on until it notices."""
    for mode in [mode for mode in ("fill", "reload") if at_server in traces.get(mode, ())] or ["fill"]:
        with fault_log.trial("kill", at_server, victim="ClickHouse server"):
            order = Order(at_server, victim=str(trials.server.process.pid))
            trials.obeys(mode, order, trials.revive_server)


def _process(child: int) -> None:
    with suppress(ProcessLookupError):  # it was done before its moment came
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("victim", ["process", "ClickHouse server"])
@pytest.mark.parametrize("mode", MODES)
def test_killed_at_random_moments(trials: Trials, long_form, fault_log, seed, mode: str, victim: str):
    if not long_form and (mode, victim) not in SHORT_MOMENTS:
        pytest.skip("in the long form")
    moments = random.Random(f"{seed} {mode} {victim}")
    seconds = trials.duration(mode)
    for _ in range(LONG_MOMENTS if long_form else 1):
        kill: Callable[[int], None] = _process
        revive: Callable[[], None] = bool
        if victim != "process":
            kill, revive = lambda child: trials.server.process.kill(), trials.revive_server
        with fault_log.trial("kill", "random moment", victim=victim):
            trials.strikes(mode, moments.uniform(0, seconds), kill, revive)
