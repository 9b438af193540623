"""`make bench`: every benchmark, one after another, each printing its ratio from one run of its own."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = ("benchmarks.land", "benchmarks.load")


def main() -> int:
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        code = subprocess.run([sys.executable, "-m", name, *sys.argv[1:]]).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
