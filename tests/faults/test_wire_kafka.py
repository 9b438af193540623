"""Faults on the line to a real broker while boundaries are resolved: stored ones are right, or not stored."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import product
from random import Random

import pendulum
import pytest
from kafka import KafkaAdminClient, KafkaProducer

from local.environment import HOST
from sluice.clients.kafka import settings
from sluice.config.pipeline import Pipeline
from sluice.errors import KafkaUnavailable
from sluice.flow.resolve.resolve import resolve, retained_losses
from sluice.slices import Slice, Unit
from sluice.state.boundaries.log import BoundaryLog
from tests.faults.fault_log import FaultLog
from tests.faults.wire import Fault, Wire
from tests.faults.wire_http import FOREVER
from tests.support.fakes import MemoryLake

pytestmark = pytest.mark.faults

TEN = pendulum.datetime(2026, 1, 20, 10)
NOW = TEN.add(days=1)
SLICES = [Slice(TEN), Slice(TEN.add(hours=1))]
REQUEST_MS = 3000
# Minutes after ten; the last one of partition 0 is two days ahead of NOW: boundaries are found by reading on.
RECORDS = {0: [-5, 0, 30, 61, 3 * 24 * 60], 1: [10, 59, 119]}
# By hand: the offset of the first record at or after ten, eleven, twelve.
EDGES = {0: [1, 3, 5], 1: [0, 2, 3]}
# https://kafka.apache.org/protocol#protocol_api_keys: four bytes of length, then two of the key.
REQUESTS = {"Fetch": 1, "ListOffsets": 2, "Metadata": 3, "ApiVersions": 18}
FAULTS = [fault for fault in Fault if fault is not Fault.STALL]
SHORT = 6
VICTIM = "line to Kafka"


def port_bytes(port: int) -> bytes:
    return HOST.encode() + struct.pack(">i", port)


@pytest.fixture(scope="module")
def topic(kafka_broker: str) -> str:
    name = "wired"
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker)
    configs = {"retention.ms": "-1"}
    admin.create_topics({name: {"num_partitions": 2, "configs": configs}}, wait_for_metadata=True)
    admin.close()
    producer = KafkaProducer(bootstrap_servers=kafka_broker)
    for partition, minutes in RECORDS.items():
        for minute in minutes:
            at = int(TEN.add(minutes=minute).timestamp() * 1000)
            producer.send(name, b"x", partition=partition, timestamp_ms=at)
    producer.flush()
    producer.close()
    return name


@pytest.fixture
def wire(kafka_broker: str) -> Iterator[Wire]:
    """The broker's answers name the wire's port instead of its own."""
    port = int(kafka_broker.rpartition(":")[2])
    with Wire(port) as made:
        made.rewrite = {port_bytes(port): port_bytes(made.port)}
        yield made


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "REQUEST_MS", REQUEST_MS)
    monkeypatch.setattr(settings, "BOOTSTRAP_MS", REQUEST_MS)


def pipeline(topic: str, port: int) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "adx",
            "kafka": [{"cluster": "dc1", "bootstrap": f"{HOST}:{port}", "topics": [topic]}],
            "event": {"type": {"topic": True}, "time": {"record": True}},
            "lake": "file:///lake",
        }
    )


def stored(lake: MemoryLake, topic: str) -> dict[int, list[int]]:
    """By partition the edges of the two slices, as every later reader of the log has them."""
    found: dict[int, list[int]] = {}
    for piece in SLICES:
        for r in BoundaryLog(lake).read().ranges(piece, "dc1", [topic]) or ():
            found.setdefault(r.partition, [r.start]).append(r.until)
    return found


def request(name: str) -> bytes:
    return rb"^...." + struct.pack(">h", REQUESTS[name])


@pytest.mark.long
def test_a_bad_line_never_stores_a_wrong_boundary(
    topic: str, wire: Wire, fault_log: FaultLog, long_form: bool, seed: int
) -> None:
    """Once, or for good: either way the next call stores what is right, in one entry."""
    every = list(product(REQUESTS, FAULTS, (1, FOREVER)))
    for name, fault, times in every if long_form else Random(seed).sample(every, SHORT):
        lake, adx, struck = MemoryLake(), pipeline(topic, wire.port), wire.struck
        how = f"{name}: {fault} {'once' if times == 1 else 'for good'}"
        with fault_log.trial("fault", how, victim=VICTIM):
            wire.strike(request(name), fault, times, seconds=0.1)
            told = resolve(adx, lake, SLICES, NOW)
            assert wire.struck > struck
            wire.lookback()
            assert stored(lake, topic) == ({} if told.unreachable else EDGES)
            for error in told.unreachable.values():
                assert isinstance(error, KafkaUnavailable)
                assert error.retryable
            assert not told.unreachable or fault is not Fault.DELAY
            assert resolve(adx, lake, SLICES, NOW).unreachable == {}
            assert stored(lake, topic) == EDGES
            assert BoundaryLog(lake).read().entries == 1


def test_silence_is_told_within_the_time_out(topic: str, wire: Wire, fault_log: FaultLog) -> None:
    lake, adx = MemoryLake(), pipeline(topic, wire.port)
    with fault_log.trial("fault", f"ListOffsets: {Fault.STALL}", victim=VICTIM):
        wire.strike(request("ListOffsets"), Fault.STALL, FOREVER)
        (error,) = resolve(adx, lake, SLICES, NOW).unreachable.values()
        assert isinstance(error, KafkaUnavailable)
        assert stored(lake, topic) == {}
        wire.lookback()
        assert resolve(adx, lake, SLICES, NOW).unreachable == {}
        assert stored(lake, topic) == EDGES


@pytest.mark.parametrize("fault", [Fault.LOSE, Fault.CLOSE])
def test_a_bad_line_is_no_loss(topic: str, wire: Wire, fault: Fault, fault_log: FaultLog) -> None:
    """An answer that does not come is not "the log begins later": nothing is told to have expired."""
    lake, adx = MemoryLake(), pipeline(topic, wire.port)
    known = resolve(adx, lake, SLICES, NOW).boundaries
    units = [Unit(piece, "dc1") for piece in SLICES]
    with fault_log.trial("fault", f"retention look: {fault}", victim=VICTIM):
        wire.strike(request("ListOffsets"), fault, FOREVER)
        with pytest.raises(KafkaUnavailable):
            retained_losses(adx, known, units)
        wire.lookback()
        assert retained_losses(adx, known, units) == {}
