"""What a benchmark found, kept in benchmarks/results.json: each case's newest result."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from benchmarks.memory import Used
from local import versions

PLACE = Path(__file__).with_name("results.json")
_LIBRARIES = ("apache-airflow", "pyspark", "pyarrow", "kafka-python", "clickhouse-connect")


@dataclass(frozen=True)
class Result:
    """`seconds` by the clock, of the whole command; `steps` are those that its run stored."""

    name: str
    what: str
    seconds: float
    rows: int
    slices: int = 0
    files: int = 0
    steps: Mapping[str, float] = field(default_factory=dict)
    used: Used | None = None


def say(result: Result) -> None:
    print(
        f"{result.name}: {result.what}: {result.seconds:.1f} s, {result.rows:,} rows, {result.files:,} files"
    )
    if result.steps:
        print("  " + ", ".join(f"{step} {seconds:.1f} s" for step, seconds in result.steps.items()))
    if result.used is not None:
        peak = ", ".join(f"{kind} {mb:,.0f} MB" for kind, mb in result.used.peak.items() if mb)
        cpu = ", ".join(f"{kind} {s:.0f} s" for kind, s in result.used.cpu.items() if s >= 1)
        print(f"  beyond the idle servers {result.used.beyond_idle:,.0f} MB; highest of each: {peak}")
        print(f"  processor: {cpu}", flush=True)


def machine() -> dict[str, Any]:
    """What has to be known to compare: no name, no address."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": platform.system() + " " + platform.release().split("-")[0],
        "python": platform.python_version(),
        "java": java.splitlines()[0] if java else "?",
        **{name: version(name) for name in _LIBRARIES},
        "clickhouse": versions.CHDB,
        "kafka": versions.KAFKA,
        "load_average": round(os.getloadavg()[0], 1),
    }


def store(found: Iterable[Result]) -> None:
    known = load()
    here = machine()
    for result in found:
        known[result.name] = {**asdict(result), "machine": here}
    PLACE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def load() -> dict[str, Any]:
    return json.loads(PLACE.read_text()) if PLACE.exists() else {}
