"""`make bench`: every benchmark in one run, then docs/guide/performance.md with the ratios and the plot.

python -m benchmarks [--events 2000000] [--full]
"""

from __future__ import annotations

import argparse
import subprocess
import sys

GROWTH = (500_000, 20_000_000)


def commands(events: int, full: bool) -> list[list[str]]:
    """Cheapest first. `full` adds the growth in events, and a planning of 10,000 partitions for a year."""
    count = str(events)
    found = [
        ["benchmarks.planning", "--partitions", "500"],
        ["benchmarks.land", "--count", count],
        ["benchmarks.load", "--events", count],
        ["benchmarks.sparse", "--events", count],
        ["benchmarks.hourly"],
    ]
    if full:
        found += [["benchmarks.sparse", "grow", "--events", str(size)] for size in GROWTH]
        found.append(["benchmarks.sparse", "wide", "narrow", "kinds", "day", "--events", count])
        found.append(["benchmarks.planning"])
    return [*found, ["benchmarks.report"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument(
        "--full", action="store_true", help="also 0.5 to 20 M events, 1 and 64 partitions, 1,000 types, a day"
    )
    given = parser.parse_args()
    for command in commands(given.events, given.full):
        print(f"== {' '.join(command)}", flush=True)
        code = subprocess.run([sys.executable, "-m", *command]).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
