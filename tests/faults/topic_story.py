"""The way of a topic's records through the product: resolve, land, load, verify.

Whoever sends a record says in which hour it belongs; what is in the lake and in the table is compared with
that, by content.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import clickhouse_connect
import pendulum
import pyarrow.parquet as pq
import pytest
import yaml
from confluent_kafka import TopicPartition

from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from sluice.flow import steps
from sluice.flow.land.land import Landing, land
from sluice.flow.land.read import Engine
from sluice.slices import Unit
from sluice.state.manifests import read_manifest
from sluice.state.survey import survey
from tests.faults.topics import CLUSTER, START, Sent, Topic, hour, hours, visible
from tests.support.landing_world import GAP, InProcess


class Story:
    """A topic, a pipeline file that reads it, a lake folder and a table; every step is the product's own."""

    def __init__(
        self, topic: Topic, folder: Path, server: Any, patch: pytest.MonkeyPatch, **pipeline: Any
    ) -> None:
        self.topic, self.folder, self.patch = topic, folder, patch
        patch.setenv("AIRFLOW_CONN_STORY", server.at.variable)
        self.client = clickhouse_connect.get_client(**server.at.login, autogenerate_session_id=False)
        self.client.command(f"CREATE DATABASE IF NOT EXISTS {topic.name}")
        self.client.command(
            f"CREATE TABLE {topic.name}.events (n UInt32, _slice DateTime('UTC'), _cluster "
            "LowCardinality(String), _partition Int32, _offset Int64) ENGINE = MergeTree ORDER BY _slice"
        )
        self.path = folder / f"{topic.name}.yaml"
        self.write(**pipeline)

    def write(self, bootstrap: str | None = None, isolation: str = "read_committed", **changes: Any) -> None:
        cluster = {"cluster": CLUSTER, "topics": [self.topic.name], "isolation": isolation}
        spec = {
            "kafka": [{**cluster, "bootstrap": bootstrap or self.topic.bootstrap}],
            "event": {"type": {"field": "type"}, "time": {"field": "at"}},
            "lake": f"file://{self.folder}/lake",
            "clickhouse": {"connection": "story"},
            "tables": {"*": f"{self.topic.name}.events"},
            "max_early": "none",
            **changes,
        }
        self.path.write_text(yaml.safe_dump(spec))

    @property
    def pipeline(self) -> Pipeline:
        return read(self.path)

    def resolve(self, first: int, last: int) -> None:
        steps.resolve_range(self.pipeline, hours(first, last))

    def land(
        self,
        first: int,
        last: int,
        mode: str = "fill",
        engine: Engine | None = None,
        token: str = "t",
        accept_loss: bool = False,
    ) -> Landing:
        pipeline, slices = self.pipeline, hours(first, last)
        engine = engine or PlainEngine(pipeline)
        how = {"token": token, "engine": engine, "say": lambda line: None, "accept_loss": accept_loss}
        return land(pipeline, open_lake(pipeline), slices, mode, **how)

    def load(self, first: int, last: int, mode: str = "fill") -> None:
        pipeline = self.pipeline
        for target in pipeline.targets:
            steps.load_table(pipeline, target.table, hours(first, last), mode, mode, lambda line: None)

    def verify(self, first: int, last: int) -> None:
        steps.verify_range(self.pipeline, hours(first, last))

    def run(self, first: int, last: int, mode: str = "fill", engine: Engine | None = None) -> None:
        """All steps over the hours; raises what the first one that fails raises."""
        self.resolve(first, last)
        self.land(first, last, mode, engine, token=mode)
        self.load(first, last, mode)
        self.verify(first, last)

    def states(self, first: int, last: int) -> list[str]:
        return [str(status.state) for status in survey(self.pipeline, hours(first, last))]

    def lost(self, number: int) -> list[tuple[int, int, int, bool]]:
        """(partition, from, until, exact) of what the hour's manifest says Kafka no longer had."""
        manifest = read_manifest(open_lake(self.pipeline), Unit(hour(number), CLUSTER))
        assert manifest is not None
        return [(x.partition, x.start, x.until, x.exact) for x in manifest.lost]

    def expect(self, places: Mapping[int, Iterable[int]], table: bool = True) -> None:
        """The lake and the table hold exactly these numbers in these hours, each once, as they were sent."""
        wanted = sorted((h, self.topic.sent[n]) for h, numbers in places.items() for n in numbers)
        assert sorted(self._in_lake()) == wanted
        if table:
            rows = [(h, s.partition, s.offset, s.n) for h, s in wanted]
            assert sorted(self._in_table()) == rows

    def _in_lake(self) -> Iterator[tuple[int, Sent]]:
        """Every row of every visible file; the file's name says which hour of Kafka brought it."""
        for path in (self.folder / "lake" / self.pipeline.name).glob("type=*/**/*.parquet"):
            found = re.match(r"(\d{4}-\d\d-\d\dT\d\dZ)-", path.name)
            assert found is not None
            number = (pendulum.from_format(found[1], "YYYY-MM-DD[T]HH[Z]") - START).in_hours()
            for row in pq.read_table(path, partitioning=None).to_pylist():
                payload = row["_payload"]
                yield number, Sent(row["_partition"], row["_offset"], json.loads(payload)["n"], payload)

    def _in_table(self) -> list[tuple[int, int, int, int]]:
        query = f"SELECT toUnixTimestamp(_slice), _partition, _offset, n FROM {self.topic.name}.events"
        rows = self.client.query(query).result_rows
        return [(round((at - START.timestamp()) / 3600), *rest) for at, *rest in rows]


class PlainEngine(InProcess):
    """Lands in this process what a plain consumer reads: another client than the one of the second look."""

    def __init__(self, pipeline: Pipeline, hidden: Sequence[int] = ()) -> None:
        super().__init__(
            SimpleNamespace(logs=_Logs(pipeline), reads=[], out_of_lake=0, unseen=lambda _: frozenset[int]()),
            rows_per_read=1000,
            hidden=frozenset(hidden),
        )


class _Logs(dict):
    """By (cluster, topic), then partition, then offset: (value, record time), or GAP."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def __missing__(self, place: tuple[str, str]) -> _Partitions:
        self[place] = _Partitions(self._pipeline.cluster(place[0]), place[1])
        return self[place]


class _Partitions(dict):
    def __init__(self, cluster: Any, topic: str) -> None:
        self._cluster, self._topic = cluster, topic

    def __missing__(self, partition: int) -> Mapping[int, tuple[bytes | None, int]]:
        self[partition] = found = defaultdict(lambda: (GAP, 0))
        for message in visible(self._cluster, TopicPartition(self._topic, partition, 0)):
            found[message.offset()] = (message.value(), message.timestamp()[1])
        return found
