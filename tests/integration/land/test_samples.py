"""What doctor reads of a topic is bounded in memory, and says what it was."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.stored_batch import batch, bomb, record, send

pytestmark = pytest.mark.integration

FIRST_MS = 1_767_225_600_000
BOMB = 880 << 20
READING = """
import json, sys
from pathlib import Path
from sluice.clients.kafka.topics import newest
from sluice.clients.kafka.topic_facts import open_inquiry
from sluice.config.pipeline import Cluster
cluster = Cluster(cluster="dc1", bootstrap=sys.argv[1], topics=[sys.argv[2]])
rows = [
    [one.partition, one.offset, one.timestamp, one.value and one.value.decode(), one.too_large]
    for one in newest(cluster, sys.argv[2], int(sys.argv[3]), 1 << 20)
]
with open_inquiry(cluster) as asked:
    facts = asked.facts(sys.argv[2])
stamps = {number: part.first_stamp for number, part in facts.partitions.items()}
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(json.dumps([rows, stamps, int(status["VmHWM"].split()[0])]))
"""


def read(broker: str, topic: str, count: int) -> tuple[list, dict, int]:
    command = [sys.executable, "-c", READING, broker, topic, str(count)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


@pytest.fixture
def topic(kafka_broker: str, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": kafka_broker, "log_level": 0})
    admin.create_topics([NewTopic(name, 3, 1, config={"retention.ms": "-1"})])[name].result(30)
    return name


@pytest.mark.long
def test_a_bomb_is_told_and_not_unpacked(kafka_broker: str, topic: str):
    send(kafka_broker, topic, 0, batch(bomb(0, BOMB), 1, "gzip", FIRST_MS + 5))
    send(kafka_broker, topic, 0, batch([record(0, b"a")], 1, stamp=FIRST_MS + 7))
    send(kafka_broker, topic, 1, batch([record(0, b"b"), record(1, b"c")], 2, stamp=FIRST_MS + 8))
    rows, stamps, kib = read(kafka_broker, topic, 10)
    bombed, *others = rows
    assert bombed[:4] == [0, 0, FIRST_MS + 5, None] and bombed[4] >= BOMB
    assert others == [
        [0, 1, FIRST_MS + 7, "a", None],
        [1, 0, FIRST_MS + 8, "b", None],
        [1, 1, FIRST_MS + 8, "c", None],
    ]
    assert stamps == {"0": FIRST_MS + 5, "1": FIRST_MS + 8, "2": None}
    assert kib << 10 < BOMB // 2


def test_the_newest_of_each_partition_are_read(kafka_broker: str, topic: str):
    for number in range(5):
        send(kafka_broker, topic, 0, batch([record(0, b"%d" % number)], 1, stamp=FIRST_MS + number))
    assert [row[3] for row in read(kafka_broker, topic, 2)[0]] == ["3", "4"]
