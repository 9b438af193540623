"""Planning a year on paper: the product's own code for boundaries, reads and batches, without servers.

    python -m benchmarks.planning [--partitions 10000] [--hours 8760]

Kafka's answers are made up (each partition's records come evenly); everything that is decided about them,
and everything that is stored, is the product's.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pendulum

from benchmarks.results import Result, store
from sluice.clients.lake.folder import FolderLake
from sluice.flow.resolve.clamp import Answers, PartitionAnswers, boundaries_to_store
from sluice.manifest import read_count
from sluice.plan.batches import SliceWeight, cut
from sluice.slices import HOUR, SliceRange
from sluice.state.boundaries.boundary import FoundBy
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries, LogEntry

START = pendulum.datetime(2025, 1, 1)


@contextmanager
def measured(what: str, steps: dict[str, float]) -> Iterator[None]:
    begun = time.monotonic()
    yield
    steps[what] = round(time.monotonic() - begun, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what}: {steps[what]:.1f} s, highest memory so far {peak:,.0f} MB", flush=True)


def answers(partitions: int, slices: SliceRange, per_hour: int) -> Answers:
    """What Kafka would say of every edge; partition p gets p more records an hour than the first."""
    start, edges = int(slices.start.timestamp()), len(slices) + 1
    instants = array("q", range(start, start + edges * 3600, 3600))
    how = [FoundBy.RECORD] * edges
    said = {}
    for number in range(partitions):
        step = per_hour + number % 100
        said[number] = PartitionAnswers(0, 0, array("q", range(0, step * edges, step)), how)
    return Answers("dc1", "events", "id", instants, said)


def plan(partitions: int, hours: int, per_hour: int) -> Result:
    slices = SliceRange(START, START.add(hours=hours))
    steps: dict[str, float] = {}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        lake = FolderLake(Path(folder) / "p")
        with measured("made-up answers", steps):
            said = answers(partitions, slices, per_hour)
        with measured("clamped into boundaries", steps):
            block = boundaries_to_store(None, said)
        del said
        with measured("stored as one log entry", steps):
            BoundaryLog(lake).append(Boundaries(), LogEntry(HOUR, (block,)), START)
        size = sum(item.size for item in lake.list("_boundaries/"))
        with measured("read again", steps):
            state = BoundaryLog(lake).read()
        work, reads = [], 0
        with measured("ranges, reads and weights of every slice", steps):
            for piece in slices:
                ranges = state.ranges(piece, "dc1", ["events"])
                reads += read_count(ranges or (), 500_000)
                work.append(SliceWeight(piece, sum(r.offsets for r in ranges or ())))
        with measured("cut into batches", steps):
            batches = cut(work)
    print(
        f"{len(batches):,} batches, {reads:,} reads of the largest partition, "
        f"a log entry of {size / 1e6:,.1f} MB"
    )
    what = f"planning {hours:,} hours of {partitions:,} partitions; log entry {size / 1e6:.1f} MB"
    rows = sum(weight.rows for weight in work)
    seconds = round(time.monotonic() - begun, 1)
    return Result(f"planning-{partitions}", what, seconds, rows, hours, steps=steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--hours", type=int, default=8760)
    parser.add_argument("--per-hour", type=int, default=100_000, help="records of a partition in an hour")
    given = parser.parse_args()
    store([plan(given.partitions, given.hours, given.per_hour)])


if __name__ == "__main__":
    main()
