from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from sluice.kafka.lookups import NONE, Question, Reply, look_up


class Broker:
    """Answers as Kafka's ListOffsets does, and counts the questions."""

    def __init__(self, records: dict[int, list[int]]) -> None:
        self.records = records
        self.asked = 0

    def first(self, partition: int, instant: int) -> tuple[int, int]:
        stamps = self.records[partition]
        return next(((o, at) for o, at in enumerate(stamps) if at >= instant), (NONE, -1))

    def ask(self, questions: Sequence[Question]) -> list[Reply]:
        self.asked += sum(map(len, questions))
        return [{p: self.first(p, at) for p, at in question.items()} for question in questions]


@given(
    st.dictionaries(st.integers(0, 3), st.lists(st.integers(0, 60), max_size=20), max_size=3),
    st.lists(st.integers(0, 70), unique=True, max_size=20).map(sorted),
    st.integers(1, 5),
)
def test_every_answer_is_the_brokers_own(records, instants, width):
    broker = Broker(records)
    found = look_up(list(records), instants, broker.ask, width)
    for partition in records:
        answers = list(zip(found[partition].offsets, found[partition].timestamps, strict=True))
        assert answers == [broker.first(partition, instant) for instant in instants]


def test_what_is_already_known_is_not_asked():
    sparse = Broker({0: [10, 900]})
    look_up([0], list(range(1000)), sparse.ask, width=1)
    assert sparse.asked == 3


def test_nothing_is_asked_about_no_instants():
    broker = Broker({0: [10]})
    assert len(look_up([0], [], broker.ask, width=4)[0].offsets) == 0
    assert broker.asked == 0
