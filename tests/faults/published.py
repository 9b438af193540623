"""The events that racers land: which records there are, and what is in them."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.landing_world import World, event

CLICKS, OTHER = "click", "*"
TOPIC = ("dc1", "bids")
REJECTED_ROW, REJECTED_RECORDS = "x", b"oops"
_EVERY_MINUTES = 2


@dataclass(frozen=True)
class Published:
    """One record: `n` is the text of its field; a record that cannot be parsed has no type."""

    partition: int
    offset: int
    hour: int
    kind: str
    n: str
    value: bytes


def publish(count: int) -> tuple[World, list[Published]]:
    """`count` hours of two partitions, and their records; of each hour some do not fit or do not parse."""
    logs: list[list[tuple[bytes | None, int]]] = [[], []]
    records = []
    for minute in range(0, 60 * count, _EVERY_MINUTES):
        number = minute // _EVERY_MINUTES
        partition, kind = number % 2, ("click", "bid", "click", "noise", "click")[number % 5]
        n = REJECTED_ROW if number % 11 == 3 else str(number)
        value, at = event(kind, minute, n=n)
        if number % 17 == 5:
            kind, value = "", REJECTED_RECORDS
        records.append(Published(partition, len(logs[partition]), minute // 60, kind, n, value))
        logs[partition].append((value, at))
    return World({TOPIC: logs}), records
