"""Events of an ad exchange of one's own: what was sent, and the rows that it has to become."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC, PARTITIONS = "ads", 4
COUNTRIES = ("CH", "DE", "FR", "JP", "BR")
SEED, COUNT, HOURS = 20261120, 200_000, 3
SECONDS = 60


@dataclass(frozen=True)
class Sent:
    id: int
    table: str
    at: datetime
    price: Decimal
    country: str
    tags: tuple[str, ...]

    def text(self) -> bytes:
        event = {
            "type": self.table,
            "timestamp": f"{self.at:%Y-%m-%dT%H:%M:%S}.{self.at.microsecond // 1000:03}Z",
            "id": self.id,
            "price": float(self.price),
            "user": {"country": self.country},
            "tags": list(self.tags),
        }
        return json.dumps(event).encode()

    @property
    def row(self) -> tuple:
        """id, time in ms, price, country, tags, and the slice as seconds."""
        hour = self.at.replace(minute=0, second=0, microsecond=0)
        tags = "[" + ",".join(f"'{tag}'" for tag in self.tags) + "]"
        ms = round(self.at.timestamp() * 1000)
        return (self.id, ms, self.price, self.country, tags, int(hour.timestamp()))


def made(start: datetime) -> list[Sent]:
    """The same for each `start`, but for their times: `HOURS` hours from there, in the order of their ids."""
    dice = random.Random(SEED)
    events = []
    for number, ms in enumerate(sorted(dice.randrange(HOURS * 3_600_000) for _ in range(COUNT))):
        at = start + timedelta(milliseconds=ms)
        price = Decimal(dice.randrange(1, 100_000)) / 100
        tags = tuple(f"t{dice.randrange(50)}" for _ in range(dice.randrange(4)))
        kind = "clicks" if dice.random() < 0.2 else "bids"
        events.append(Sent(number, kind, at, price, dice.choice(COUNTRIES), tags))
    return events


def first_hour(now: datetime) -> datetime:
    """So that the last of the hours is over, and was so for an hour."""
    return now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS + 1)


def publish(bootstrap: str, events: Sequence[Sent]) -> None:
    """Each record's time is its event's."""
    topic = NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([topic])[TOPIC].result(SECONDS)
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    for event in events:
        producer.poll(0)
        while True:
            try:
                producer.produce(
                    TOPIC,
                    event.text(),
                    partition=event.id % PARTITIONS,
                    timestamp=round(event.at.timestamp() * 1000),
                    on_delivery=lambda error, _: refused.append(error) if error else None,
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(SECONDS) == 0 and refused == []
