"""The load against a bare typed INSERT … SELECT of the same rows: prints seconds and their ratio.

    python -m benchmarks.load [--events 5000000] [--rounds 5] [--read pull|push] [--view]

Starts a ClickHouse server of its own. The bare INSERT reads Parquet whose columns have the table's types;
the load reads the lake's Parquet (JSON text of about 210 bytes) and goes through the whole protocol.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median

import pendulum
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.results import Result, store
from local import services
from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.connections import Connection
from sluice.clients.lake import layout
from sluice.clients.lake.folder import FolderLake
from sluice.config.pipeline import Pipeline
from sluice.flow.land.task.long_numbers import may_be_long
from sluice.flow.load.load import load
from sluice.manifest import LandedFile, OffsetRange, encode
from sluice.slices import Slice, Unit
from tests.support.manifests import made_manifest

SQL = Path(__file__).parent / "sql"
ROWS_PER_FILE = 500_000
UNIT = Unit(Slice(pendulum.datetime(2026, 11, 20, 10)), "dc1")
FIELDS = ("timestamp", "id", "user_id", "price", "country", "width", "ok", "url")


def rows(count: int, seed: int) -> list[tuple]:
    rng = random.Random(seed)
    start = datetime(2026, 11, 20, 10, tzinfo=UTC)
    return [
        (
            start + timedelta(milliseconds=rng.randrange(3_600_000)),
            str(uuid.UUID(int=rng.getrandbits(128))),
            rng.randrange(10**9),
            Decimal(rng.randrange(10**6)).scaleb(-4),
            rng.choice(("US", "DE", "FR", "JP", "BR")),
            rng.choice((1, 2, 320, 728)),
            rng.random() < 0.5,
            f"https://example.com/p/{rng.randrange(10**6)}",
        )
        for _ in range(count)
    ]


def payload(row: tuple) -> str:
    text = row[0].isoformat(timespec="milliseconds").replace("+00:00", "Z")
    fields = dict(zip(FIELDS, (text, *row[1:]), strict=True))
    return json.dumps({"type": "click", **fields}, separators=(",", ":"), default=float)


def write(lake: FolderLake, typed: Path, events: int) -> None:
    """The same rows twice: as the lake's files with their manifest, and typed."""
    made = rows(min(ROWS_PER_FILE, events), seed=1)
    columns = dict(zip(FIELDS, map(list, zip(*made, strict=True)), strict=True))
    types = {
        "timestamp": pa.timestamp("ms", "UTC"),
        "user_id": pa.uint64(),
        "price": pa.decimal128(18, 4),
        "width": pa.uint16(),
    }
    table = pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()})
    for number, first in enumerate(range(0, events, ROWS_PER_FILE)):
        place = typed / f"{number}.parquet"
        part = table.slice(0, min(ROWS_PER_FILE, events - first))
        pq.write_table(part, place, compression="zstd", compression_level=1)
    land(lake, pa.array([payload(row) for row in made]), table["timestamp"], events)


def land(lake: FolderLake, payloads: pa.Array, times: pa.ChunkedArray, events: int) -> None:
    """A unit of so many events, which begins again with the payloads where they end."""
    files = []
    for number, first in enumerate(range(0, events, ROWS_PER_FILE)):
        count = min(ROWS_PER_FILE, events - first)
        files.append(_write_landed(lake, number, first, payloads.slice(0, count), times.slice(0, count)))
    manifest = made_manifest(
        pipeline="bench",
        slice=UNIT.slice.id,
        cluster=UNIT.cluster,
        generation=1,
        attempt="a",
        ranges=(OffsetRange("events", "u", 0, 0, events),),
        files=tuple(files),
        rejected=(),
        read=events,
        rejected_records={},
        gaps=0,
        long_numbers=may_be_long(pa.chunked_array([payloads])),
    )
    lake.put(layout.manifest(UNIT.slice.id, UNIT.cluster), encode(manifest))


def _write_landed(
    lake: FolderLake, number: int, first: int, payloads: pa.Array, times: pa.ChunkedArray
) -> LandedFile:
    count = len(payloads)
    hour = "2026-11-20T10"
    key = layout.data_file(layout.event_folder("click", hour), UNIT.slice.id, UNIT.cluster, 1, number)
    constant = {"_type": "click", "_cluster": "dc1", "_topic": "events"}
    table = pa.table(
        {
            "_payload": payloads,
            **{name: pa.array([value] * count).dictionary_encode() for name, value in constant.items()},
            "_partition": pa.array([0] * count, pa.int32()),
            "_offset": pa.array(range(first, first + count), pa.int64()),
            "_timestamp": times,
            "_key": pa.array([None] * count, pa.binary()),
        }
    )
    begun = lake.begin(key)
    pq.write_table(table, begun.path, compression="zstd", compression_level=1, use_dictionary=list(constant))
    size = begun.path.stat().st_size
    lake.finish(key, begun)
    moved = f"{layout.attempt(UNIT.slice.id, 'a')}{number}.parquet"
    return LandedFile(key, moved, "click", hour, count, size, "")


