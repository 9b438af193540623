"""Sluice takes over from a loader that commits by itself and was killed: docs/guide/migrate.md, kept.

Such a loader loses records that were committed before they were inserted, and repeats those that were
inserted before they were committed. What it has lost and doubled follows from the records, the group's
offsets and its table. `sluice compare` has to list exactly that, and from the boundary on Sluice brings each
record once.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from local.readiness import wait_until
from sluice.cli.commands import commands
from sluice.config.pipeline import Pipeline
from sluice.errors import GroupAtWork, GroupUnusable
from sluice.flow.steps import resolve_range
from tests.faults.fault_log import FaultLog
from tests.faults.topics import SECONDS, START, Topic, hours
from tests.support.documents import ROOT, samples
from tests.support.long_form import per_commit
from tests.support.spark_world import SparkWorld

pytestmark = pytest.mark.faults

LOADER = Path(__file__).with_name("auto_commit_loader.py")
PARTITIONS, RECORDS, LAST = 3, 900, 3
SPAN = hours(0, LAST)
# As the sink of ClickHouse's Connect has it: the event's fields, and nothing of Sluice's.
COLUMNS = "n UInt32, at DateTime64(3, 'UTC'), type LowCardinality(String), note Nullable(String)"
[ADOPT] = (s.text for s in samples((ROOT / "docs/guide/migrate.md").read_text()) if "ADD COLUMN" in s.text)
Differences = dict[int, tuple[str, int, int]]
"""By record the kind of difference, and how often each table has it."""
EDGES = ("--from", f"{START:%Y-%m-%dT%HZ}", "--to", f"{SPAN.end:%Y-%m-%dT%HZ}")


class Takeover:
    """A topic, and a pipeline that has loaded all of it beside whatever else reads it. `rows` are what a
    table may have."""

    def __init__(self, world: SparkWorld, server: Any) -> None:
        self.world, self.server = world, server
        self.topic = Topic(world.bootstrap, world.name).make(PARTITIONS)
        self.rows = set[tuple[object, ...]]()
        for first in range(0, RECORDS, 10):
            numbers, at = range(first, first + 10), first * LAST / RECORDS
            self.topic.send(*numbers, at=at, partition=first // 10 % PARTITIONS)
            self.rows |= {(n, START.int_timestamp + round(at * 3600), "click", None) for n in numbers}
        self.every = Counter(dict.fromkeys(self.topic.sent, 1))
        self.whole = self.pipeline("whole")
        world.table("whole", COLUMNS)
        assert world.run(self.whole, SPAN) == []

    def pipeline(self, table: str, **more: Any) -> Pipeline:
        """Its name is the table's, beside the test's own."""
        name = f"{self.world.name}_{table}"
        own = SparkWorld(name, self.world.folder, self.world.bootstrap, self.world.client, self.world.engine)
        return own.pipeline(
            kafka=own.cluster(self.topic.name),
            event={"type": {"field": "type"}, "time": {"field": "at"}},
            tables={"click": f"{self.world.name}.{table}"},
            **more,
        )

    def committed(self, group: str) -> dict[int, int]:
        places = [TopicPartition(self.topic.name, number) for number in range(PARTITIONS)]
        asked = [ConsumerGroupTopicPartitions(group, places)]
        answers = self.topic.admin.list_consumer_group_offsets(asked)[group].result(30).topic_partitions
        return {place.partition: place.offset for place in answers if place.offset >= 0}

    def knows(self, group: str) -> bool:
        """Returns whether the group's coordinator is up: a broker makes it when it is first asked for."""
        try:
            self.committed(group)
        except KafkaException:
            return False
        return True

    def from_boundary(self, committed: Mapping[int, int]) -> Counter[int]:
        """Returns the records that the group has not committed."""
        return Counter({n: 1 for n, one in self.topic.sent.items() if one.offset >= committed[one.partition]})

    def counts(self, table: str, where: str = "1") -> Counter[int]:
        """Returns how often a table has each record. Each row is as the record was sent."""
        selected = "SELECT n, toUnixTimestamp(at), type, note"
        rows = self.world.rows(f"{selected} FROM DB.{table} WHERE {where}")
        assert self.rows.issuperset(rows)
        return Counter(n for n, *_ in rows)

    def kill(self, group: str, table: str, rng: random.Random) -> None:
        """Lets a loader work until it has inserted, or committed, some number of records more."""

        def inserted() -> int:
            return self.counts(table).total()

        def read() -> int:
            return sum(self.committed(group).values())

        wait_until(lambda: self.knows(group), "the group's coordinator", SECONDS)
        progress = rng.choice((inserted, read))
        until = progress() + rng.randint(1, max(1, RECORDS - read()))
        loader = subprocess.Popen([sys.executable, LOADER], stdin=subprocess.PIPE, text=True)
        assert loader.stdin is not None
        json.dump(self.settings(group, table), loader.stdin)
        loader.stdin.close()

        def there() -> bool:
            assert loader.poll() is None, "it ended by itself"
            return progress() >= until or read() == RECORDS

        try:
            wait_until(there, "the loader", SECONDS, poll=0.001)
        finally:
            loader.kill()
            loader.wait()

    def settings(self, group: str, table: str) -> dict[str, str]:
        server = self.server
        login = {"url": server.url, "user": server.user, "password": server.password}
        reads = {"bootstrap": self.world.bootstrap, "topic": self.topic.name, "group": group}
        return {**login, **reads, "table": f"{self.world.name}.{table}"}

    def resolve(self, pipeline: Pipeline, group: str) -> None:
        """Stores the first boundaries as soon as Sluice can, and does what it asks for until then."""

        def resolved() -> bool:
            try:
                resolve_range(pipeline, SPAN)
            except GroupAtWork:
                return False
            except GroupUnusable as error:
                place = TopicPartition(self.topic.name, error.partition, 0)
                change = ConsumerGroupTopicPartitions(group, [place])
                self.topic.admin.alter_consumer_group_offsets([change])[group].result(30)
                return False
            return True

        wait_until(resolved, f"what {group} has left", SECONDS)

    def compare(self, pipeline: Pipeline, table: str, capsys: Any, *words: str) -> Differences:
        """What `sluice compare` says of another table, as it names each key."""
        capsys.readouterr()
        path = self.world.folder / f"{pipeline.name}.yaml"
        arguments = [pipeline.name, "--config", str(path), "--with", f"{self.world.name}.{table}", *EDGES]
        listed = ["--key", "n", "--samples", "1000", "--json"]
        with pytest.raises(SystemExit) as ended:
            commands(["compare", *arguments, *listed, *words])
        answer = json.loads(capsys.readouterr().out)
        found = {int(one["key"]["n"]): (one["kind"], one["ours"], one["theirs"]) for one in answer["samples"]}
        assert len(found) == len(answer["samples"])
        differ = any(kind != "same" for kind, _, _ in found.values())
        assert ended.value.code == int(differ) and answer["untimed"] == [0, 0] and answer["notes"] == []
        for kind in ("missing", "extra", "doubled"):
            listed_rows = (abs(ours - theirs) for said, ours, theirs in found.values() if said == kind)
            assert sum(hour[kind] for hour in answer["hours"]) == sum(listed_rows)
        return found


