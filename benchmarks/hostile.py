"""Landings of records that are made to hurt, each beside an ordinary hour of the same run.

    python -m benchmarks.hostile [CASE …] [--scale 1.0]

Each case is a topic with a hostile hour and an ordinary one behind it, landed as one batch by the application
as it is submitted. It fails unless both hours land with every record, as a row or rejected, and says seconds
and peak memory as multiples of those of the ordinary case, which comes before it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pendulum
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.hostile_records import HOUR_MS, ROWS, START_MS, Sent, bombs, hostile, in_array, ordinary
from benchmarks.memory import Used, Watch
from benchmarks.results import Result, say, store
from benchmarks.world import World, world
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.flow.land.submit import run_locally, spark_submit_arguments
from sluice.flow.resolve.resolve import resolve
from sluice.manifest import Manifest
from sluice.slices import SliceRange, Unit
from sluice.state.manifests import read_manifests

WANTED_MEMORY = 1.5
START = pendulum.from_timestamp(START_MS // 1000, "UTC")
SLICES = SliceRange(START, START.add(hours=2))
_DEADLINE_SECONDS = 120
ORDINARY = 300_000
MILLION = 1_000_000
TRANSACTION, TRANSACTIONS = 1_000, 999  # records, which are with their markers no more than a million
CODECS = ("gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Case:
    """`rejected` of the hostile hour's `records` are no rows; None: some are not. `fill` puts them into
    partition 0. `arrays`: each message of the topic is an array of rows. `beside`: the ordinary case that it
    is compared with."""

    name: str
    what: str
    records: int
    fill: Callable[[str, str], None]
    rejected: int | None = 0
    arrays: bool = False
    beside: str = "ordinary"


def cases(scale: float) -> dict[str, Case]:
    of, million = partial(_bent, scale), "ordinary_million"
    found = [
        of("ordinary", "ordinary records", ORDINARY),
        Case(million, f"{MILLION:,} ordinary records", MILLION, partial(_ordinary, MILLION, 0)),
        _committed(million),
        of("types", "records, each of another type", MILLION, rejected=None, beside=million),
        of("types_in_arrays", f"arrays of {ROWS} rows, each of another type", 3_000, arrays=True),
        of("types_by_hours", "records, each of another type and event hour", ORDINARY),
        of("long_types", "records, each of another type of 10 KB", 20_000, refused=True),
        of("megabytes", "records of 1 MB", 400),
        of("below_64k", "records of 64 KiB", 5_000),
        of("above_64k", "records of 64 KiB + 1", 5_000),
        of("one_percent", "records, of which 1 % have 100 KiB", ORDINARY),
        of("one_percent_60k", "records, of which 1.7 % have 60 KiB", ORDINARY),
        of("levels", "records of 900 levels", 30_000),
        of("too_deep", "records of 1,000 levels", 30_000, refused=True),
        of("headers", "records with 1,000 headers", 3_000),
        *map(_bomb, CODECS),
    ]
    return {case.name: case for case in found}


def _bent(scale: float, name: str, what: str, count: int, refused: bool = False, **more: Any) -> Case:
    number = max(int(count * scale), 10)

    def fill(bootstrap: str, topic: str) -> None:
        produce(bootstrap, topic, hostile(name, number))

    return Case(name, f"{number:,} {what}", number, fill, **{"rejected": number * refused, **more})


def _ordinary(count: int, transaction: int, bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, ordinary(count, START_MS), transaction)


def _committed(beside: str) -> Case:
    count, what = (
        TRANSACTIONS * TRANSACTION,
        f"{TRANSACTIONS} transactions of {TRANSACTION:,} ordinary records",
    )
    return Case("transactions", what, count, partial(_ordinary, count, TRANSACTION), beside=beside)


def _bomb(codec: str) -> Case:
    def fill(bootstrap: str, topic: str) -> None:
        _ordinary(ORDINARY, 0, bootstrap, topic)
        bombs(bootstrap, topic, codec, 5)

    what = f"ordinary records and 5 bombs of at most 900 KB in {codec}"
    return Case(f"bomb_{codec}", what, ORDINARY + 5, fill, 5)


def produce(bootstrap: str, topic: str, records: Iterator[Sent], transaction: int = 0) -> None:
    """With `transaction`, so many records at a time are committed.

    Raises RuntimeError when the broker did not take all of them.
    """
    options: dict[str, Any] = {"linger.ms": 20, "compression.type": "lz4", "message.max.bytes": 4_000_000}
    options |= {"bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True}
    producer = Producer(options | ({"transactional.id": topic} if transaction else {}))
    if transaction:
        producer.init_transactions(_DEADLINE_SECONDS)
        while some := list(islice(records, transaction)):
            producer.begin_transaction()
            for one in some:
                _one(producer, topic, one)
            producer.commit_transaction(_DEADLINE_SECONDS)
    for one in records:
        _one(producer, topic, one)
    if producer.flush(_DEADLINE_SECONDS):
        raise RuntimeError(f"{topic}: the broker did not take every record")


def _one(producer: Producer, topic: str, sent: Sent) -> None:
    value, stamp, headers = sent
    while True:
        try:
            producer.produce(topic, value, partition=0, timestamp=stamp, headers=headers)
            return
        except BufferError:
            producer.poll(0.5)


def prepared(there: World, case: Case) -> Path:
    """The pipeline file of a topic that is full and resolved, and which nobody has read."""
    topic = f"{case.name}_{uuid.uuid4().hex[:8]}"
    bootstrap = there.broker.bootstrap
    settings = {"retention.ms": "-1", "max.message.bytes": "4000000"}
    settings["message.timestamp.after.max.ms"] = str(2**63 - 1)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(_DEADLINE_SECONDS)
    case.fill(bootstrap, topic)
    behind = ordinary(ORDINARY // 10, START_MS + HOUR_MS)
    produce(bootstrap, topic, map(in_array, behind) if case.arrays else behind)
    config = there.folder / f"{topic}.yaml"
    spec = {
        "kafka": [{"cluster": "dc1", "bootstrap": bootstrap, "topics": [topic]}],
        "event": {"type": {"field": "type"}, "time": {"record": True}}
        | ({"rows": "array"} if case.arrays else {}),
        "lake": f"file://{there.folder}/lake",
        "max_record": "8MiB",
    }
    config.write_text(json.dumps(spec))
    pipeline = read(config)
    resolve(pipeline, open_lake(pipeline), list(SLICES), SLICES.end)
    return config


def landed(config: Path) -> list[Manifest]:
    pipeline = read(config)
    return list(read_manifests(open_lake(pipeline), [Unit(piece, "dc1") for piece in SLICES]).values())


def measure(there: World, case: Case, config: Path) -> Result:
    """Raises SystemExit when the landing fails, or a record of an hour is neither a row nor rejected."""
    command = [sys.executable, "-m", "benchmarks.hostile", "--land", str(config)]
    process = subprocess.Popen(command, env=dict(there.env))
    with Watch(process.pid, there.servers) as watch:
        code = process.wait()
    found = [(m.read, sum(m.rejected_records.values())) for m in landed(config)]
    rejected = found[0][1] if found and case.rejected is None else case.rejected
    expected = [(case.records, rejected), (ORDINARY // 10, 0)]
    if code or found != expected:
        raise SystemExit(f"{case.name}: exit code {code}; (read, rejected) {found}, not {expected}")
    used = watch.used
    return Result(f"hostile_{case.name}", case.what, round(used.seconds, 1), case.records, 2, used=used)


def land(config: Path) -> int:
    pipeline = read(config)
    return run_locally(spark_submit_arguments(pipeline, config, SLICES, "fill", "bench"), print)


def own(used: Used) -> float:
    """The landing's own processes: their highest resident memory, each kind's, in MB."""
    return sum(mb for kind, mb in used.peak.items() if kind not in ("kafka", "clickhouse"))


def compare(first: Result, result: Result) -> None:
    memory, seconds = own(result.used) / own(first.used), result.seconds / first.seconds
    cpu = sum(result.used.cpu.values()) / sum(first.used.cpu.values())
    judged = "" if memory <= WANTED_MEMORY else f" (wanted: at most {WANTED_MEMORY})"
    print(f"  {own(result.used):,.0f} MB, {memory:.2f} times an ordinary hour's{judged}")
    print(f"  {seconds:.2f} times its seconds, {cpu:.2f} times its processor seconds", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", nargs="*", help=", ".join(cases(1)))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--land", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.land:
        return land(given.land)
    known = cases(given.scale)
    names = [name for one in given.case or known for name in (known[one].beside, one)]
    results: dict[str, Result] = {}
    with world() as there:
        for case in (known[name] for name in dict.fromkeys(names)):
            results[case.name] = measure(there, case, prepared(there, case))
            say(results[case.name])
            compare(results[case.beside if case.beside in results else case.name], results[case.name])
    store(list(results.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
