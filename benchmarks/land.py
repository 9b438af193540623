"""Landing against a bare Spark read of as many records, in one run of Spark.

    python -m benchmarks.land [--count 5000000] [--cores 2] [--bootstrap HOST:PORT]

Topics with the same events, which nobody has read before: for a bare read (the sum of the values'
lengths), the landing, the job that people write by hand (plain_job.py), and a bare read and a landing once
more. The first part also pays for Spark's warming up, so there are two ratios, early and warm; the truth for
a short application lies between.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pendulum
import psutil
from pyspark.sql import functions

from benchmarks import plain_job
from benchmarks.consume import consume
from benchmarks.publish_events import Load, create_topic, publish
from benchmarks.results import Result, store
from local import services
from local.versions import ROOT
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from sluice.flow.land.kafka_source import unit_reads
from sluice.flow.land.land import land
from sluice.flow.land.read_plan import runs
from sluice.flow.land.submit import spark_submit_arguments
from sluice.flow.resolve.resolve import resolve
from sluice.slices import SliceRange, Unit
from sluice.state.boundaries.log import BoundaryLog

sys.path.append(str(ROOT / "spark_jobs"))
from engine import SparkEngine
from kafka_source import read_options

PARTITIONS = 4
_SAMPLE_SECONDS = 0.5


class Watch:
    """Processor seconds, and the highest memory (MB), of Spark's JVM, its Python workers and this driver."""

    def __init__(self) -> None:
        self.peak = dict.fromkeys(("jvm", "workers", "driver"), 0.0)
        self._used: dict[tuple[str, int], float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._sample()
        self._before = dict(self._used)
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._started
        self._over.set()
        self._thread.join()
        self._sample()
        self.cpu = dict.fromkeys(self.peak, 0.0)
        for (kind, pid), used in self._used.items():
            self.cpu[kind] += used - self._before.get((kind, pid), 0.0)

    def _run(self) -> None:
        while not self._over.wait(_SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        memory = dict.fromkeys(self.peak, 0.0)
        own = psutil.Process()
        for process in [own, *own.children(recursive=True)]:
            try:
                name = "jvm" if process.name() == "java" else "workers"
                kind = "driver" if process == own else name
                full = kind == "workers"  # they share pages; to add these up costs milliseconds of a core
                memory[kind] += (process.memory_full_info().pss if full else process.memory_info().rss) / 1e6
                times = process.cpu_times()
                self._used[kind, process.pid] = times.user + times.system
            except psutil.Error:
                continue  # it has ended since it was listed
        self.peak = {kind: max(self.peak[kind], memory[kind]) for kind in memory}


def bare(engine: SparkEngine, pipeline: Pipeline, lake: Lake, slices: SliceRange) -> int:
    """Reads every value and adds up their lengths, with the landing's own reads and consumer settings."""
    units = [Unit(piece, cluster) for piece in slices for cluster in pipeline.clusters]
    reads = unit_reads(pipeline, BoundaryLog(lake).read(), units, {}).all
    (run,) = runs(reads)
    options = read_options(pipeline, run) | {"includeHeaders": "false"}
    records = engine.session().read.format("kafka").options(**options).load()
    records.select(functions.sum(functions.length("value"))).collect()
    return run.offsets


def landed(engine: SparkEngine, pipeline: Pipeline, lake: Lake, slices: SliceRange) -> int:
    found = land(pipeline, lake, slices, "fill", "bench", engine, lambda line: None)
    return found.summary()["records"]


def plain(engine: SparkEngine, pipeline: Pipeline, lake: Lake, slices: SliceRange) -> int:
    return plain_job.run(engine.session(), pipeline, lake, slices)


SIDES = {
    "bare read": bare,
    "landing": landed,
    "plain job": plain,
    "bare read again": bare,
    "landing again": landed,
}
# The quotients that are printed, in seconds and in processor seconds.
RATIOS = (("landing", "bare read"), ("plain job", "landing"), ("landing again", "bare read again"))


def measure(configs: Mapping[str, Path]) -> dict[str, dict[str, object]]:
    """What each side took, one after another in one Spark that is up."""
    found = {}
    with SparkEngine("benchmark of landing", lambda line: None) as engine:
        engine.session()
        for name, config in configs.items():
            pipeline = read(config)
            with Watch() as watch:
                records = SIDES[name](engine, pipeline, open_lake(pipeline), slices_of(config))
            found[name] = {"records": records, "seconds": watch.seconds, "cpu": watch.cpu, "mb": watch.peak}
    return found


def in_own_process(configs: Mapping[str, Path], cores: int) -> dict[str, dict[str, object]]:
    """`measure` with the settings that `sluice run` gives Spark."""
    config = next(iter(configs.values()))
    spec = spark_submit_arguments(read(config), config, slices_of(config), "fill", "bench")
    words = shlex.join([*replace(spec, master=f"local[{cores}]").options(), "pyspark-shell"])
    path = os.pathsep.join([spec.env_vars["PYTHONPATH"], str(ROOT / "spark_jobs"), str(ROOT)])
    environment = {**os.environ, **spec.env_vars, "PYTHONPATH": path, "PYSPARK_SUBMIT_ARGS": words}
    given = json.dumps({name: str(config) for name, config in configs.items()})
    command = [sys.executable, "-m", "benchmarks.land", "--measure", given]
    done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def slices_of(config: Path) -> SliceRange:
    pipeline = read(config)
    start = pendulum.from_timestamp(Load(1).start)
    return SliceRange(start, start + pipeline.slice, pipeline.slice)


def prepared(side: str, bootstrap: str, folder: Path, load: Load) -> Path:
    """A pipeline file, with its own topic full and its boundaries resolved."""
    name = side.replace(" ", "_")
    topic = f"{name}-{uuid.uuid4().hex[:8]}"
    create_topic(bootstrap, topic, PARTITIONS)
    seconds = publish(bootstrap, topic, load, PARTITIONS)
    print(f"{side}: {load.count:,} events published in {seconds:.0f} s", flush=True)
    config = folder / f"{name}.yaml"
    spec = {
        "kafka": [{"cluster": "bench", "bootstrap": bootstrap, "topics": [topic]}],
        "event": {"type": {"field": "type"}, "time": {"field": "timestamp"}},
        "lake": f"file://{folder}/lake",
    }
    config.write_text(json.dumps(spec))
    pipeline = read(config)
    resolve(pipeline, open_lake(pipeline), list(slices_of(config)), pendulum.now("UTC"))
    return config


def compare(bootstrap: str, folder: Path, load: Load, cores: int) -> None:
    configs = {side: prepared(side, bootstrap, folder, load) for side in SIDES}
    (topic,) = read(prepared("consume", bootstrap, folder, load)).kafka[0].topics
    seconds = consume(bootstrap, topic, PARTITIONS, load.count)
    print(f"bare consume: {load.count:,} records in {seconds:.1f} s ({load.count / seconds:,.0f}/s)")
    found = in_own_process(configs, cores)
    whats = {"bare consume": seconds, **{side: result["seconds"] for side, result in found.items()}}
    store(
        Result(name, f"{name} of {load.count:,} events", round(took, 1), load.count)
        for name, took in whats.items()
    )
    for side, result in found.items():
        rate = result["records"] / result["seconds"]
        parts = ", ".join(
            f"{kind} {result['cpu'][kind]:.1f} s and {result['mb'][kind]:,.0f} MB" for kind in result["mb"]
        )
        print(f"{side}: {result['records']:,} records in {result['seconds']:.1f} s ({rate:,.0f}/s)")
        print(f"  processor and peak memory: {parts}")
    for one, other in RATIOS:
        seconds = found[one]["seconds"] / found[other]["seconds"]
        cpu = sum(found[one]["cpu"].values()) / sum(found[other]["cpu"].values())
        print(f"{one} / {other}: {seconds:.2f} in seconds, {cpu:.2f} in processor seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=5_000_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--bootstrap", help="a broker to use; without it one is started")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        configs = {name: Path(config) for name, config in json.loads(given.measure).items()}
        print(json.dumps(measure(configs)))
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bootstrap = given.bootstrap
        if bootstrap is None:
            broker = services.kafka_broker(folder / "kafka")
            stack.callback(broker.kill)
            bootstrap = broker.bootstrap
        compare(bootstrap, folder, Load(given.count), given.cores)


if __name__ == "__main__":
    main()
