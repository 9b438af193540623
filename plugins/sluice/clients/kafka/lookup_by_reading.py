"""Finds the first record at or after an instant where the broker fails to: it unpacks the whole batch that
holds the answer, and a small one may hold more than its memory.

The rule is Kafka's (FileRecords.searchForTimestamp): the first offset whose record is stamped so, also of a
marker or an aborted record. Stamps are in any order, so offsets cannot be bisected. But the answer to an
earlier instant lies before or on that of a later one: batches are read from such an answer on, and their
headers say which of them to look into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from sluice.clients.kafka.batch_records import stamps_of
from sluice.clients.kafka.lookups import NONE
from sluice.clients.kafka.record_batch import Stored

Answer = tuple[int, int]
"""Offset and timestamp in milliseconds; the offset is NONE when no record is that late."""

# How much earlier to ask. A broker fails again where no record lies between, so there are few steps.
EARLIER_MS = (60_000, 3_600_000, 86_400_000, 32 * 86_400_000)


def by_reading(
    ask: Callable[[int], Answer | None],
    batches: Callable[[int], Iterable[Stored]],
    log_start: int,
    instants: Sequence[int],
) -> list[Answer]:
    """Answers to the instants, in milliseconds and ascending.

    `ask` gives a broker's answer, None where it fails; `batches` all batches from the one on that holds an
    offset. Raises Unreadable.
    """
    found: list[Answer] = []
    for instant in instants:
        last = found[-1] if found else None
        if last is not None and (last[0] == NONE or instant <= last[1]):
            found.append(last)
        else:
            start = _earlier(ask, instant)
            start = log_start if start is None else start
            found.append((NONE, -1) if start == NONE else first_at(batches(start), start, instant))
    return found


def first_at(batches: Iterable[Stored], start: int, instant: int) -> Answer:
    """The first record from `start` on that is stamped at or after the instant."""
    for batch in batches:
        if batch.max_stamp >= instant:
            for offsets, stamps in stamps_of(batch):
                late = np.flatnonzero((offsets >= start) & (stamps >= instant))
                if len(late):
                    return int(offsets[late[0]]), int(stamps[late[0]])
    return NONE, -1


def _earlier(ask: Callable[[int], Answer | None], instant: int) -> int | None:
    """An offset that the answer does not lie before; None where the broker fails at each."""
    for before in EARLIER_MS:
        answer = ask(max(instant - before, 0))
        if answer is not None:
            return answer[0]
    return None
