"""Two real brokers in one pipeline: same topic names, overlapping offsets, and one of them goes away."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from local.services import KafkaBroker
from tests.integration.land.test_main_job import END, RANGE, START, SYSTEM_COLUMNS, User

pytestmark = pytest.mark.integration

PER_HOUR = {"dc1": (0, 30, 20), "dc2": (5, 25, 45)}  # records by hour; offsets overlap
H0, H1, H2 = (f"{START + timedelta(hours=h):%Y-%m-%dT%HZ}" for h in range(3))
FIRST = ("--from", START.isoformat(), "--to", (START + timedelta(hours=1)).isoformat())
LATER = ("--from", FIRST[3], "--to", END.isoformat())
Row = tuple[str, int, str]
"""Cluster, offset and the event's own name."""


class Both(User):
    """`brokers`: by cluster its address."""

    brokers: dict[str, str]

    def write_clusters(self, *clusters: str, **changes) -> None:
        kafka = [{"cluster": c, "bootstrap": self.brokers[c], "topics": [self.name]} for c in clusters]
        # An event hour is complete when its own slice has landed from every cluster.
        self.write(kafka=kafka, tables={"n": f"{self.name}.other"}, grace="0s", max_early="0s", **changes)

    def found(self) -> list[Row]:
        sql = "SELECT _cluster, _offset, JSONExtractString(_payload, 'id') FROM DB.other"
        return sorted((c, int(o), name) for c, o, name in self.rows(sql))

    def states(self) -> dict[str, str]:
        units = json.loads(self.do("status", *RANGE, "--json"))["units"]
        return {f"{unit['slice']}/{unit['cluster']}": unit["state"] for unit in units}

    def marked(self) -> list[str]:
        """The event hours of the type that has a table."""
        return sorted(path.parent.name for path in self.lake.glob("type=*/date=*/hour=*/_SUCCESS"))

    def refused(self, command: str, *arguments: str) -> tuple[int, list[str], str]:
        """Exit code, the lines that say why, and all that was printed."""
        done = self.type(command, *arguments)
        assert "Traceback" not in done.stderr, done.stderr
        lines = [line for line in done.stderr.splitlines() if line.startswith("sluice:")]
        return done.returncode, lines, done.stdout


def event_rows(clusters: Iterable[str] = PER_HOUR) -> list[Row]:
    return sorted((c, o, f"{c}-{o}") for c in clusters for o in range(sum(PER_HOUR[c])))


def publish(bootstrap: str, topic: str, cluster: str) -> None:
    """One partition, so that an event's offset is its number."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, 1, 1, topic_configs={"retention.ms": "-1"})])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=50)
    number = 0
    for hour, count in enumerate(PER_HOUR[cluster]):
        for minute in range(count):
            at = START + timedelta(hours=hour, minutes=minute)
            value = {"id": f"{cluster}-{number}", "type": "n", "created_at": at.isoformat()}
            stamp = int(at.timestamp() * 1000)
            producer.send(topic, json.dumps(value).encode(), partition=0, timestamp_ms=stamp)
            number += 1
    producer.close()


@pytest.fixture
def second(start_kafka_broker) -> KafkaBroker:
    return start_kafka_broker()


@pytest.fixture
def both(name, tmp_path: Path, stack_env, clickhouse_server, kafka_broker, second) -> Both:
    user = Both(name, tmp_path, stack_env, clickhouse_server)
    user.brokers = {"dc1": kafka_broker, "dc2": second.bootstrap}
    columns = f"_payload String, {SYSTEM_COLUMNS}"
    user.client.command(f"CREATE TABLE {name}.other ({columns}) ENGINE = MergeTree ORDER BY _slice")
    for cluster, bootstrap in user.brokers.items():
        publish(bootstrap, name, cluster)
    return user


@pytest.mark.long
def test_a_cluster_is_added_goes_away_comes_back_and_is_taken_away(both: Both, second: KafkaBroker):
    both.write_clusters("dc1")
    both.do("run", *FIRST)
    second.kill()
    both.write_clusters("dc1", "dc2")

    code, (line,), shown = both.refused("run", *LATER)
    assert code == 3
    for part in ("'dc2'", second.bootstrap, "2 hours have not landed", f"({H1} … {H2})", "`sluice run "):
        assert part in line
    assert f"missing from dc2: 2 not landed ({H1} … {H2})" in shown
    # The first hour does not wait for it: nobody has asked it for that.
    complete = dict.fromkeys((f"{hour}/dc1" for hour in (H0, H1, H2)), "complete")
    assert both.states() == complete | dict.fromkeys((f"{H1}/dc2", f"{H2}/dc2"), "missing")
    assert both.found() == event_rows(["dc1"])
    assert both.marked() == [f"hour={H0[11:13]}"]
    code, (line,), shown = both.refused("plan", *RANGE)
    assert (code, "'dc2'" in line, shown.count("wait for the cluster")) == (3, True, 3)
    code, _, shown = both.refused("verify", *RANGE, "--json")
    kinds = {(a["kind"], a["cluster"]) for a in json.loads(shown)["anomalies"]}
    assert (code, kinds) == (1, {("incomplete", "dc2")})

    second.start()
    both.do("run", *RANGE)  # asks it for the first hour, too
    units = {f"{hour}/{cluster}" for hour in (H0, H1, H2) for cluster in ("dc1", "dc2")}
    assert both.states() == dict.fromkeys(units, "complete")
    assert both.found() == event_rows()
    assert both.marked() == sorted(f"hour={hour[11:13]}" for hour in (H0, H1, H2))
    assert json.loads(both.do("verify", *RANGE, "--json"))["anomalies"] == []

    second.kill()
    both.write_clusters("dc1")
    before = both.tables()
    both.do("run", *RANGE, "--mode", "reload")
    assert both.tables() == before
    assert json.loads(both.do("verify", "--json"))["anomalies"] == []
    ledger = "SELECT cluster, uniqExact(slice), uniqExact(generation) FROM sluice.ledger WHERE target = "
    found = both.rows(
        f"{ledger}'{both.name}.other' AND state = 'committed' GROUP BY cluster ORDER BY cluster"
    )
    assert [(cluster, slices) for cluster, slices, _ in found] == [("dc1", 3), ("dc2", 3)]
    assert all(loads >= 2 for _, _, loads in found)  # the lake's, again, for both
