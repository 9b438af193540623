"""A broker, Spark in this process and ClickHouse: a pipeline's steps one after another, as in a run."""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pendulum
import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from local import fetched
from local.versions import ROOT
from sluice.clients.clickhouse.client import Client
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from sluice.flow.land.land import land
from sluice.flow.land.submit import spark_submit_arguments
from sluice.flow.steps import load_table, resolve_range
from sluice.flow.verify.anomaly import Anomaly
from sluice.flow.verify.audit import AuditScope, audit
from sluice.manifest import Manifest
from sluice.slices import SliceRange, Unit, to_ms
from sluice.state.manifests import read_manifests

START = pendulum.now("UTC").start_of("hour").subtract(hours=4)
OWN = "_slice DateTime('UTC'), _cluster LowCardinality(String)"

# The least that a pipeline says: enough to start Spark with.
PLAIN = {
    "name": "x",
    "kafka": [{"cluster": "c", "bootstrap": "nowhere:1", "topics": ["t"]}],
    "event": {"type": {"topic": True}, "time": {"record": True}},
    "lake": "file:///x",
}


def hours(first: int = 0, until: int = 1) -> SliceRange:
    return SliceRange(START.add(hours=first), START.add(hours=until))


@contextmanager
def spark() -> Iterator[Any]:
    """Spark local[2] in this process, with the settings that the application gets."""
    jars = {"SLUICE_SPARK_JARS": str(fetched.spark_jars())}
    spec = spark_submit_arguments(Pipeline.model_validate(PLAIN), Path("x"), hours(), "fill", "t", jars)
    words = [word.replace("local[*]", "local[2]") for word in spec.options()]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in spec.env_vars.items():
            patch.setenv(name, value)
        patch.setenv("PYSPARK_SUBMIT_ARGS", shlex.join([*words, "pyspark-shell"]))
        patch.syspath_prepend(str(ROOT / "spark_jobs"))
        from engine import SparkEngine

        with SparkEngine("tests", lambda line: None) as started:
            yield started


@dataclass
class SparkWorld:
    """`name` is the pipeline's, its database's and the beginning of its topics'."""

    name: str
    folder: Path
    bootstrap: str
    client: Client
    engine: Any
    spec: dict[str, Any] = field(default_factory=dict)

    def topic(self, name: str, partitions: int = 1) -> str:
        topic = f"{self.name}.{name}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        return topic

    def send(self, topic: str, messages: list[bytes], minute: float = 1, **more: Any) -> None:
        """Into partition 0, in their order, with a record time `minute` minutes after START."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        at = to_ms(START.add(seconds=minute * 60))
        for message in messages:
            producer.produce(topic, message, partition=0, timestamp=at, **more)
        assert producer.flush(60) == 0

    def table(self, name: str, columns: str) -> str:
        self.client.run(f"CREATE DATABASE IF NOT EXISTS `{self.name}`")
        self.client.run(
            f"CREATE TABLE `{self.name}`.{name} ({columns}, {OWN}) ENGINE = MergeTree ORDER BY _slice"
        )
        return f"{self.name}.{name}"

    def pipeline(self, **changes: Any) -> Pipeline:
        """Out of the pipeline file, which is written with `changes` to what it said before. Of few records
        any share may be rejected."""
        own = {"lake": f"file://{self.folder}/lake", "rows_per_read": 50, "rejected": {"fail_above": 1}}
        self.spec = {**own, **self.spec, **changes}
        path = self.folder / f"{self.name}.yaml"
        path.write_text(yaml.safe_dump(self.spec))
        return read(path)

    def cluster(self, *topics: str) -> list[dict[str, Any]]:
        return [{"cluster": "dc1", "bootstrap": self.bootstrap, "topics": list(topics)}]

    def run(
        self, pipeline: Pipeline, slices: SliceRange, mode: str = "fill", accept_loss: bool = False
    ) -> list[Anomaly]:
        """All steps of a run; what verify finds at its end."""
        token = uuid.uuid4().hex
        resolve_range(pipeline, slices)
        land(
            pipeline,
            open_lake(pipeline),
            slices,
            mode,
            token,
            self.engine,
            lambda line: None,
            accept_loss=accept_loss,
        )
        return self.load(pipeline, slices, mode, token)

    def load(
        self, pipeline: Pipeline, slices: SliceRange, mode: str = "fill", token: str = ""
    ) -> list[Anomaly]:
        for target in pipeline.targets:
            load_table(pipeline, target.table, slices, mode, token or uuid.uuid4().hex, lambda line: None)
        return self.verify(pipeline, slices)

    def verify(self, pipeline: Pipeline, slices: SliceRange) -> list[Anomaly]:
        return audit(pipeline, slices, AuditScope(whole=True)).anomalies

    def manifests(self, pipeline: Pipeline, slices: SliceRange) -> list[Manifest]:
        units = [Unit(piece, cluster) for piece in slices for cluster in pipeline.clusters]
        return list(read_manifests(open_lake(pipeline), units).values())

    def rows(self, sql: str) -> list[tuple]:
        """A SELECT's rows; `DB.` stands for the database."""
        return [tuple(row) for row in self.client.rows(sql.replace("DB.", f"`{self.name}`."))]

    def do(self, sql: str) -> None:
        self.client.run(sql.replace("DB.", f"`{self.name}`."))


def event(minute: float = 1, **fields: Any) -> bytes:
    return json.dumps({"at": START.add(seconds=minute * 60).isoformat(), **fields}).encode()
