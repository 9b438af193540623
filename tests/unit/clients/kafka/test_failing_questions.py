"""A broker that fails at a question of a partition is asked few more of it, and the others' answers stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka.errors import UnknownError
from kafka.protocol.consumer import IsolationLevel

from sluice.clients.kafka.topics import _Admin

HOUR = 3_600_000
FAILING_FROM = 3 * HOUR  # in partition 0


class At(NamedTuple):
    offset: int
    timestamp: int


class Asking(_Admin):
    """`failed` counts the broker's failures; `asked` are the questions of partition 1 that it answered."""

    def __init__(self) -> None:
        self.failed = 0
        self.asked: list[int] = []
        self.read: list[int] = []

    def list_partition_offsets(self, wanted: Mapping[TopicPartition, int], isolation_level: Any) -> Any:
        if any(place.partition == 0 and at >= FAILING_FROM for place, at in wanted.items()):
            self.failed += 1
            raise UnknownError
        self.asked += [at for place, at in wanted.items() if place.partition == 1]
        return {place: At(at // HOUR, at) for place, at in wanted.items()}

    def _by_reading(self, place: TopicPartition, _: Any, instants: Any) -> dict[int, tuple[int, int]]:
        assert place.partition == 0
        self.read += instants
        return {at: (at // HOUR, at) for at in instants}


def test_of_64_hours_behind_one_bomb_few_questions_fail():
    client = Asking()
    questions = [{0: n * HOUR, 1: n * HOUR} for n in range(64)]
    answers = client.ask("t", IsolationLevel.READ_COMMITTED, questions)
    assert answers == [{0: (n, n * HOUR), 1: (n, n * HOUR)} for n in range(64)]
    assert client.failed <= 8  # four at once, each whole and then by partition
    assert client.read == [n * HOUR for n in range(3, 64)]
    assert sorted(client.asked) == [n * HOUR for n in range(64)]
