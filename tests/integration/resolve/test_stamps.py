"""Offsets and timestamps of many records, as they were produced: what was aborted is not there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.clients.kafka import settings
from sluice.clients.kafka.lookups import read_stamps
from sluice.clients.kafka.settings import KafkaSettings
from sluice.errors import KafkaUnavailable, WrongUse
from tests.support.stored_batch import batch, bomb, record
from tests.support.stored_batch import send as store

pytestmark = pytest.mark.integration

COUNT = 25_000
FIRST_MS = 1_767_225_600_000
BOMB = 880 << 20


@pytest.fixture
def topic(kafka_broker: str, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": kafka_broker, "log_level": 0})
    admin.create_topics([NewTopic(name, 3, 1, config={"retention.ms": "-1"})])[name].result(30)
    return name


def send(producer: Producer, topic: str, partition: int, times: Sequence[int]) -> None:
    for at in times:
        producer.produce(topic, b"x", partition=partition, timestamp=FIRST_MS + at)
        producer.poll(0)


def read(settings: KafkaSettings, topic: str, spans: dict[int, tuple[int, int]]) -> dict[int, list[tuple]]:
    found: dict[int, list[tuple]] = {partition: [] for partition in spans}
    for part in read_stamps(settings, topic, spans):
        assert part.offsets.dtype == part.timestamps.dtype == np.int64
        pairs = zip(part.offsets.tolist(), part.timestamps.tolist(), strict=True)
        found[part.partition] += [(offset, at - FIRST_MS) for offset, at in pairs]
    return found


def test_spans_of_several_partitions_come_whole_and_no_further(kafka_broker: str, topic: str):
    producer = Producer({"bootstrap.servers": kafka_broker, "log_level": 0, "enable.idempotence": True})
    times = [(number * 7919) % 100_000 for number in range(COUNT)]
    send(producer, topic, 0, times)
    send(producer, topic, 1, times[:10])
    assert producer.flush(60) == 0
    spans = {0: (100, COUNT - 100), 1: (0, 10), 2: (0, 0)}
    found = read(KafkaSettings("dc1", kafka_broker), topic, spans)
    assert found[0] == list(enumerate(times))[100 : COUNT - 100]
    assert found[1] == list(enumerate(times[:10]))
    assert found[2] == []


@pytest.mark.parametrize(
    ("isolation", "seen"), [("read_committed", [0, 5]), ("read_uncommitted", [0, 2, 3, 5])]
)
def test_a_span_may_end_in_what_nobody_sees(kafka_broker: str, topic: str, isolation: str, seen: list[int]):
    """Offset 0 is committed, 1 its marker; 2 and 3 are aborted, 4 is theirs; 5 is committed, 6 its marker."""
    producer = Producer({"bootstrap.servers": kafka_broker, "log_level": 0, "transactional.id": topic})
    producer.init_transactions(30)
    for times, end in (([0], "commit"), ([2, 3], "abort"), ([5], "commit")):
        producer.begin_transaction()
        send(producer, topic, 0, times)
        assert producer.flush(30) == 0
        getattr(producer, f"{end}_transaction")(30)
    settings = KafkaSettings("dc1", kafka_broker, isolation)
    # The records' times are their offsets.
    assert read(settings, topic, {0: (0, 7)})[0] == [(offset, offset) for offset in seen]
    assert read(settings, topic, {0: (0, 5)})[0] == [(offset, offset) for offset in seen if offset < 5]
    assert read(settings, topic, {0: (1, 4)})[0] == [(offset, offset) for offset in seen if 1 <= offset < 4]


def test_offsets_that_are_gone_are_told(kafka_broker: str, topic: str):
    producer = Producer({"bootstrap.servers": kafka_broker, "log_level": 0, "enable.idempotence": True})
    send(producer, topic, 0, range(10))
    assert producer.flush(30) == 0
    with pytest.raises(KafkaUnavailable, match="dc1"):
        read(KafkaSettings("dc1", kafka_broker), topic, {0: (50, 60)})


@pytest.mark.long
def test_settings_that_do_not_do_are_told(kafka_broker: str):
    settings = KafkaSettings("dc1", kafka_broker, protocol="SSL", ca_file="/nowhere/ca.pem")
    with pytest.raises(WrongUse, match="dc1.*/nowhere/ca.pem is not a readable PEM file"):
        read(settings, "t", {0: (0, 10)})


def test_a_cluster_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(settings, "BOOTSTRAP_MS", 1000)
    with pytest.raises(KafkaUnavailable, match=r"'dc1' does not answer at 127.0.0.1:1 "):
        read(KafkaSettings("dc1", "127.0.0.1:1"), "t", {0: (0, 10)})


def test_batches_of_every_shape(kafka_broker: str, topic: str):
    """Single records, whose times headers tell; negative times, which they do not; several, and long ones."""
    sent = [[5], [7], [-FIRST_MS - 2], [3, 9, -FIRST_MS], [1], [4] * 700, [2]]
    for times in sent:
        own = [record(n, b"x" * 4000, stamp=at) for n, at in enumerate(times)]
        latest = max(-1, FIRST_MS + max(times))
        stored = batch(own, len(own), "zstd", FIRST_MS)
        store(kafka_broker, topic, 0, stored[:35] + latest.to_bytes(8, "big", signed=True) + stored[43:])
    every = [at for times in sent for at in times]
    settings = KafkaSettings("dc1", kafka_broker)
    assert read(settings, topic, {0: (0, len(every))})[0] == list(enumerate(every))
    assert read(settings, topic, {0: (1, 5)})[0] == list(enumerate(every))[1:5]


_CHILD = """
import json, sys
from pathlib import Path
from sluice.clients.kafka.settings import KafkaSettings
from sluice.clients.kafka.lookups import read_stamps
parts = list(read_stamps(KafkaSettings("dc1", sys.argv[1]), sys.argv[2], {0: (0, 4)}))
rows = [[part.offsets.tolist(), part.timestamps.tolist()] for part in parts]
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(json.dumps([rows, int(status["VmHWM"].split()[0])]))
"""


@pytest.mark.long
def test_a_bomb_is_read_past_in_bounded_memory(kafka_broker: str, topic: str):
    before, after = (batch([record(0, b"v")], 1, stamp=FIRST_MS + at) for at in (1, 9))
    for stored in (before, batch([*bomb(0, BOMB), record(1, b"v")], 2, "gzip", FIRST_MS + 5), after):
        store(kafka_broker, topic, 0, stored)
    command = [sys.executable, "-c", _CHILD, kafka_broker, topic]
    rows, kib = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert rows == [[[0, 1, 2, 3], [FIRST_MS + at for at in (1, 5, 5, 9)]]]
    assert kib << 10 < BOMB // 2
