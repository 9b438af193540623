"""`sluice erase` of one user, as a person runs it, out of what `sluice run` has landed and loaded.

python -m benchmarks.erase [--events 20000000] [--hours 720] [--users 10000]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.publish_events import Load
from benchmarks.world import Pipe, World, hours_of, words_of, world

USER = "u4242"
CHECK = Path(__file__).with_name("check_receipt.py")


def of_user(load: Load) -> Iterator[bytes]:
    """The user's events: what Kafka got, and has to be gone."""
    return (value for key, value, _ in load.events() if key == USER.encode())


def measure(there: World, pipe: Pipe, load: Load) -> dict[str, Any]:
    """Raises SystemExit where the table has other rows than it should, or the receipt does not hold."""
    events = list(of_user(load))
    ran = there.sluice("run", pipe, *words_of(hours_of(load)))
    done = there.sluice("erase", pipe, "--where", f"user={USER}", "--reason", "benchmark", "--yes", "--json")
    receipt = json.loads(done.out)
    [(rows, left)] = there.client.rows(f"SELECT count(), countIf(user = '{USER}') FROM bench.{pipe.name}")
    if (rows, left) != (load.count - len(events), 0):
        raise SystemExit(f"{rows} rows, {left} of the user; expected {load.count - len(events)} and 0")
    place = pipe.lake / "_erasures/000000/receipt.json"
    words = [sys.executable, str(CHECK), str(pipe.lake), str(place), f'"user":"{USER}"']
    checked = subprocess.run(words, capture_output=True, text=True, check=False)
    if checked.returncode:
        raise SystemExit(f"the receipt does not hold: {checked.stdout}{checked.stderr}")
    written = sum(file["bytes"] for unit in receipt["units"] for file in unit["files_after"])
    return {
        "events": load.count,
        "hours": load.hours,
        "erased": len(events),
        "units remade": receipt["erased"]["units"],
        "seconds of `sluice run`": round(ran.used.seconds, 1),
        "seconds of `sluice erase`": round(done.used.seconds, 1),
        "processor seconds of it": {kind: round(s) for kind, s in done.used.cpu.items() if s >= 1},
        "bytes rewritten": written,
        "bytes rewritten for each byte of the user's events": round(written / sum(map(len, events)), 1),
        "receipt": checked.stdout.strip(),
        "load of the machine": [round(one, 1) for one in os.getloadavg()],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--hours", type=int, default=720)
    parser.add_argument("--users", type=int, default=10_000)
    given = parser.parse_args()
    load = Load(given.events, hours=given.hours, users=given.users)
    with world() as there:
        pipe = there.pipe("erase", partition_by="toYYYYMM(_slice)")
        there.publish(pipe, load)
        print(json.dumps(measure(there, pipe, load), indent=1))


if __name__ == "__main__":
    main()
