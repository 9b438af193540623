"""A loader as many are: Kafka's client commits offsets by itself while rows go into ClickHouse in batches.

python auto_commit_loader.py < settings.json

What it has taken from Kafka counts as read from the next commit on, whether it is inserted or not. It gets
few records at a time, so that a batch is open for long.
"""

import json
import sys
import urllib.parse
import urllib.request
from typing import Any

from confluent_kafka import Consumer

BATCH = 60


def insert(settings: dict[str, Any], rows: list[str]) -> None:
    query = f"INSERT INTO {settings['table']} FORMAT JSONEachRow"
    options = {"input_format_skip_unknown_fields": 1, "date_time_input_format": "best_effort"}
    request = urllib.request.Request(
        f"{settings['url']}/?{urllib.parse.urlencode({'query': query, **options})}",
        data="\n".join(rows).encode(),
        headers={"X-ClickHouse-User": settings["user"], "X-ClickHouse-Key": settings["password"]},
    )
    urllib.request.urlopen(request, timeout=60).close()


def main() -> None:
    settings = json.load(sys.stdin)
    consumer = Consumer(
        {
            "bootstrap.servers": settings["bootstrap"],
            "group.id": settings["group"],
            "group.instance.id": "loader",  # it takes its own place again after a kill
            "auto.offset.reset": "earliest",
            "enable.auto.commit": True,
            "auto.commit.interval.ms": 50,
            "session.timeout.ms": 6000,
            "fetch.message.max.bytes": 512,
            "queued.min.messages": 1,
            "fetch.queue.backoff.ms": 5,
            "log_level": 0,
        }
    )
    consumer.subscribe([settings["topic"]])
    rows: list[str] = []
    while True:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            rows.append(message.value().decode())
        if rows and (message is None or len(rows) == BATCH):
            insert(settings, rows)
            rows = []


if __name__ == "__main__":
    main()
