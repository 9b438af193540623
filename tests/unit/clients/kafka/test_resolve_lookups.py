from __future__ import annotations

from collections.abc import Iterator, Sequence
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.kafka import lookups
from sluice.clients.kafka.lookups import (
    NONE,
    Reply,
    SpanByPartition,
    Stamps,
    TimeByPartition,
    divided,
    joined,
    look_up,
)


class Broker:
    """Answers as Kafka's ListOffsets does, and counts the questions."""

    def __init__(self, records: dict[int, list[int]]) -> None:
        self.records = records
        self.asked = 0
        self.spans: dict[int, tuple[int, int]] = {}

    def first(self, partition: int, instant: int) -> tuple[int, int]:
        stamps = self.records[partition]
        return next(((o, at) for o, at in enumerate(stamps) if at >= instant), (NONE, -1))

    def read(self, spans: SpanByPartition) -> Iterator[Stamps]:
        """A few records at a time."""
        for partition, (start, until) in spans.items():
            self.spans[partition] = start, until
            for at in range(start, until, 3):
                stamps = self.records[partition][at : min(at + 3, until)]
                yield Stamps(partition, np.arange(at, at + len(stamps)), np.array(stamps))

    def ends(self) -> dict[int, int]:
        return {partition: len(stamps) for partition, stamps in self.records.items()}

    def ask(self, questions: Sequence[TimeByPartition]) -> list[Reply]:
        self.asked += sum(map(len, questions))
        return [{p: self.first(p, at) for p, at in question.items()} for question in questions]


@given(
    st.dictionaries(st.integers(0, 3), st.lists(st.integers(0, 60), max_size=20), max_size=3),
    st.lists(st.integers(0, 70), unique=True, max_size=20).map(sorted),
    st.integers(1, 5),
    st.integers(1, 40),
    st.integers(0, 3),
    st.integers(1, 4),
    st.integers(1, 12),
)
def test_every_answer_is_the_brokers_own(
    records, instants, width, per_consumer, per_question, connections, per_connection
):
    """Whether it was asked for, or read, or some partitions this way and others that, through one connection
    or several."""
    broker = Broker(records)
    with (
        mock.patch.object(lookups, "QUESTIONS_PER_CONSUMER", per_consumer),
        mock.patch.object(lookups, "RECORDS_PER_QUESTION", per_question),
        mock.patch.object(lookups, "CONNECTIONS", connections),
        mock.patch.object(lookups, "_QUESTIONS_PER_CONNECTION", per_connection),
    ):
        shares = divided(instants, len(records))
        found = joined([look_up(broker.ends(), share, broker.ask, broker.read, width) for share in shares])
    assert 1 <= len(shares) <= connections
    for partition in records:
        answers = list(zip(found[partition].offsets, found[partition].timestamps, strict=True))
        assert answers == [broker.first(partition, instant) for instant in instants]


def test_what_is_already_known_is_not_asked():
    sparse = Broker({0: [10, 900]})
    look_up(sparse.ends(), list(range(400)), sparse.ask, sparse.read, width=1)
    assert (sparse.asked, sparse.spans) == (2, {})


def test_sparse_partitions_are_read():
    """Two questions for each, then partition 0's thousand records between the two answers; partition 1 has
    too many, and is asked."""
    broker = Broker({0: list(range(0, 2000, 2)), 1: [at // 300 for at in range(300_000)]})
    look_up(broker.ends(), list(range(1, 999, 2)), broker.ask, broker.read, width=1)
    assert broker.spans == {0: (1, 499)}
    assert broker.asked == 2 + 2 + 498


def test_many_questions_go_through_several_connections():
    """8,761 instants of a year; one partition's day is one share."""
    assert [len(share) for share in divided(range(8761), 4)] == [4380, 4381]
    assert divided(range(24), 4) == [range(24)]


def test_nothing_is_asked_about_no_instants():
    broker = Broker({0: [10]})
    assert len(look_up({0: 1}, [], broker.ask, broker.read, width=4)[0].offsets) == 0
    assert broker.asked == 0
