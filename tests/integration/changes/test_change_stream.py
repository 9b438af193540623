"""A real change stream: PostgreSQL's changes through Debezium into the broker, and through Sluice with kills.
The newest row of each key, in the log and in `latest`, is the source table's, also after a reland.

Kafka Connect is killed in the middle, so that changes come again. The records are then copied, as they are,
into a topic whose stamps lie in past hours: Connect gives them those of now.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect import get_client
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from local.readiness import wait_until
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Land, Point, TableLoad
from sluice.slices import SliceRange, to_ms
from sluice.state.departed_tables import creation
from tests.faults.kills_nursery import Flow, Nursery
from tests.faults.kills_points import Order, give, name_of, obeyed
from tests.faults.kills_trials import TERM
from tests.support.change_stream import Connect, Postgres, debezium, postgres
from tests.support.spark_world import START, hours

pytestmark = [pytest.mark.integration, pytest.mark.long]  # Kafka Connect alone takes half a minute to start

CHANGES = 10_000
PARTITIONS = 2
HOURS = 4
PIECE = 1_000
SECONDS = 240
MARK = -1
"""The id of the row that is inserted last."""

SOURCE = """
CREATE SCHEMA shop;
CREATE TABLE shop.customer (id bigint PRIMARY KEY, email text NOT NULL, nick text, day date NOT NULL,
    seen timestamp NOT NULL, at timestamptz, price numeric(12, 4) NOT NULL, attrs jsonb NOT NULL, token uuid);
