"""What it costs to compare contents: the share that each run samples, and all rows of an hour.

    python -m benchmarks.contents [--events 5000000] [--rounds 5] [--share]

Starts a ClickHouse server of its own, and loads one hour (JSON text of about 210 bytes) before it measures.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pendulum

from benchmarks.load import UNIT, make_table, pipeline, processor_seconds, write
from local import services
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.connections import Connection
from sluice.clients.lake.folder import FolderLake
from sluice.flow.contents.compare import Auditor, ContentsReport
from sluice.flow.load.load import load
from sluice.flow.verify.repairs import Repairs
from sluice.state.boundaries.model import Boundaries
from sluice.state.ledger import committed
from sluice.state.manifests import read_manifests
from sluice.state.status import statuses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--share", action="store_true", help="only what a run samples")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-contents-") as folder:
        root = Path(folder)
        server = services.clickhouse_server(root / "server")
        try:
            run(root, server, options.events, options.rounds, not options.share)
        finally:
            server.kill()


def run(root: Path, server: services.ClickHouseServer, events: int, rounds: int, whole: bool) -> None:
    os.environ["AIRFLOW_CONN_CLICKHOUSE_DEFAULT"] = server.at.variable
    client = open_client(Connection("bench", **server.at.place))
    lake, chosen = FolderLake(root / "lake" / "bench"), pipeline(root / "lake", "auto")
    (root / "typed").mkdir()
    write(lake, root / "typed", events)
    client.run("CREATE DATABASE bench_load")
    make_table(client, "clicks")
    # With them a share of a large hour can be found in the table.
    client.run(
        "ALTER TABLE bench_load.clicks ADD COLUMN _topic LowCardinality(String), "
        "ADD COLUMN _partition Int32, ADD COLUMN _offset Int64"
    )
    pid = server.process.pid
    report("load", lambda: load(chosen, chosen.targets[0], [UNIT], lake, client, mode="fill"), pid, 1)
    ledgers = {target.table: committed(client, chosen, lake.url, target) for target in chosen.targets}
    manifests = read_manifests(lake, [UNIT])
    found = statuses(chosen, [UNIT], Boundaries(), manifests, ledgers, pendulum.now("UTC"))
    auditor = Auditor(chosen, lake, Repairs("bench"), lambda _: None)

    def checked(compare: Callable[..., ContentsReport]) -> Callable[[], object]:
        def once() -> None:
            contents = compare(found)
            # The rows' stamps are spread over the hour, and all else is as it landed.
            if contents.anomalies or contents.busy:
                raise SystemExit(f"{contents.anomalies[:2]} {contents.busy}")

        return once

    report("a run's share", checked(auditor.sample), pid, rounds)
    if whole:
        report("all rows", checked(auditor.whole), pid, 1)


def report(what: str, work: Callable[[], object], pid: int, rounds: int) -> None:
    """Medians of seconds by the clock, and of the processor's here and in the server."""
    found = []
    for _ in range(rounds):
        begun, here, there = time.perf_counter(), time.process_time(), processor_seconds(pid)
        work()
        found.append(
            (time.perf_counter() - begun, time.process_time() - here, processor_seconds(pid) - there)
        )
    clock, here, there = (median(column) for column in zip(*found, strict=True))
    print(f"{what}: {clock:.2f} s; processor {here:.2f} s here, {there:.2f} s in the server", flush=True)


if __name__ == "__main__":
    main()
