"""Times in another unit than the file says, and a topic that was added later: what the commands say of it."""

from __future__ import annotations

import json
from pathlib import Path

import pendulum
import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.state.notes import newest
from tests.integration.land.test_main_job import RANGE, START, SYSTEM_COLUMNS, User

pytestmark = pytest.mark.integration


@pytest.fixture
def user(name, tmp_path, stack_env, clickhouse_server) -> User:
    made = User(name, tmp_path, stack_env, clickhouse_server)
    columns = f"_type String, _payload String, {SYSTEM_COLUMNS}"
    made.client.command(
        f"CREATE TABLE {name}.other ({columns}) ENGINE = MergeTree ORDER BY (_slice, _cluster)"
    )
    return made


def events(user: User, per_second: int) -> Path:
    path = user.folder / f"events-{per_second}.ndjson"
    stamps = [(int(START.timestamp()) + 20 * n) * per_second for n in range(500)]
    path.write_text("".join(json.dumps({"type": "a", "at": stamp}) + "\n" for stamp in stamps))
    return path


@pytest.mark.long
def test_seconds_read_as_milliseconds_and_the_other_way_round(user: User):
    user.write(event={"type": {"field": "type"}, "time": {"field": "at", "format": "epoch_ms"}})
    remedy = "they are probably seconds: set `format: epoch_s` under `event.time`"
    assert remedy in user.type("publish", str(events(user, 1))).stderr
    checks = json.loads(user.type("doctor", "--json").stdout)["checks"]
    assert [c["level"] for c in checks if c["place"] == "event.time" and c["remedy"] == remedy] == ["warn"]
    ran = user.type("run", *RANGE)
    assert ran.returncode == 0 and remedy in ran.stderr
    assert "500 offsets that Kafka holds are outside of every slice" in " ".join(ran.stdout.split())
    lag = json.loads(user.do("status", "--lag", "--json"))["waiting"]["partitions"]
    assert (sum(p["outside"] for p in lag), sum(p["records"] for p in lag)) == (500, 0)
    assert "500 offsets that Kafka holds are outside" in json.dumps(
        json.loads(user.do("verify", "--json"))["notes"]
    )


@pytest.mark.long
def test_what_is_rejected_has_a_total_and_a_plan_knows_what_starting_takes(user: User):
    """Records stamped in their hours, with milliseconds that are read as seconds; then a second topic."""
    user.write(event={"type": {"field": "type"}, "time": {"field": "at", "format": "epoch_s"}})
    bootstrap = json.loads(user.env["AIRFLOW_CONN_KAFKA_DEFAULT"])["extra"]["bootstrap.servers"]
    topics = [user.name, f"{user.name}_later"]
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, 1, 1, topic_configs={"retention.ms": "-1"}) for topic in topics])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    first = int(START.timestamp()) * 1000
    for topic in topics:
        for n in range(300):
            event = json.dumps({"type": "a", "at": first + n}).encode()
            producer.send(topic, event, timestamp_ms=first + n * 10_000)
    producer.close()
    ran = user.do("run", *RANGE)
    said = " ".join(ran.split())
    assert "rejected: 300 of 300 records (300 time out of range): none became a row" in said
    pipeline = read(user.path)
    (timing,) = [t for t in newest(open_lake(pipeline), pendulum.now("UTC")) if t.step == "land"]
    assert timing.before > 1
    later = {"cluster": "feed", "connection": "kafka_default", "topics": topics}
    user.write(kafka=[later], event={"type": {"field": "type"}, "time": {"field": "at", "format": "epoch_s"}})
    parts = json.loads(user.do("status", "--lag", "--json"))["waiting"]["partitions"]
    assert {p["topic"]: p["records"] for p in parts if p["records"]} == {f"{user.name}_later": 300}
    user.do("run", *RANGE)
    parts = json.loads(user.do("status", "--lag", "--json"))["waiting"]["partitions"]
    assert {p["topic"]: (p["records"], p["lacking"]) for p in parts if p["records"]} == {
        f"{user.name}_later": (300, 300)
    }
    assert user.do("plan", *RANGE, "--mode", "reland")
