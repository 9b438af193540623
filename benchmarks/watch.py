"""What a run of the watch costs with its look for damage, and without: a year of hours.

    python -m benchmarks.watch [--hours 8760]

Starts a broker and a ClickHouse server, and writes a lake, a ledger and a table as a year of hourly runs
leaves them. Runs the watch three times with and without the look, of which the first knows nothing yet. Then
it deletes a few rows of an old hour, and a file of a recent one, and runs the watch once after each.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest import mock

import pendulum
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.page import ROWS, summarise, write_lake, write_ledger
from local import services
from sluice.clients.clickhouse.connect import connect
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.sql import render
from sluice.clients.lake import layout
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.manifest import PartitionCount, encode
from sluice.slices import HOUR, SliceRange, floor
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.manifests import read_manifests
from sluice.state.system_tables import create_view
from sluice.state.units import units_of
from sluice.watch import watch as watching

TABLE = "bench.click_p"


def pipeline_of(root: Path, kafka: str) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "p",
            "kafka": [{"cluster": "dc1", "bootstrap": kafka, "topics": ["t"]}],
            "event": {"type": {"field": "type"}, "time": {"record": True}},
            "lake": f"file://{root}",
            "clickhouse": {"connection": "clickhouse_bench"},
            "tables": {"click": TABLE},
            "alarms": {"disk_free": 0},
        }
    )


def write_files(pipeline: Pipeline, slices: SliceRange) -> int:
    """Writes every file that a manifest lists, with nothing in it, and completes the manifests; returns how
    many files."""
    lake = open_lake(pipeline)
    root, count = Path(lake.url.removeprefix("file://")), 0
    for unit, made in read_manifests(lake, units_of(pipeline, slices, BoundaryLog(lake).read())).items():
        counts = tuple(PartitionCount(r.topic, r.partition, r.offsets, 0) for r in made.ranges)
        path = root / layout.manifest(unit.slice.id, unit.cluster)
        path.write_bytes(encode(replace(made, counts=counts)))
        for file in made.files:
            path = root / file.key
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as stream:
                stream.truncate(file.bytes)
            count += 1
    return count


def fill(client, slices: SliceRange) -> None:
    start = int(slices.start.timestamp())
    columns = (
        "_slice DateTime('UTC')",
        *(f"{name} LowCardinality(String)" for name in ("_cluster", "_type", "_topic")),
    )
    for column in (*columns, "_partition Int32", "_offset Int64"):
        client.run(f"ALTER TABLE {TABLE} ADD COLUMN {column}")
    client.run(
        f"INSERT INTO {TABLE} SELECT 1, toDateTime({start} + intDiv(number, {ROWS}) * 3600, 'UTC'), 'dc1', "
        f"'click', 't', 0, number FROM numbers({len(slices) * ROWS})"
    )


def timed(name: str, run: Callable[[], watching.Watched]) -> watching.Watched:
    began, cpu = time.perf_counter(), time.process_time()
    found = run()
    kinds = sorted(f"{one.kind}: {one.place}" for one in found.problems if one.kind != "unavailable")
    spent = f"{time.perf_counter() - began:>8.2f} s{time.process_time() - cpu:>8.2f} s CPU"
    print(f"{name:<34}{spent}  {kinds}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=int, default=8760)
    given = parser.parse_args()
    end = floor(pendulum.now("UTC"), HOUR)
    slices = SliceRange(end - timedelta(hours=given.hours), end)
    with tempfile.TemporaryDirectory() as folder:
        server = services.clickhouse_server(Path(folder) / "clickhouse")
        broker = services.kafka_broker(Path(folder) / "kafka")
        os.environ["AIRFLOW_CONN_CLICKHOUSE_BENCH"] = server.at.variable
        try:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
            admin.create_topics([NewTopic("t", 4, 1)])["t"].result(30)
            pipeline = pipeline_of(Path(folder) / "lake", broker.bootstrap)
            with connect(pipeline) as client:
                for name in ("state/create_database", "state/create_ledger", "state/create_rejected"):
                    client.run(render(name))
                client.run("CREATE DATABASE bench")
                write_lake(pipeline, slices, 4)
                write_ledger(client, pipeline, open_lake(pipeline).url, slices)
                fill(client, slices)
                create_view(client, read_table(client, *TABLE.split(".")))
                files = write_files(pipeline, slices)
                summarise(pipeline, slices)
                print(f"{len(slices):,} manifests, {files:,} files, {len(slices) * ROWS:,} rows")
                measure(pipeline, client, slices)
        finally:
            broker.stop()
            server.stop()


def measure(pipeline: Pipeline, client, slices: SliceRange) -> None:
    lake = open_lake(pipeline)

    def run() -> watching.Watched:
        return watching.watch(pipeline, lake, pendulum.now("UTC"), lambda *_: None)

    with mock.patch.object(watching, "look", lambda _pipeline, _lake, _recent, before, _now: before):
        for number in range(3):
            timed(f"without a look, run {number + 1}", run)
    for number in range(3):
        timed(f"with a look, run {number + 1}", run)
    old = slices.start.add(hours=len(slices) // 2)
    client.run(
        f"DELETE FROM {TABLE} WHERE _slice = toDateTime({int(old.timestamp())}, 'UTC') AND _offset % 100 = 0"
    )
    timed("rows of an old hour deleted", run)
    timed("the same, known", run)
    recent = slices.end.subtract(hours=3)
    path = Path(lake.url.removeprefix("file://"))
    next(path.glob(f"type=click/date={recent:%Y-%m-%d}/hour={recent:%H}/*.parquet")).unlink()
    timed("file of a recent hour deleted", run)


if __name__ == "__main__":
    main()
