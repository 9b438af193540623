"""Faults between Sluice and a real S3 server: at conditional writes, and at every request of a landing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import timedelta
from itertools import product
from random import Random

import pytest

from sluice.clients.lake import layout, s3_client
from sluice.clients.lake.settings import S3Settings
from sluice.errors import LakeUnavailable, SluiceError
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.lease import Lease
from tests.faults.fault_log import FaultLog
from tests.faults.s3_faults import INTERNAL, SLOW_DOWN, Scene, port_of, quick_retries, scene
from tests.faults.wire import Fault, Wire
from tests.faults.wire_http import FOREVER, Answer, HttpLayer
from tests.integration import s3_servers
from tests.support.long_form import per_commit

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("quick_retries")]
assert quick_retries

TERM = timedelta(seconds=1)
TABLE = "events.clicks"
VICTIM = "line to S3"
Do = Callable[[Scene], object]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Settings]:
    with s3_servers.versitygw(tmp_path_factory.mktemp("versitygw")) as settings:
        yield settings


@pytest.fixture(scope="module")
def only_wire(server: S3Settings) -> Iterator[Wire]:
    with Wire(port_of(server)) as made:
        yield made


@pytest.fixture(scope="module")
def only_layer(server: S3Settings) -> Iterator[HttpLayer]:
    with HttpLayer(port_of(server)) as made:
        yield made


@pytest.fixture
def wire(only_wire: Wire) -> Iterator[Wire]:
    only_wire.struck = 0
    yield only_wire
    only_wire.lookback()


@pytest.fixture
def layer(only_layer: HttpLayer) -> Iterator[HttpLayer]:
    yield only_layer
    only_layer.lookback()


def lease(made: Scene) -> Lease:
    return Lease.acquire(made.lake, TABLE, "me", TERM, timedelta(minutes=1))


def use_lease(made: Scene) -> None:
    with lease(made) as held:
        held.renew()


def reland(made: Scene) -> None:
    made.land("reland", token="again")


def nothing(_: Scene) -> None:
    pass


def landed(made: Scene) -> None:
    made.resolve()
    made.land()


# What is written under a condition: its key, what comes before, what writes it.
CONDITIONAL: dict[str, tuple[str, Do, Do]] = {
    "boundary": ("_boundaries/0", nothing, Scene.resolve),
    "manifest": ("_slices/.*manifest.json", Scene.resolve, Scene.land),
    "manifest of a reland": ("_slices/.*manifest.json", landed, reland),
    "lease": (f"_leases/{TABLE}", nothing, use_lease),
}
LOST = (Fault.LOSE, Fault.CUT, Fault.CLOSE)


@pytest.mark.parametrize("fault", per_commit(LOST))
@pytest.mark.parametrize("place", CONDITIONAL)
def test_a_write_whose_answer_is_lost_has_won(
    server: S3Settings, wire: Wire, place: str, fault: Fault, fault_log: FaultLog
) -> None:
    """Done, and the client's own repetition is refused with 412: it reads back that it has won."""
    key, before, act = CONDITIONAL[place]
    made = scene(server, wire.port)
    before(made)
    with fault_log.trial("fault", f"{place}: {fault}", victim=VICTIM):
        wire.strike(rb"PUT \S*" + key.encode(), fault)
        act(made)
        assert wire.struck == 1
        expect(made, place)
        if place == "lease":  # it did not wait for itself to stand still
            assert b'"generation":1' in made.direct.read(layout.lease(TABLE)).data


@pytest.mark.parametrize("fault", LOST)
def test_a_renewal_whose_answer_is_lost_is_no_take_over(
    server: S3Settings, wire: Wire, fault: Fault, fault_log: FaultLog
) -> None:
    made = scene(server, wire.port)
    with fault_log.trial("fault", f"lease renewal: {fault}", victim=VICTIM), lease(made) as held:
        wire.strike(rb"PUT \S*_leases/", fault)
        held.renew()
        assert wire.struck == 1
        held.renew()
        assert held.generation == 1


@pytest.mark.parametrize("place", CONDITIONAL)
def test_a_writer_that_never_learns_that_it_has_won(
    server: S3Settings, wire: Wire, place: str, fault_log: FaultLog
) -> None:
    """The answer is lost, and then the line: unavailable; a later attempt finds what is there."""
    key, before, act = CONDITIONAL[place]
    made = scene(server, wire.port)
    before(made)
    with fault_log.trial("fault", f"{place}: {Fault.LOSE}, then no line", victim=VICTIM):
        wire.strike(rb"PUT \S*" + key.encode(), Fault.LOSE)
        wire.strike(b"HTTP/1.1", Fault.REFUSE, FOREVER, after=1)
        with pytest.raises(SluiceError) as raised:
            act(made)
        assert raised.value.retryable
        wire.lookback()
        act(made)
        expect(made, place)


