"""Look-ups of which a broker fails to answer some partitions: the others are asked for without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import LeaderNotAvailableError, UnknownError
from kafka.protocol.consumer import IsolationLevel
from kafka.structs import OffsetAndTimestamp

from sluice.clients.kafka.topics import _Admin

LEVEL = IsolationLevel.READ_COMMITTED


class Broker(_Admin):
    """The record at offset n of each partition is stamped 10 n; asked for partition 7 it fails."""

    def __init__(self, failing: type[Exception] = UnknownError) -> None:
        self.failing, self.asked, self.read = failing, 0, []

    def close(self) -> None:
        pass

    def list_partition_offsets(self, question: Mapping[TopicPartition, int], **_: Any) -> dict:
        self.asked += 1
        if any(place.partition == 7 for place in question):
            raise self.failing("a batch of 900 MiB")
        return {
            place: OffsetAndTimestamp(-(-at // 10), -(-at // 10) * 10, None) for place, at in question.items()
        }

    def _by_reading(self, place: TopicPartition, isolation: IsolationLevel, instants: Sequence[int]) -> dict:
        self.read.append((place, isolation, list(instants)))
        return {instant: (70 + instant, 1) for instant in instants}


@pytest.mark.parametrize("count", [1, 8, 9, 200])
def test_only_what_the_broker_fails_at_is_read(count: int):
    broker = Broker()
    questions = [dict.fromkeys(range(count), at) for at in (25, 3)]
    found = broker.ask("t", LEVEL, questions)
    for at, (offset, stamp), answers in zip((25, 3), ((3, 30), (1, 10)), found, strict=True):
        read = {7: (70 + at, 1)} if count > 7 else {}
        assert answers == {**{p: (offset, stamp) for p in range(count) if p != 7}, **read}
    assert broker.read == ([(TopicPartition("t", 7), LEVEL, [3, 25])] if count > 7 else [])
    assert broker.asked <= 2 * 17  # halves, down to the one of 200


def test_any_other_error_is_one():
    with pytest.raises(LeaderNotAvailableError):
        Broker(LeaderNotAvailableError).ask("t", LEVEL, [{7: 1}])
