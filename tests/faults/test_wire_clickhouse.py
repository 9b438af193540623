"""Faults on the line to ClickHouse, at every kind of statement: the right error, and one retry cures it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

from local.services import ClickHouseServer
from sluice.errors import ClickHouseUnavailable
from tests.faults.fault_log import FaultLog
from tests.faults.inserver_load import Commit, Trials
from tests.faults.wire import Fault, Wire
from tests.faults.wire_clickhouse import KILLS, PLACES, QUESTIONS, disturb
from tests.integration.landed import World, client_of
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

# Silence lasts until the client's time-out: see test_wire_zombies.
FAULTS = (Fault.REFUSE, Fault.TORN, Fault.LOSE, Fault.CUT, Fault.CLOSE, Fault.DELAY)
SHORT = 4


@pytest.fixture
def server(start_clickhouse_server: Callable[..., ClickHouseServer]) -> ClickHouseServer:
    return start_clickhouse_server()


@pytest.fixture
def wire(server: ClickHouseServer) -> Iterator[Wire]:
    with Wire(server.port) as made:
        yield made


@pytest.fixture
def trials(commit: Commit, server: ClickHouseServer, tmp_path: Path) -> Trials:
    return Trials(World(tmp_path / "lake", client_of(server), "wired"), commit)


def cases(commit: Commit, long_form: bool, seed: int) -> list[tuple[str, Fault]]:
    every = list(product(PLACES, FAULTS))
    if long_form:
        return every
    chance = random.Random(f"{seed}{commit}")
    return [(chance.choice(PLACES), fault) for fault in chance.sample(FAULTS, SHORT)]


@pytest.mark.parametrize("commit", per_commit(Commit))
def test_a_disturbed_load(
    trials: Trials,
    server: ClickHouseServer,
    wire: Wire,
    long_form: bool,
    seed: int,
    fault_log: FaultLog,
) -> None:
    failures = []
    for place, fault in cases(trials.commit, long_form, seed):
        outcome = disturb(trials, server, wire, place, fault)
        wrong = list(outcome.wrong)
        if fault is Fault.DELAY and outcome.raised:
            wrong.append(f"a late answer is an answer: {outcome.raised}")
        if outcome.raised and not isinstance(outcome.raised, ClickHouseUnavailable):
            wrong.append(f"not unavailable: {outcome.raised!r}")
        if fault is not Fault.DELAY and not outcome.raised and place not in (*QUESTIONS, *KILLS):
            wrong.append("a statement that writes was repeated, or its lost answer was taken for one")
        where = f"{trials.commit}, {place}: {fault}"
        fault_log.add("fault", where, bool(wrong), victim="line to ClickHouse")
        failures += [f"{where}: {line}" for line in wrong]
    assert failures == []
