"""Where a broker fails to look instants up, batches are read: the answers are Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.kafka.lookups import NONE
from sluice.clients.kafka.record_batch import StoredBatch, stored_batches
from sluice.clients.kafka.topics import EARLIER_MS, by_reading, first_at
from tests.support.stored_batch import batch, record

LOG_APPEND, CONTROL = 0x08, 0x20
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
T = 100 * DAY


def stored(start: int, stamps: list[int], attributes: int = 0) -> StoredBatch:
    """One batch; the broker's own stamp is the last of them."""
    own = [record(n, b"v", stamp=at - stamps[0]) for n, at in enumerate(stamps)]
    data = batch(own, len(own), "gzip", stamps[0], attributes, start)
    latest = stamps[-1] if attributes & LOG_APPEND else max(*stamps, -1)
    (found,) = stored_batches(data[:35] + latest.to_bytes(8, "big", signed=True) + data[43:])
    return found


@dataclass
class Log:
    """Batches of stamps from offset 0 on; a broker that fails wherever it has to look into one of `bombs`."""

    shape: list[list[int]]
    bombs: set[int]
    gone: int = 0
    asked: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)

    @property
    def records(self) -> list[tuple[int, int]]:
        return list(enumerate(at for stamps in self.shape for at in stamps))

    @property
    def starts(self) -> list[int]:
        return [sum(map(len, self.shape[:number])) for number in range(len(self.shape))]

    def first(self, instant: int) -> tuple[int, int]:
        """Kafka's rule, record by record."""
        late = (row for row in self.records if row[0] >= self.gone and row[1] >= instant)
        return next(late, (NONE, -1))

    def ask(self, instant: int) -> tuple[int, int] | None:
        self.asked.append(instant)
        for number, stamps in enumerate(self.shape):
            if self.starts[number] + len(stamps) > self.gone and max(stamps) >= instant:
                if number in self.bombs:
                    return None
                if self.first(instant)[0] < self.starts[number] + len(stamps):
                    break
        return self.first(instant)

    def batches(self, start: int) -> Iterator[StoredBatch]:
        for number, stamps in enumerate(self.shape):
            if self.starts[number] + len(stamps) > start:
                self.read.append(number)
                yield stored(self.starts[number], stamps)

    def answers(self, instants: list[int]) -> list[tuple[int, int]]:
        return by_reading(self.ask, self.batches, self.gone, instants)


AROUND = [0, 1, MINUTE - 1, MINUTE, HOUR, DAY, 31 * DAY, 33 * DAY]
STAMPS = st.sampled_from([T + sign * at for at in AROUND for sign in (-1, 1)])


@given(
    st.lists(st.lists(STAMPS, min_size=1, max_size=4), min_size=1, max_size=6),
    st.sets(st.integers(0, 5)),
    st.lists(STAMPS, min_size=1, max_size=5, unique=True).map(sorted),
    st.integers(0, 3),
)
def test_every_answer_is_that_of_the_rule(shape, bombs, instants, gone):
    log = Log(shape, bombs, gone)
    assert log.answers(instants) == [log.first(instant) for instant in instants]


@pytest.mark.parametrize(
    ("shape", "answer", "asked", "read"),
    [
        ([[T - 2 * HOUR], [T - 1], [T + 5], [T + 9]], (2, T + 5), [MINUTE], [1, 2]),
        ([[T - 2 * HOUR], [T - HOUR], [T + 5]], (2, T + 5), [MINUTE, HOUR], [1, 2]),
        ([[T - 40 * DAY], [T - 39 * DAY], [T]], (2, T), list(EARLIER_MS), [0, 1, 2]),
        ([[T - 1, T - 2], [T - 9], [T - 3, T + 7, T + 1]], (4, T + 7), [MINUTE], [0, 1, 2]),
        ([[T - 1], [T - 1], [T - 1, T - 2]], (NONE, -1), [MINUTE], [0, 1, 2]),
    ],
    ids=["a busy topic", "no record for a minute", "a quiet topic", "in no order", "none is that late"],
)
def test_what_is_asked_and_what_is_read(shape, answer, asked, read):
    """The third batch is the bomb; reading begins at the first answer that the broker gives."""
    log = Log(shape, {2})
    assert log.answers([T]) == [answer]
    assert [T - at for at in log.asked] == asked
    assert log.read == read


def test_one_read_answers_the_hours_before_a_bomb_that_has_none():
    log = Log([[T - 1], [T + 5 * HOUR]], {1})
    answers = log.answers([T + n * HOUR for n in range(8)])
    assert answers == [(1, T + 5 * HOUR)] * 6 + [(NONE, -1)] * 2
    assert log.read == [0, 1]


HOURS = [T + n * HOUR for n in range(64)]


@pytest.mark.parametrize(
    ("shape", "bombs", "failures", "questions"),
    [
        ([[T - 90 * DAY], [T + 63 * HOUR]], {1}, 4, 4),
        ([[T - 90 * DAY], HOURS], {1}, 4, 4),
        ([[T - 90 * DAY], HOURS[:32], *([at] for at in HOURS[32:])], {1}, 4, 4 + 32),
        ([[T - 90 * DAY], HOURS[:32], HOURS[32:]], {1, 2}, 6, 6),
    ],
    ids=["a gap before it", "it is of many hours", "hours behind it", "two in a row"],
)
def test_questions_that_fail_are_few(shape, bombs, failures, questions):
    """Each costs the broker all its memory. That of the first hour has failed before."""
    log = Log(shape, bombs)
    assert log.answers(HOURS) == [log.first(instant) for instant in HOURS]
    failing = [instant for instant in list(log.asked) if log.ask(instant) is None]
    assert (len(failing), len(log.asked) // 2) == (failures, questions)


@pytest.mark.parametrize(
    ("stamps", "attributes", "start", "answer"),
    [
        ([T - 2, T, T + 1], 0, 7, (8, T)),
        ([T - 2, T, T + 1], 0, 9, (9, T + 1)),
        ([T + 3, T, T + 1], 0, 7, (7, T + 3)),
        ([T - 9, T - 9, T + 1], LOG_APPEND, 7, (7, T + 1)),
        ([T + 9, T + 9, T - 1], LOG_APPEND, 7, (NONE, -1)),
        ([T], CONTROL, 7, (7, T)),
        ([-1, -5], 0, 7, (NONE, -1)),
    ],
    ids=["the second", "from an offset on", "no order", "the broker's", "too early", "a marker", "no times"],
)
def test_the_first_record_of_one_batch(stamps, attributes, start, answer):
    assert first_at([stored(7, stamps, attributes)], start, T)[0] == answer
