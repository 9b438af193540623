"""Finds the first record at or after an instant where the broker fails to: it unpacks the whole batch that
holds the answer, and a small one may hold more than its memory.

The rule is Kafka's (FileRecords.searchForTimestamp): the first offset whose record is stamped so, also of a
marker or an aborted record. Stamps are in any order, so offsets cannot be bisected. But the answer to an
earlier instant lies before or on that of a later one: batches are read from such an answer on, and their
headers say which of them to unpack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from sluice.clients.kafka.batch_records import stamps_of
from sluice.clients.kafka.lookups import NONE
from sluice.clients.kafka.record_batch import StoredBatch

OffsetAndTime = tuple[int, int]
"""Offset and timestamp in milliseconds; the offset is NONE when no record is that late."""

# How much earlier to ask. A broker fails again where no record lies between, so there are few steps.
EARLIER_MS = (60_000, 3_600_000, 86_400_000, 32 * 86_400_000)


def by_reading(
    ask: Callable[[int], OffsetAndTime | None],
    batches: Callable[[int], Iterable[StoredBatch]],
    log_start: int,
    instants: Sequence[int],
) -> list[OffsetAndTime]:
    """Answers to the instants, in milliseconds and ascending, of which the broker has failed at the first.

    `ask` gives a broker's answer, None where it fails: that costs it all its memory, so it is not asked for
    what is known to lie in a batch at which it fails. `batches` gives all batches from the one on that holds
    an offset. Raises Unreadable.
    """
    answers: list[OffsetAndTime] = []
    held: StoredBatch | None = None  # in which the last answer was found by reading
    for instant in instants:
        last = answers[-1] if answers else None
        if last is not None and (last[0] == NONE or instant <= last[1]):
            answers.append(last)
            continue
        answer: OffsetAndTime | None = None
        if last is not None and held is not None and instant <= held.max_stamp:
            answer, _ = first_at([held], last[0], instant)
            answer = None if answer[0] == NONE else answer
        elif last is not None:
            answer = ask(instant)
            held = held if answer is None else None
        if answer is None:
            start = _start(ask, log_start, instant, last, held)
            answer, held = ((NONE, -1), None) if start == NONE else first_at(batches(start), start, instant)
        answers.append(answer)
    return answers


def first_at(
    batches: Iterable[StoredBatch], start: int, instant: int
) -> tuple[OffsetAndTime, StoredBatch | None]:
    """Returns the first record from `start` on that is stamped at or after the instant, and its batch."""
    for batch in batches:
        if batch.max_stamp >= instant:
            for offsets, stamps in stamps_of(batch):
                late = np.flatnonzero((offsets >= start) & (stamps >= instant))
                if len(late):
                    return (int(offsets[late[0]]), int(stamps[late[0]])), batch
    return (NONE, -1), None


def _start(
    ask: Callable[[int], OffsetAndTime | None],
    log_start: int,
    instant: int,
    last: OffsetAndTime | None,
    held: StoredBatch | None,
) -> int:
    """Returns an offset that the answer does not lie before; NONE where there is no record that late."""
    held_stamp = held.max_stamp if held is not None else None
    for before in EARLIER_MS:
        if last is not None and held_stamp is not None and instant - before <= held_stamp:
            return last[0]
        answer = ask(max(instant - before, 0))
        if answer is not None:
            return answer[0]
    return log_start if last is None else last[0]