def expected(ours: Counter[int], theirs: Counter[int], same: bool = False) -> Differences:
    """By record what another table has of it, compared with ours, which has each once or not at all."""

    def kind(n: int) -> str:
        if theirs[n] == ours[n]:
            return "same"
        if not ours[n]:
            return "extra"
        return "doubled" if theirs[n] else "missing"

    of = {n: (kind(n), ours[n], theirs[n]) for n in ours.keys() | theirs.keys()}
    return {n: said for n, said in of.items() if same or said[0] != "same"}


@pytest.mark.parametrize("moments", per_commit([1, 50]))
def test_what_a_killed_loader_lost_or_doubled_is_listed_and_the_rest_is_there_once(
    spark_world: SparkWorld, clickhouse_server, capsys, seed: int, fault_log: FaultLog, moments: int
):
    it, seen = Takeover(spark_world, clickhouse_server), Counter[str]()
    for moment in range(moments):
        rng, group = random.Random(f"{seed} {moment}"), f"{spark_world.name}.{moment}"
        old, new = f"old{moment}", f"new{moment}"
        spark_world.do(f"CREATE TABLE DB.{old} ({COLUMNS}) ENGINE = MergeTree ORDER BY n")
        with fault_log.trial("kill", "while it loads", victim="loader"):
            for _ in range(rng.choice((1, 1, 2, 3))):
                it.kill(group, old, rng)
            # Beside it: a table of Sluice's own.
            spark_world.table(new, COLUMNS)
            beside = it.pipeline(new, start={"group": group})
            it.resolve(beside, group)
            had, after = it.counts(old), it.from_boundary(it.committed(group))
            assert spark_world.run(beside, SPAN) == []
            assert it.counts(new) == after
            assert it.compare(beside, old, capsys, "--same") == expected(after, had, same=True)
            # In its place: the loader's own table.
            spark_world.client.run(ADOPT.replace("old.clicks", f"{spark_world.name}.{old}"))
            in_place = it.pipeline(old, start={"group": group})
            assert spark_world.run(in_place, SPAN) == []
            assert (it.counts(old, "_cluster = ''"), it.counts(old, "_cluster = 'dc1'")) == (had, after)
            listed = it.compare(it.whole, old, capsys)
            assert listed == expected(it.every, had + after)
            seen.update(kind for kind, _, _ in listed.values())
    print(f"of {moments} loaders: {dict(seen)}")
    assert moments == 1 or (seen["missing"] and seen["doubled"])
