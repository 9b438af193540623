"""A broker, a ClickHouse server and a folder of the benchmark's own, and `sluice` run as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pendulum

from benchmarks.memory import Used, Watch
from benchmarks.publish_events import Load, create_topic, publish
from local import services
from local.environment import Settings, environment
from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.connections import Connection
from sluice.slices import SliceRange
from sluice.state.notes import Timing, of_day

COLUMNS = (
    "id String, timestamp DateTime64(3, 'UTC'), user String, country LowCardinality(String), price Float64, "
    "_type LowCardinality(String), _slice DateTime('UTC'), _cluster LowCardinality(String)"
)


@dataclass(frozen=True)
class Ran:
    """One `sluice` command: what it used, what it printed, and the timings that its run stored."""

    used: Used
    out: str
    err: str
    steps: tuple[Timing, ...] = ()

    def step(self, name: str) -> float:
        """Seconds of a step, over all its batches and tables."""
        return sum(timing.seconds for timing in self.steps if timing.step == name)


@dataclass(frozen=True)
class Pipe:
    """A pipeline with its own topic, lake and target table `bench.<name>`."""

    name: str
    config: Path
    lake: Path
    topic: str


@dataclass
class World:
    folder: Path
    broker: services.KafkaBroker
    server: services.ClickHouseServer
    client: Client
    env: Mapping[str, str] = field(repr=False)

    def pipe(self, what: str, partitions: int = 4, partition_by: str = "", **more: Any) -> Pipe:
        """A pipeline of the events that `publish_events` makes, with an empty topic and table."""
        name = f"{what}_{uuid.uuid4().hex[:6]}"
        create_topic(self.broker.bootstrap, name, partitions)
        partition = f"PARTITION BY {partition_by} " if partition_by else ""
        order = "ENGINE = MergeTree " + partition + "ORDER BY (_slice, _cluster)"
        self.client.run(f"CREATE TABLE bench.{name} ({COLUMNS}) {order}")
        config = self.folder / f"{name}.yaml"
        spec = {
            "kafka": [{"cluster": "dc1", "bootstrap": self.broker.bootstrap, "topics": [name]}],
            "event": {"type": {"field": "type"}, "time": {"field": "timestamp"}},
            "lake": f"file://{self.folder}/lake",
            "tables": {"*": f"bench.{name}"},
            **more,
        }
        config.write_text(json.dumps(spec))
        return Pipe(name, config, self.folder / "lake" / name, name)

    def publish(self, pipe: Pipe, load: Load, partitions: int = 4) -> float:
        return publish(self.broker.bootstrap, pipe.topic, load, partitions)

    def sluice(self, command: str, pipe: Pipe, *words: str) -> Ran:
        """Runs it to its end. Raises SystemExit with what it said when it fails."""
        program = Path(sys.executable).with_name("sluice")
        line = [str(program), command, pipe.name, "--config", str(pipe.config), *words]
        out, err = self.folder / f"{pipe.name}.out", self.folder / f"{pipe.name}.err"
        days = {pendulum.now("UTC").date()}
        before = {day: len(self._timings(pipe, day)) for day in days}
        with out.open("w") as stdout, err.open("w") as stderr:
            process = subprocess.Popen(line, env=dict(self.env), stdout=stdout, stderr=stderr)
            with Watch(process.pid, self.servers) as watch:
                code = process.wait()
        if code:
            raise SystemExit(f"{' '.join(line)} ended with {code}: {err.read_text()[-2000:]}")
        days.add(pendulum.now("UTC").date())
        steps = [t for day in sorted(days) for t in self._timings(pipe, day)[before.get(day, 0) :]]
        return Ran(watch.used, out.read_text(), err.read_text(), tuple(steps))

    @property
    def servers(self) -> dict[int, str]:
        return {self.broker.process.pid: "kafka", self.server.process.pid: "clickhouse"}

    def _timings(self, pipe: Pipe, day: Any) -> list[Timing]:
        from sluice.clients.lake.folder import FolderLake

        return of_day(FolderLake(pipe.lake), day)


def words_of(slices: SliceRange) -> Sequence[str]:
    return ("--from", slices.start.isoformat(), "--to", slices.end.isoformat())


def hours_of(load: Load) -> SliceRange:
    start = pendulum.from_timestamp(load.start)
    return SliceRange(start, start.add(hours=load.hours))


@contextmanager
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name:
        folder = Path(name)
        broker = services.kafka_broker(folder / "kafka")
        server = services.clickhouse_server(folder / "clickhouse")
        settings = Settings(folder / "home", broker.port, server.port, given_password=server.password)
        client = open_client(Connection("bench", **server.at.place))
        try:
            client.run("CREATE DATABASE bench")
            env = environment(settings, os.environ)
            yield World(folder, broker, server, client, env)
        finally:
            broker.kill()
            server.kill()
