"""Fixtures of the fault tests:

fault_log   session   .add(kind, point, wrong) or `with .trial(kind, point)`: counted, printed at the end
long_form   session   True under `--long` (`make faults`): many trials; else as few as prove the point
seed        session   of everything random; printed, and given again by `--seed N`

`kind` is "kill", "race" or "fault"; `point` says where it struck; `victim=` names what was struck.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.faults.fault_log import FaultLog

_LOG = pytest.StashKey[FaultLog]()
_SEED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults")
    group.addoption("--seed", type=int, help="the seed of random moments, as an earlier run printed it")


def pytest_configure(config: pytest.Config) -> None:
    given = config.getoption("--seed", default=None)
    if hasattr(config, "workerinput"):  # one of several processes: pytest-xdist
        given = config.workerinput["seed"]
    config.stash[_SEED] = random.SystemRandom().randrange(1 << 32) if given is None else given
    config.stash[_LOG] = FaultLog()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist: what a worker has to know before it starts."""
    node.workerinput["seed"] = node.config.stash[_SEED]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """xdist: what a worker has tried belongs into the one table."""
    node.config.stash[_LOG].add_all(getattr(node, "workeroutput", {}).get("faults", ()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["faults"] = session.config.stash[_LOG].rows()


@pytest.fixture(scope="session")
def fault_log(pytestconfig: pytest.Config) -> FaultLog:
    return pytestconfig.stash[_LOG]


@pytest.fixture(scope="session")
def long_form(pytestconfig: pytest.Config) -> bool:
    return pytestconfig.getoption("--long")


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    return pytestconfig.stash[_SEED]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    log = config.stash[_LOG]
    if log.tried:
        terminalreporter.section("faults")
        terminalreporter.write_line(f"seed {config.stash[_SEED]}")
        for line in log.table():
            terminalreporter.write_line(line)