def expect(made: Scene, place: str) -> None:
    if place == "boundary":
        made.land()
    if place == "lease":
        assert b'"released":true' in made.direct.read(layout.lease(TABLE)).data
        return
    made.expect_landed(generation=2 if "reland" in place else 1)
    assert BoundaryLog(made.direct).read().entries == 1


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """boto3 waits half a second for an answer; clients that were made before wait longer."""
    monkeypatch.setattr(s3_client, "READ_SECONDS", 0.5)
    s3_client._client.cache_clear()
    yield
    s3_client._client.cache_clear()


LATE_SECONDS = 1.5
LATE_READS = (r"GET \S*manifest\.json", r"GET \S*_boundaries/", r"GET \S*list-type")


@pytest.mark.parametrize("place", per_commit(CONDITIONAL))
def test_a_conditional_write_whose_answer_comes_after_the_time_out(
    server: S3Settings, wire: Wire, impatient: None, place: str, fault_log: FaultLog
) -> None:
    """The server does it, slowly; the client hangs up, asks again, is refused, and sees that it has won."""
    key, before, act = CONDITIONAL[place]
    made = scene(server, wire.port)
    before(made)
    with fault_log.trial("fault", f"{place}: answer after the time-out", victim=VICTIM):
        wire.strike(rb"PUT \S*" + key.encode(), Fault.DELAY, seconds=LATE_SECONDS)
        act(made)
        assert wire.struck == 1
        expect(made, place)
        if place == "lease":  # it did not take itself for another
            assert b'"generation":1' in made.direct.read(layout.lease(TABLE)).data


def test_reads_whose_answers_come_after_the_time_out(
    server: S3Settings, wire: Wire, impatient: None, fault_log: FaultLog, long_form: bool
) -> None:
    """Once: asked again. Every time: unavailable after all attempts, and one retry cures it."""
    for place in LATE_READS if long_form else LATE_READS[:1]:
        made, struck = scene(server, wire.port), wire.struck
        with fault_log.trial("fault", f"{place}: answer after the time-out", victim=VICTIM):
            wire.strike(place.encode(), Fault.DELAY, seconds=LATE_SECONDS)
            landed(made)
            assert wire.struck == struck + 1
            wire.strike(place.encode(), Fault.DELAY, FOREVER, seconds=LATE_SECONDS)
            with pytest.raises(LakeUnavailable, match="timed out|timeout"):
                reland(made)
            wire.lookback()
            reland(made)
            made.expect_landed(generation=2)


# Every kind of request that a landing sends.
REQUESTS = {
    "boundary read": ("GET", r"_boundaries/"),
    "boundary write": ("PUT", r"_boundaries/"),
    "data file write": ("PUT", r"_attempts/.*parquet"),
    "manifest write": ("PUT", r"manifest\.json"),
    "manifest read": ("GET", r"manifest\.json"),
    "move": ("PUT", r"type=.*parquet"),
    "delete": ("POST", r"delete"),
    "list": ("GET", r"list-type"),
    "success": ("PUT", r"_SUCCESS"),
}
ANSWERS = {
    "500": Answer(500, INTERNAL),
    "503": Answer(503, SLOW_DOWN),
    "503 without a body": Answer(503),
}


@pytest.mark.parametrize("done", [False, True], ids=["undone", "done"])
@pytest.mark.parametrize("request_", per_commit(REQUESTS, 2))
def test_a_landing_with_a_server_in_trouble(
    server: S3Settings, layer: HttpLayer, request_: str, done: bool, fault_log: FaultLog, long_form: bool
) -> None:
    """Once: boto3 asks again, and nobody notices. For good: unavailable, and one retry cures it."""
    short = [("503", FOREVER if done else 1)]
    for name, times in product(ANSWERS, (1, FOREVER)) if long_form else short:
        made = scene(server, layer.port)
        when = f"{'after' if done else 'before'} it is done, {'once' if times == 1 else 'for good'}"
        with fault_log.trial("fault", f"{request_}: {name} {when}", victim=VICTIM):
            layer.answer(*REQUESTS[request_], ANSWERS[name], times, done=done)
            struck = layer.struck
            with nullcontext() if times == 1 else pytest.raises(LakeUnavailable):
                landed(made)
            assert layer.struck > struck
            layer.lookback()
            landed(made)
            made.expect_landed()


@pytest.mark.parametrize("fault", [f for f in Fault if f is not Fault.STALL])
def test_a_landing_on_a_bad_line(
    server: S3Settings, wire: Wire, fault: Fault, fault_log: FaultLog, long_form: bool, seed: int
) -> None:
    methods = ["PUT", "GET", "POST"]
    for method in methods if long_form else [Random(f"{seed}{fault}").choice(methods)]:
        made, struck = scene(server, wire.port), wire.struck
        with fault_log.trial("fault", f"landing, {method}: {fault}", victim=VICTIM):
            wire.strike(method.encode() + b" /", fault, times=3, seconds=0.2)
            landed(made)
            assert wire.struck == struck + 3
            made.expect_landed()
