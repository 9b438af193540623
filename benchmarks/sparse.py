"""Ranges of any shape from Kafka to verified tables: `sluice run` as a user runs it, timed and watched.

python -m benchmarks.sparse [CASE …] [--events 5000000]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.publish_events import Load
from benchmarks.results import Result, say, store
from benchmarks.world import Pipe, World, hours_of, words_of, world
from sluice.slices import SliceRange

YEAR = 8760
KINDS = {"max_types": 1000}
FAR = {"max_late": "400d", "max_early": "400d"}
STANDARD = ("hour", "spread", "year", "late", "types", "empty", "plan")


@dataclass(frozen=True)
class Case:
    """Events of `load` in a topic of `partitions`; `command` is what is timed over the events' hours."""

    name: str
    what: str
    load: Load
    partitions: int = 4
    more: Mapping[str, Any] = field(default_factory=dict)
    command: str = "run"
    partition_by: str = "toYYYYMM(_slice)"

    @property
    def slices(self) -> SliceRange:
        whole = hours_of(self.load)
        hours = self.load.recorded_in_hours or self.load.hours
        return SliceRange(whole.end.subtract(hours=hours), whole.end)


def cases(events: int) -> dict[str, Case]:
    sparse = Load(5 * YEAR, hours=YEAR, types=5, in_turn=True)
    late = Load(5 * YEAR, hours=YEAR, types=5, in_turn=True, recorded_in_hours=1)
    types = Load(100_000, types=2000, in_turn=True)
    last = Load(4, start=sparse.start + (YEAR - 1) * 3600)
    found = [
        Case("hour", f"{events:,} events in one hour", Load(events)),
        Case("spread", f"{events:,} events spread over {YEAR:,} hours", Load(events, hours=YEAR)),
        Case("year", f"{YEAR:,} hours with one event of each of 5 types", sparse),
        Case("late", f"one slice whose events have {YEAR:,} event hours", late, more=FAR),
        Case("types", "100,000 events of 2,000 types in one hour", types, more={"max_types": 3000}),
        Case("empty", f"{YEAR:,} hours, all but the last empty", last),
        Case(f"grow_{events}", f"{events:,} events in one hour", Load(events)),
        Case("narrow", f"{events:,} events in one hour and 1 partition", Load(events), 1),
        Case("wide", f"{events:,} events in one hour and 64 partitions", Load(events), 64),
        Case("kinds", f"{events:,} events of 1,000 types in one hour", Load(events, types=1000), more=KINDS),
        Case("day", f"{events:,} events spread over 24 hours", Load(events, hours=24)),
        Case("plan", f"`sluice plan` of {YEAR:,} hours in 64 partitions", sparse, 64, command="plan"),
    ]
    return {case.name: case for case in found}


def prepared(there: World, case: Case) -> Pipe:
    """A pipeline whose topic is full, and nobody has read it."""
    pipe = there.pipe(case.name, case.partitions, case.partition_by, **case.more)
    there.publish(pipe, case.load, case.partitions)
    return pipe


def measure(there: World, case: Case, pipe: Pipe) -> Result:
    """Raises SystemExit when the command fails or the table does not hold every event once."""
    slices = case.slices
    if case.name == "empty":
        slices = SliceRange(slices.end.subtract(hours=YEAR), slices.end)
    ran = there.sluice(case.command, pipe, *words_of(slices))
    rows = 0
    if case.command == "run":
        [(rows, ids)] = there.client.rows(f"SELECT count(), uniqExact(id) FROM bench.{pipe.name}")
        if (rows, ids) != (case.load.count, case.load.count):
            raise SystemExit(f"{case.name}: {case.load.count} published, {rows} rows of {ids} events loaded")
    files = sum(1 for path in pipe.lake.glob("type=*/*/*/*.parquet")) if pipe.lake.exists() else 0
    steps = {step: round(ran.step(step), 1) for step in dict.fromkeys(t.step for t in ran.steps)}
    return Result(case.name, case.what, round(ran.used.seconds, 1), rows, len(slices), files, steps, ran.used)


def run(there: World, chosen: list[Case], then: Callable[[Result], None]) -> list[Result]:
    found = []
    for case in chosen:
        found.append(measure(there, case, prepared(there, case)))
        then(found[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", nargs="*", help=", ".join(cases(0)))
    parser.add_argument("--events", type=int, default=5_000_000)
    given = parser.parse_args()
    known = cases(given.events)
    names = [f"grow_{given.events}" if name == "grow" else name for name in given.case]
    chosen = [known[name] for name in names or STANDARD]
    with world() as there:
        store(run(there, chosen, say))


if __name__ == "__main__":
    main()