def pipeline(root: Path, read: str, table: str = "clicks") -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "bench",
            "kafka": [{"cluster": "dc1", "bootstrap": "none:1", "topics": ["events"]}],
            "event": {"type": {"field": "type"}, "time": {"record": True}},
            "lake": f"file://{root}",
            "tables": {"click": f"bench_load.{table}"},
            "clickhouse": {"read": read},
        }
    )


def make_table(client: Client, name: str) -> None:
    text = (SQL / "load_table.sql").read_text().replace("{table:Identifier}", f"bench_load.{name}")
    client.run(f"DROP TABLE IF EXISTS bench_load.{name} SYNC")
    client.run(text)


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock, and seconds of the server's processors, which other programs disturb less."""

    clock: float
    processor: float

    def over(self, other: Cost) -> str:
        return f"{self.clock / other.clock:.2f} (processor {self.processor / other.processor:.2f})"

    def __str__(self) -> str:
        return f"{self.clock:.2f} s (processor {self.processor:.2f} s)"


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(work: Callable[[], object], pid: int) -> Cost:
    begun, spent = time.perf_counter(), processor_seconds(pid)
    work()
    return Cost(time.perf_counter() - begun, processor_seconds(pid) - spent)


def measure(client: Client, pid: int, root: Path, typed: Path, read: str, view: bool) -> tuple[Cost, Cost]:
    """The bare INSERT and the load, one after the other, into fresh tables."""
    make_table(client, "baseline")
    insert = (SQL / "load_baseline.sql").read_text()
    bare = timed(lambda: client.run(insert, {"files": f"{typed}/*.parquet"}), pid)
    client.run("DROP VIEW IF EXISTS bench_load.hours SYNC")
    make_table(client, "clicks")
    if view:
        client.run(
            "CREATE MATERIALIZED VIEW bench_load.hours ENGINE = SummingMergeTree "
            "ORDER BY (country, _slice, _cluster) AS SELECT country, _slice, _cluster, count() AS events "
            "FROM bench_load.clicks GROUP BY ALL"
        )
    chosen = pipeline(root, read)
    lake = FolderLake(root / "bench")
    through = timed(lambda: load(chosen, chosen.targets[0], [UNIT], lake, client, mode="fill"), pid)
    same = client.rows(
        "SELECT (SELECT sum(cityHash64(* EXCEPT (_slice))) FROM bench_load.baseline) = "
        "(SELECT sum(cityHash64(* EXCEPT (_slice))) FROM bench_load.clicks)"
    )
    if not same[0][0]:
        raise SystemExit("the two tables do not hold the same rows")
    return bare, through


def keep(rows: int, rounds: Sequence[tuple[Cost, Cost]]) -> None:
    """Of each its median: neighbours on the machine disturb single rounds."""
    bare, through = (median(cost.clock for cost in column) for column in zip(*rounds, strict=True))
    print(f"medians: bare {bare:.2f} s, load {through:.2f} s, ratio {through / bare:.2f}")
    what = {"typed insert": ("bare typed INSERT", bare), "load": ("load through the protocol", through)}
    store(
        Result(name, f"{text} of {rows:,} rows, 8 columns", round(seconds, 2), rows)
        for name, (text, seconds) in what.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--read", choices=("pull", "push"), default="pull")
    parser.add_argument("--view", action="store_true", help="with a materialized view on the target")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, typed = Path(folder, "lake"), Path(folder, "typed")
        typed.mkdir()
        write(FolderLake(root / "bench"), typed, given.events)
        server = services.clickhouse_server(Path(folder, "server"))
        try:
            client = open_client(Connection("bench", **server.at.place))
            client.run("CREATE DATABASE bench_load")
            rounds = []
            for _ in range(given.rounds):
                pid = server.process.pid
                bare, through = measure(client, pid, root, typed, given.read, given.view)
                print(f"bare {bare}, load {through}, ratio {through.over(bare)}", flush=True)
                rounds.append((bare, through))
            keep(given.events, rounds)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
