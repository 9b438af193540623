"""Whether the web server's memory stays as it is over thousands of requests for every endpoint of the page.

    python -m benchmarks.page_memory [--requests 10000] [--hours 720] [--pipelines 2]

Lands and loads `--hours` hours of events with `sluice run`, from a broker into a ClickHouse server, and
serves the page from Airflow's own web server. Asks every endpoint that the page's app has in turn, as its
own table of routes names them; what makes Kafka work, a plan and the lag, in every tenth turn. Prints the
server's resident memory after each tenth of the requests. Memory that grows in the second half by more than
a twentieth ends it with 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from http.client import HTTPConnection
from itertools import count, islice
from pathlib import Path

import pendulum
import psutil
from confluent_kafka import Producer

from benchmarks.page_paint import Server, served
from benchmarks.page_server import RUN
from benchmarks.publish_events import Load
from benchmarks.world import Pipe, World, words_of, world
from sluice.slices import HOUR, SliceRange, floor

MIB, GROWTH = 1 << 20, 1.05
PER_HOUR, TURNS_OF_KAFKA = 20, 10
ASKS_KAFKA = ("/plan", "/lag")


@dataclass(frozen=True)
class Ask:
    method: str
    path: str
    body: str | None = None

    @property
    def asks_kafka(self) -> bool:
        return self.path.endswith(ASKS_KAFKA)


def asks_of(server: Server, pipelines: list[str], slices: SliceRange) -> list[Ask]:
    """One for each endpoint and pipeline. Raises SystemExit for a parameter that nothing is known of."""
    newest = f"{slices.end - HOUR:%Y-%m-%dT%HZ}"
    path_values = {"slice_id": newest, "cluster": "dc1"}
    query_values = {"from": slices.start.isoformat(), "to": "now", "run": RUN}
    plan = json.dumps({"start": newest, "end": slices.end.isoformat(), "mode": "reland"})
    found: dict[Ask, None] = {}
    for method, path, names in server.endpoints:
        for name in pipelines:
            try:
                asked = "&".join(f"{key}={query_values[key].replace('+', '%2B')}" for key in names)
                place = path.format(pipeline=name, **path_values)
            except KeyError as error:
                raise SystemExit(f"{method} {path}: no value is known for {error}") from error
            body = plan if method == "POST" else None
            found[Ask(method, f"/sluice{place}" + (f"?{asked}" if asked else ""), body)] = None
    return list(found)


def mix(asks: list[Ask]) -> Iterator[Ask]:
    for turn in count():
        yield from (one for one in asks if not one.asks_kafka or turn % TURNS_OF_KAFKA == 0)


def answer(server: Server, ask: Ask) -> None:
    at = HTTPConnection(server.url.removeprefix("http://"), timeout=120)
    headers = {"Authorization": f"Bearer {server.token}"}
    if ask.body is not None:
        headers["Content-Type"] = "application/json"
    at.request(ask.method, ask.path, ask.body, headers)
    found = at.getresponse()
    said = found.read()
    at.close()
    if found.status != 200:
        raise SystemExit(f"{ask.method} {ask.path}: {found.status} {said[:300]!r}")


def resident() -> int:
    """Bytes of the web server: of what was started and is it, the largest process."""
    started = psutil.Process().children(recursive=True)
    return max(one.memory_info().rss for one in started if "benchmarks.page_server" in one.cmdline())


def measure(server: Server, asks: list[Ask], requests: int) -> list[int]:
    found, times = [], Counter[str]()
    for number, ask in enumerate(islice(mix(asks), requests), 1):
        answer(server, ask)
        times[ask.method] += 1
        if number % max(requests // 10, 1) == 0:
            found.append(resident())
            print(f"{number:>8,} requests {found[-1] / MIB:>8,.1f} MiB", flush=True)
    print(f"{len(asks)} addresses of {len(server.endpoints)} endpoints, {times['POST']:,} plans")
    return found


def landed(there: World, name: str, slices: SliceRange) -> Pipe:
    """A pipeline of which every hour is verified; the newest has a record without a type and a rejected
    row."""
    pipe, first = there.pipe(name), int(slices.start.timestamp())
    there.publish(pipe, Load(PER_HOUR * len(slices), start=first, hours=len(slices)))
    last = int(slices.end.timestamp() * 1000) - 1
    producer = Producer({"bootstrap.servers": there.broker.bootstrap})
    for value in ('{"user":"u"}', json.dumps({"type": "bid", "timestamp": last / 1000, "price": "free"})):
        producer.produce(pipe.topic, value.encode(), partition=0, timestamp=last)
    producer.flush()
    there.sluice("run", pipe, *words_of(slices))
    return pipe


def files_of(pipes: list[Pipe], folder: Path) -> Path:
    folder.mkdir()
    for pipe in pipes:
        shutil.copy(pipe.config, folder)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--hours", type=int, default=720)
    parser.add_argument("--pipelines", type=int, default=2)
    given = parser.parse_args()
    end = floor(pendulum.now("UTC"), HOUR)
    slices = SliceRange(end - timedelta(hours=given.hours), end)
    with world() as there:
        pipes = [landed(there, f"page{number}", slices) for number in range(given.pipelines)]
        os.environ.update({name: at for name, at in there.env.items() if name.startswith("AIRFLOW_CONN_")})
        folder = files_of(pipes, there.folder / "pipelines")
        with served(folder, there.folder / "airflow") as server:
            asks = asks_of(server, [pipe.name for pipe in pipes], slices)
            found = measure(server, asks, given.requests)
    return 0 if found[-1] <= GROWTH * found[(len(found) - 1) // 2] else 1


if __name__ == "__main__":
    sys.exit(main())
