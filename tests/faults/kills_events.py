"""What the kill tests publish, and what has to be everywhere afterwards, computed from that alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pendulum

START = pendulum.datetime(2024, 5, 1)
HOURS = 3
PARTITIONS = 2
CLUSTER, TOPIC = "dc1", "bids"
VIEWED, PLAIN = "clicks", "other"  # one has a view


@dataclass(frozen=True)
class Sent:
    """One record: the hour that it came in, the hour of its event, and what has to become of it."""

    partition: int
    offset: int
    hour: int
    event_hour: int
    kind: str
    id: int
    n: Any
    payload: bytes
    second: int

    @property
    def rejected_records(self) -> bool:
        return self.kind == "rejected_records"

    @property
    def table(self) -> str:
        return VIEWED if self.kind == "click" else PLAIN

    @property
    def fits(self) -> bool:
        return isinstance(self.n, int) and 0 <= self.n < 1 << 16

    @property
    def extra(self) -> tuple[str, ...]:
        """What the column has that a load of VIEWED adds."""
        return (json.loads(self.payload)["extra"],) if self.table == VIEWED else ()

    @property
    def at_ms(self) -> int:
        return int(START.timestamp() * 1000) + (self.hour * 3600 + self.second) * 1000

    @property
    def folder(self) -> str:
        at = START.add(hours=self.event_hour)
        return f"type={self.kind}/date={at:%Y-%m-%d}/hour={at:%H}"


def hour_id(hour: int) -> str:
    return f"{START.add(hours=hour):%Y-%m-%dT%HZ}"


def make(per_hour: int = 14, empty: int | None = 1, start: pendulum.DateTime = START) -> list[Sent]:
    """Hour `empty` gets no record. Every hour has both tables' types, two fields without a column, late
    events, a rejected row in each table and one rejected record."""
    sent: list[Sent] = []
    ends = Counter[int]()
    for hour in range(HOURS):
        for number in range(0 if hour == empty else per_hour):
            partition = number % PARTITIONS
            kind = "rejected_records" if number == 5 else ("click", "click", "bid", "view")[number % 4]
            event_hour = hour - 1 if hour and number % 7 == 4 else hour
            n = {8: 70_000, 2: "x"}.get(number, number * 3)
            key = hour * 1000 + number
            at = start.add(hours=event_hour, seconds=number).isoformat()
            event = {"type": kind, "at": at, "id": key, "n": n, "kind": f"k{number % 3}", "extra": f"e{key}"}
            payload = b"{oops" if kind == "rejected_records" else json.dumps(event).encode()
            record = Sent(partition, ends[partition], hour, event_hour, kind, key, n, payload, number)
            ends[partition] += 1
            sent.append(record)
    return sent


def logs(sent: Sequence[Sent]) -> dict[tuple[str, str], list[list[tuple[bytes, int]]]]:
    """The topic's partitions as tests/support/landing_world.py takes them."""
    found: list[list[tuple[bytes, int]]] = [[] for _ in range(PARTITIONS)]
    for record in sent:
        found[record.partition].append((record.payload, record.at_ms))
    return {(CLUSTER, TOPIC): found}


def expected(sent: Sequence[Sent]) -> dict[str, list]:
    """What kills_state.observed has to find."""
    parsed = [s for s in sent if not s.rejected_records]
    fits = [s for s in parsed if s.fits]
    clicks = [s for s in fits if s.table == VIEWED]
    tables = {
        name: sorted(
            (s.id, s.n, hour_id(s.hour), CLUSTER, s.partition, s.offset, *s.extra)
            for s in fits
            if s.table == name
        )
        for name in (VIEWED, PLAIN)
    }
    kinds = Counter((json.loads(s.payload)["kind"], hour_id(s.hour)) for s in clicks)
    return {
        **tables,
        "readers' views": [len(tables[VIEWED]), len(tables[PLAIN])],
        "materialized view": sorted((*key, count) for key, count in kinds.items()),
        "rejected": sorted(
            (s.table, hour_id(s.hour), "n", str(s.n), s.partition, s.offset) for s in parsed if not s.fits
        ),
        "ledger": sorted(_ledger(parsed)),
        "lake": sorted(
            (s.folder, hour_id(s.hour), s.partition, s.offset, s.payload.decode()) for s in parsed
        ),
        "rejected_records": sorted(
            (hour_id(s.hour), s.partition, s.offset, s.payload, "not JSON")
            for s in sent
            if s.rejected_records
        ),
        "offsets": sorted(_offsets(sent)),
        "marked slices": [hour_id(hour) for hour in range(HOURS)],
        # The last hour waits for its grace: one slice more.
        "marked hours": [
            f"type=click/date={at:%Y-%m-%d}/hour={at:%H}"
            for at in (START.add(hours=hour) for hour in range(HOURS - 1))
        ],
        "files that no manifest names": [],
        "tables left behind": [],
        "columns added": [("at", "Nullable(DateTime64(3, 'UTC'))"), ("extra", "Nullable(String)")],
    }


def _ledger(parsed: Iterable[Sent]) -> list[tuple]:
    """(table, hour, state, of the lake's manifest, rows, rejected rows)"""
    rows = Counter((s.table, s.hour, s.fits) for s in parsed)
    return [
        (table, hour_id(hour), "committed", True, rows[table, hour, True], rows[table, hour, False])
        for table in (VIEWED, PLAIN)
        for hour in range(HOURS)
    ]


def _offsets(sent: Iterable[Sent]) -> list[tuple]:
    """(hour, partition, first offset, the one after the last): an hour's edge is its first later record."""
    counts = Counter((s.hour, s.partition) for s in sent)
    found = []
    for partition in range(PARTITIONS):
        start = 0
        for hour in range(HOURS):
            found.append((hour_id(hour), partition, start, start + counts[hour, partition]))
            start += counts[hour, partition]
    return found
