"""A broker of one of two clusters is killed while Spark reads its records."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from confluent_kafka import Producer

from local.readiness import wait_until
from local.services import KafkaBroker
from tests.integration.land.test_clusters import (  # noqa: F401 (fixtures)
    H0,
    H1,
    H2,
    RANGE,
    START,
    Both,
    both,
    event_rows,
    second,
)

pytestmark = [pytest.mark.faults, pytest.mark.long]  # Spark waits a minute for a broker that is gone

MANY, PER_READ = 150_000, 1_500  # a hundred tasks: the job of dc2 takes long enough to be met in the middle


def publish_many(bootstrap: str, topic: str) -> None:
    """Behind what is there, in the last hour."""
    room = {"queue.buffering.max.messages": 2 * MANY}
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 50, **room})
    at = START + timedelta(hours=2, minutes=50)
    value = json.dumps({"id": "many", "type": "n", "created_at": at.isoformat(), "pad": "x" * 200}).encode()
    for number in range(MANY):
        producer.produce(topic, value, partition=0, timestamp=int(at.timestamp() * 1000))
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def files_of(both: Both, cluster: str) -> list[str]:  # noqa: F811
    found = [path for path in both.lake.rglob("*.parquet") if f"-{cluster}-" in path.name]
    return [str(path) for path in [*found, *both.lake.glob("_attempts/**/*.parquet")]]


def test_the_units_of_the_cluster_that_did_answer_are_committed(both: Both, second: KafkaBroker):  # noqa: F811
    publish_many(second.bootstrap, both.name)
    both.write_clusters("dc1", "dc2", rows_per_read=PER_READ)
    process = both.start("run", *RANGE)
    committed = both.lake / "_slices" / H2 / "dc1" / "_SUCCESS"
    wait_until(committed.exists, "dc1 has landed", 240)
    wait_until(lambda: any(both.lake.glob("_attempts/**/*.parquet")), "dc2 is being read", 120)
    second.kill()
    _, said = process.communicate(timeout=600)

    assert process.returncode == 3, said
    (line,) = [line for line in said.splitlines() if line.startswith("sluice:")]
    assert "'dc2'" in line and f"({H0} … {H2})" in line
    assert both.states() == {
        f"{hour}/{cluster}": "complete" if cluster == "dc1" else "missing"
        for hour in (H0, H1, H2)
        for cluster in ("dc1", "dc2")
    }
    assert both.found() == event_rows(["dc1"])
    assert files_of(both, "dc2") == []

    second.start()
    both.do("run", *RANGE)
    counts = both.rows("SELECT _cluster, count(), uniqExact(_offset) FROM DB.other GROUP BY _cluster")
    one, two = len(event_rows(["dc1"])), len(event_rows(["dc2"])) + MANY
    assert sorted(counts) == [("dc1", one, one), ("dc2", two, two)]
    both.do("verify", *RANGE)
