"""Tries all cases on one server, and reports which of them hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass

import pendulum

from sluice import __version__
from sluice.clients.clickhouse.sql import render
from sluice.clients.connections import Connection
from sluice.conformance.cases import Case, Outcome, Verdict, cases
from sluice.conformance.scratch import Scratch, scratch_database
from sluice.errors import SluiceError


@dataclass(frozen=True)
class Tried:
    case: str
    verdict: Verdict
    why: str
    seconds: float


@dataclass(frozen=True)
class Report:
    """`engine`: what a CREATE with MergeTree makes there. `at`: ISO 8601, UTC."""

    sluice: str
    server: str
    engine: str
    at: str
    seconds: float
    cases: tuple[Tried, ...]

    @property
    def holds(self) -> bool:
        return all(tried.verdict is Verdict.HOLDS for tried in self.cases)

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "holds": self.holds}


def try_all(
    connection: Connection,
    seconds: float,
    say: Callable[[Tried], None] = lambda _: None,
    only: Collection[str] = (),
) -> Report:
    """Tries the cases one after another, and tells each by `say`. Those that have not begun after `seconds`
    are not tried. `only`: beginnings of the names of those that are.

    Raises WrongUse for a scratch database that isn't empty, and what the client raises before the first case.
    """
    begun = time.monotonic()
    with scratch_database(connection) as scratch:
        [(version, *_)] = scratch.client.rows(render("doctor/server"))
        target, at = scratch.place().target, pendulum.now("UTC").to_iso8601_string()
        found = []
        for case in cases(target.storage.family):
            if only and not case.name.startswith(tuple(only)):
                continue
            found.append(_tried(case, scratch, time.monotonic() - begun > seconds))
            say(found[-1])
        taken = round(time.monotonic() - begun, 1)
        return Report(__version__, version, target.engine, at, taken, tuple(found))


def _tried(case: Case, scratch: Scratch, late: bool) -> Tried:
    begun = time.monotonic()
    if late:
        outcome = Outcome(Verdict.UNTRIED, "the time was over")
    else:
        try:
            outcome = case.attempt(scratch)
        except SluiceError as error:
            outcome = Outcome(Verdict.UNTRIED, str(error))
    return Tried(case.name, outcome.verdict, outcome.why, round(time.monotonic() - begun, 2))
