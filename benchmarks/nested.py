"""The load of events with an array of three objects and a map, beside the load of the flat ones: prints what
each costs for a byte of payload, and the ratio.

    python -m benchmarks.nested [--events 1000000] [--rounds 5] [--read pull|push]

The flat events are those of benchmarks.load. Each round loads both, one after the other, into fresh tables.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from benchmarks.load import ROWS_PER_FILE, SQL, UNIT, Cost, land, make_table, payload, pipeline, rows, timed
from benchmarks.results import Result, store
from local import services
from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.connections import Connection
from sluice.clients.lake.folder import FolderLake
from sluice.flow.load.load import load

KEYS = ("color", "size", "campaign", "source", "medium", "browser")


def nested(rng: random.Random) -> dict[str, Any]:
    """What an event has besides the flat one's fields."""
    items = [
        {
            "sku": f"sku-{rng.randrange(10**6):06}",
            "qty": rng.randrange(1, 100),
            "price": Decimal(rng.randrange(10**6)).scaleb(-2),
        }
        for _ in range(3)
    ]
    return {"items": items, "attrs": {key: f"v{rng.randrange(1000)}" for key in rng.sample(KEYS, 3)}}


@dataclass(frozen=True)
class Events:
    """A lake of one unit. `sums` is what its table has to hold, by the SQL of `summed`."""

    root: Path
    bytes: int
    sums: tuple[Any, ...]
    summed: str


def write(root: Path, events: int, deep: bool) -> Events:
    made, rng = rows(min(ROWS_PER_FILE, events), seed=1), random.Random(2)
    more = [nested(rng) if deep else {} for _ in made]
    texts = [
        json.dumps(json.loads(payload(row)) | found, separators=(",", ":"), default=float)
        for row, found in zip(made, more, strict=True)
    ]
    times = pa.chunked_array([pa.array([row[0] for row in made], pa.timestamp("ms", "UTC"))])
    land(FolderLake(root / "bench"), pa.array(texts), times, events)
    whole, rest = divmod(events, len(made))

    def total(of: Sequence[Any]) -> Any:
        return sum(of) * whole + sum(of[:rest])

    sums: tuple[Any, ...] = (events, total([row[2] for row in made]))
    summed = "count(), sum(user_id)"
    if deep:
        prices = [sum(item["qty"] * item["price"] for item in found["items"]) for found in more]
        colors = [found["attrs"].get("color", "") for found in more]
        sums += (total(prices), total([len(color) for color in colors]))
        summed += ", sum(arraySum(item -> item.qty * item.price, items)), sum(length(attrs['color']))"
    return Events(root, total([len(text) for text in texts]), sums, summed)


def measure(client: Client, pid: int, events: Events, deep: bool, read: str) -> Cost:
    table = "nested" if deep else "flat"
    make_table(client, table)
    if deep:
        text = (SQL / "nested_columns.sql").read_text()
        client.run(text.replace("{table:Identifier}", f"bench_load.{table}"))
    chosen, lake = pipeline(events.root, read, table), FolderLake(events.root / "bench")
    cost = timed(lambda: load(chosen, chosen.targets[0], [UNIT], lake, client, mode="fill"), pid)
    found = client.rows(f"SELECT {events.summed} FROM bench_load.{table}")
    if tuple(found[0]) != events.sums:
        raise SystemExit(f"the table holds {found[0]}, the events {events.sums}")
    return Cost(cost.clock / events.bytes * 1e9, cost.processor / events.bytes * 1e9)


def keep(count: int, flat: Sequence[Cost], deep: Sequence[Cost]) -> None:
    """Of each its median, in nanoseconds for a byte."""
    medians = [
        Cost(median(c.clock for c in all_), median(c.processor for c in all_)) for all_ in (flat, deep)
    ]
    for name, cost in zip(("flat", "nested"), medians, strict=True):
        print(f"{name}: {cost.clock:.2f} ns a byte (processor {cost.processor:.2f} ns)")
    print(f"medians: ratio {medians[1].over(medians[0])}")
    what = "load of events with an array of three objects and a map, times the flat load's cost for a byte"
    store([Result("nested load", what, round(medians[1].clock / medians[0].clock, 2), count)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--read", choices=("pull", "push"), default="pull")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        events = [write(Path(folder, str(deep)), given.events, deep) for deep in (False, True)]
        server = services.clickhouse_server(Path(folder, "server"))
        try:
            client = open_client(Connection("bench", **server.at.place))
            client.run("CREATE DATABASE bench_load")
            found: tuple[list[Cost], list[Cost]] = ([], [])
            for _ in range(given.rounds):
                for deep in (False, True):
                    found[deep].append(measure(client, server.process.pid, events[deep], deep, given.read))
                print(f"ratio {found[1][-1].over(found[0][-1])}", flush=True)
            keep(given.events, *found)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