"""
ROWS = """
COPY (SELECT json_build_array(id::text, email, nick, day::text, to_char(seen, 'YYYY-MM-DD HH24:MI:SS.US'),
    to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), price::text, attrs::text, token::text)
  FROM shop.customer) TO STDOUT WITH (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')
"""
LOG = """
CREATE TABLE {name}.customer_log (id Int64, email String, nick Nullable(String), day Date32,
    seen DateTime64(6, 'UTC'), at Nullable(DateTime64(6, 'UTC')), price Decimal(12, 4), attrs String,
    token Nullable(UUID), deleted Bool, lsn UInt64,
    _topic LowCardinality(String), _partition Int32, _offset Int64, _slice DateTime('UTC'),
    _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY (_slice, id)
"""
SHOWN = """toString(id), email, nick, toString(day), toString(seen), toString(at), toDecimalString(price, 4),
    attrs, toString(token)"""
NEWEST = f"""
SELECT * EXCEPT gone FROM (
    SELECT argMax(tuple({SHOWN}), (lsn, _offset)) AS row, argMax(deleted, (lsn, _offset)) AS gone
    FROM {{name}}.customer_log GROUP BY id) WHERE NOT gone
"""

LATEST = f"SELECT tuple({SHOWN}) FROM {{name}}.customer FINAL"


@dataclass
class Workload:
    """Changes of every kind, by a seed: ids that were deleted come again, and rows change their keys."""

    chance: random.Random

    def __post_init__(self) -> None:
        self.live: list[int] = []
        self.free = list(range(1, CHANGES))
        self.chance.shuffle(self.free)

    def statements(self, count: int) -> Iterator[str]:
        for _ in range(count):
            kind = self.chance.choices(("insert", "update", "delete", "key"), (40, 35, 15, 10))[0]
            yield getattr(self, kind)() if self.live else self.insert()

    def insert(self) -> str:
        self.live.append(self.free.pop())
        return f"INSERT INTO shop.customer VALUES ({self.live[-1]}, {', '.join(self.values())})"

    def update(self) -> str:
        columns = ("email", "nick", "day", "seen", "at", "price", "attrs", "token")
        pairs = [f"{name} = {value}" for name, value in zip(columns, self.values(), strict=True)]
        some = self.chance.sample(pairs, self.chance.randrange(1, len(pairs)))
        return f"UPDATE shop.customer SET {', '.join(some)} WHERE id = {self.chance.choice(self.live)}"

    def delete(self) -> str:
        return f"DELETE FROM shop.customer WHERE id = {self.taken()}"

    def key(self) -> str:
        old, new = self.taken(), self.free.pop(0)
        self.live.append(new)
        return f"UPDATE shop.customer SET id = {new} WHERE id = {old}"

    def taken(self) -> int:
        """Takes a row out; its id may come again."""
        gone = self.live.pop(self.chance.randrange(len(self.live)))
        self.free.append(gone)
        return gone

    def values(self) -> list[str]:
        c = self.chance
        attrs = json.dumps(
            {"n": c.randrange(10**18), "price": c.choice([1.5, None]), "tags": ["é", '"', "\\"]}
        )
        return [
            f"'{c.randrange(10**6)}@example.com'",
            c.choice(["NULL", "'x'", "'Zoë ''n'''", "''"]),
            f"DATE '1900-01-01' + {c.randrange(146_000)}",
            f"TIMESTAMP '1900-01-01' + {c.randrange(4 * 10**15)} * INTERVAL '1 us'",
            c.choice(["NULL", f"to_timestamp({c.randrange(4 * 10**9)})"]),
            f"{c.randrange(-(10**12), 10**12)} / 10000.0",
            f"'{attrs}'",
            c.choice(["NULL", "gen_random_uuid()"]),
        ]


@pytest.fixture
def source() -> Iterator[Postgres]:
    with postgres() as server:
        server.run(SOURCE)
        yield server


def records(bootstrap: str, topic: str) -> dict[int, list[Any]]:
    """Returns all records of the topic, by partition; nothing of a topic that is not there yet."""
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "log_level": 0})
    try:
        found: dict[int, list[Any]] = {}
        for number in client.list_topics(topic, 30).topics[topic].partitions:
            place, rows = TopicPartition(topic, number, OFFSET_BEGINNING), []
            _, end = client.get_watermark_offsets(place, 30)
            client.assign([place])
            while len(rows) < end:
                rows += client.consume(end - len(rows), 30)
            found[number] = rows
        return found
    finally:
        client.close()


def has_mark(bootstrap: str, topic: str) -> bool:
    keys = (record.key() for rows in records(bootstrap, topic).values() for record in rows)
    return any(json.loads(key)["payload"]["id"] == MARK for key in keys)


def changed(source: Postgres, work: Workload, connect: Connect, bootstrap: str, topic: str) -> None:
    """Makes all changes but the first tenth, and waits until they are in the topic."""

    def comes(count: int) -> None:
        def is_there() -> bool:
            return sum(map(len, records(bootstrap, topic).values())) >= count

        wait_until(is_there, f"{count:,} changes", SECONDS, check=connect.alive, poll=1)

    comes(len(work.live))  # the snapshot
    began = time.time()
    source.run(";\n".join(work.statements(CHANGES // 2)) + ";")
    comes(CHANGES // 4)
    wait_until(lambda: connect.committed_after(began), "an offset", SECONDS, check=connect.alive, poll=0.1)
    connect.kill()
    connect.start()
    transactions = [*work.statements(CHANGES - CHANGES // 2 - CHANGES // 10)]
    for start in range(0, len(transactions), 50):
        source.run("BEGIN;\n" + ";\n".join(transactions[start : start + 50]) + ";\nCOMMIT;")
    source.run(f"INSERT INTO shop.customer VALUES ({MARK}, {', '.join(work.values())})")
    wait_until(
        lambda: has_mark(bootstrap, topic), "Debezium's last change", SECONDS, check=connect.alive, poll=2
    )


def copy(bootstrap: str, topic: str, into: str) -> int:
    """Copies the records, in their order, with stamps in HOURS past hours. Returns how many there are."""
    server = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(server)
    admin.create_topics([NewTopic(into, PARTITIONS, 1)])[into].result(30)
    producer, found = Producer(server), records(bootstrap, topic)
    for number, rows in found.items():
        for record in rows:
            at = to_ms(START) + record.offset() * HOURS * 3_600_000 // len(rows)
            producer.produce(into, record.value(), record.key(), number, timestamp=at)
            producer.poll(0)
    assert producer.flush(60) == 0
    return sum(map(len, found.values()))


@dataclass
class Story:
    pipeline: Pipeline
    clickhouse: int
    orders: Path
    nursery: Nursery

    def run(self, slices: SliceRange, mode: str, killed_at: Point) -> None:
        """Runs the steps, killed at a point, and then again to their end."""
        give(self.orders, Order(name_of(killed_at)))
        flow = Flow(self.pipeline, slices, self.clickhouse, self.orders, None, mode, mode, piece=PIECE)
        assert self.nursery.run(flow) == -9, self.nursery.said
        assert obeyed(self.orders)
        assert self.nursery.run(flow) == 0, self.nursery.said


def test_the_newest_rows_are_those_of_the_source(
    source: Postgres, kafka_broker: str, clickhouse_server, tmp_path, name
):
    topic, again = f"{name}.shop.customer", f"{name}.again"
    work = Workload(random.Random(7))
    source.run(";\n".join(work.statements(CHANGES // 10)) + ";")
    with debezium(tmp_path / "connect", source, kafka_broker, name, "shop.customer", PARTITIONS) as connect:
        changed(source, work, connect, kafka_broker, topic)
    sent = copy(kafka_broker, topic, again)
    assert sent > CHANGES
    pipeline = Pipeline.model_validate(
        {
            "name": name,
            "kafka": [{"cluster": "dc1", "bootstrap": kafka_broker, "topics": [again]}],
            "event": {
                "change": "debezium",
                "type": {"field": "__source.table"},
                "time": {"record": True},
            },
            "lake": f"file://{tmp_path}/lake",
            "clickhouse": {"lease": TERM},
            "tables": {
                "customer": {
                    "table": f"{name}.customer_log",
                    "columns": {"deleted": "__deleted", "lsn": "__source.lsn"},
                    "latest": {
                        "table": f"{name}.customer",
                        "key": ["id"],
                        "version": ["lsn"],
                        "deleted": "deleted",
                    },
                }
            },
        }
    )
    orders = tmp_path / "orders"
    orders.mkdir()
    nursery = Nursery(tmp_path)
    with get_client(**clickhouse_server.at.login) as client:
        client.command(f"CREATE DATABASE {name}")
        client.command(LOG.format(name=name))
        client.command(creation(pipeline, pipeline.targets[-1]).partition(": ")[2])
        story = Story(pipeline, clickhouse_server.at.port, orders, nursery)
        points = (Land.READ, Land.COMMITTED, TableLoad.STAGED, TableLoad.MOVED)
        for hour, point in enumerate(points):
            story.run(hours(hour, hour + 1), "fill", point)
        expected = sorted(map(shown, source.run(ROWS).splitlines()))
        assert len(expected) > CHANGES // 8
        check(client, name, expected)
        story.run(hours(1, 3), "reland", TableLoad.DELETED)
        check(client, name, expected)
        story.run(hours(0, 4), "reload", TableLoad.COMMITTED)
        check(client, name, expected)
        assert client.query(f"SELECT count() FROM {name}.customer_log").first_row[0] < sent  # tombstones
        assert (
            client.command(f"SELECT count() FROM sluice.rejected WHERE target = '{name}.customer_log'") == 0
        )
    nursery.close()


def check(client: Any, name: str, expected: list[list[Any]]) -> None:
    for query in (NEWEST, LATEST):
        text = client.raw_query(query.format(name=name), fmt="JSONCompactEachRow").decode()
        assert sorted(shown(line[1:-1]) for line in text.splitlines()) == expected


def shown(line: str) -> list[Any]:
    """Returns a row whose JSON is written as one writer writes it."""
    row: list[Any] = json.loads(line)
    row[7] = json.dumps(json.loads(row[7]), sort_keys=True)
    return row
