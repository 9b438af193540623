"""Loads over a disturbed line to ClickHouse: which statements there are, and one trial of a fault in one."""

from __future__ import annotations

from dataclasses import dataclass

from local.readiness import answers, wait_until
from local.services import ClickHouseServer
from sluice.errors import SluiceError
from tests.faults.inserver_load import NEW, UNITS, Trials, expected
from tests.faults.wire import Fault, Wire
from tests.faults.wire_http import HttpLayer
from tests.integration.landed import World, client_of

# A load's statements by the step in their query id, and questions by their text.
STATEMENTS = (
    "fence",
    "stage",
    "rejected_rows",
    "rehearse",
    "revoke",
    "delete",
    "reject",
    "move",
    "commit",
    "drop",
)
QUESTIONS = {"ledger": b"FROM sluice.ledger", "leftovers": b"startsWith\\(name", "count": b"count\\(\\)"}
KILLS = {"kill statements": b"KILL QUERY", "kill mutations": b"KILL MUTATION"}
DEATH_SECONDS = 60
PLACES = (*STATEMENTS, *QUESTIONS, *KILLS)


def pattern(place: str) -> bytes:
    text = {**QUESTIONS, **KILLS}.get(place)
    return text if text else rb"query_id=sluice-\w+-\d+-\d+-" + place.encode() + rb"-\d+"


@dataclass(frozen=True)
class Outcome:
    """What the disturbed load raised (None: it asked again by itself), and what is wrong after a retry."""

    raised: SluiceError | None
    wrong: list[str]


def disturb(trials: Trials, server: ClickHouseServer, wire: Wire, place: str, fault: Fault) -> Outcome:
    """One load with one fault, and one retry by a new client, as a new process would have it.

    The embedded server now and then aborts when a request ends in its middle; then it is started again.
    """
    table, pipeline, manifests = trials.prepare()
    struck = wire.struck
    wire.strike(pattern(place), fault, seconds=0.2)
    raised = None
    try:
        reached(trials, wire).load(pipeline, *UNITS)
    except SluiceError as error:
        raised = error
    assert wire.struck == struck + 1, f"{place} was never sent"
    if fault is Fault.TORN and not answers(f"{server.url}/ping"):
        wait_until(lambda: server.process.poll() is not None, "the server's end", DEATH_SECONDS)
        server.start()
    reached(trials, wire).load(pipeline, *UNITS)
    wrong = trials.differences(table, expected(NEW, manifests, trials.commit))
    return Outcome(raised, wrong)


@dataclass(frozen=True)
class _Place:
    port: int
    host: str = "127.0.0.1"


def reached(trials: Trials, wire: Wire | HttpLayer) -> World:
    """The same world, with a client of its own that goes through the wire or layer."""
    return World(trials.world.root, client_of(_Place(wire.port)), trials.world.database)
