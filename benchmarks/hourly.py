"""What Airflow adds to an hour: the hourly DAG's run against the Spark and ClickHouse work in it.

    python -m benchmarks.hourly

Starts the embedded stack in a folder of its own, publishes the demo's events of the last complete hour, and
turns the hourly DAG on: its first run takes that hour, and the 23 empty ones before it. The work is what the
run's steps have noted in the lake (`land` and `load`, without the start of the JVM). Prints what each task
waited and took.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import clickhouse_connect

from benchmarks.results import Result, say, store
from local.airflow_api import Airflow
from local.demo import complete_hours, create_tables
from local.demo_events import publish_missing
from local.demo_run import DAG, wait_for_dag, wait_for_run
from local.environment import Settings, environment
from local.readiness import free_port
from local.sample_events import HOUR
from local.versions import ROOT
from sluice.clients.lake.folder import FolderLake
from sluice.state.notes import Timing, of_day

BOUND_SECONDS = 25.0
WORK = ("land", "load")


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def seconds(start: str, end: str) -> float:
    return (instant(end) - instant(start)).total_seconds()


def print_tasks(tasks: Sequence[dict[str, Any]]) -> None:
    print(f"{'task':<28}{'queued':>10}{'took':>10}")
    for task in sorted((t for t in tasks if t["start_date"]), key=lambda t: t["start_date"]):
        queued = seconds(task["queued_when"] or task["start_date"], task["start_date"])
        print(f"{task['task_id']:<28}{queued:>8.1f} s{seconds(task['start_date'], task['end_date']):>8.1f} s")


def steps_of(lake: Path, since: datetime) -> list[Timing]:
    days = sorted({since.date(), datetime.now(UTC).date()})
    return [timing for day in days for timing in of_day(FolderLake(lake), day)]


def measure(settings: Settings, env: dict[str, str]) -> Result:
    began = datetime.now(UTC)
    hour = complete_hours(began)[-1]
    airflow = Airflow(settings)
    create_tables(clickhouse_connect.get_client(**settings.clickhouse_login))
    wait_for_dag(airflow)
    publish_missing([hour], settings.bootstrap, settings.home / "demo", env)
    airflow.unpause(DAG)
    run = wait_for_run(airflow, hour + HOUR)
    print_tasks(airflow.tasks(DAG, run["dag_run_id"]))
    steps = steps_of(settings.home / "lake" / DAG, began)
    spent = {
        name: round(sum(t.seconds for t in steps if t.step == name), 1) for name in {t.step for t in steps}
    }
    rows = sum(timing.rows for timing in steps if timing.step == "land")
    return Result(
        "hourly",
        "a run of the hourly DAG",
        round(seconds(run["start_date"], run["end_date"]), 1),
        rows,
        slices=24,
        steps=spent,
    )


def main() -> int:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        settings = Settings(Path(folder), free_port(neighbours=1), free_port(), free_port())
        env = environment(settings)
        stack = [sys.executable, "-m", "local.stack"]
        subprocess.run([*stack, "up"], env=env, cwd=ROOT, check=True)
        try:
            result = measure(settings, env)
        finally:
            subprocess.run([*stack, "down"], env=env, cwd=ROOT, check=True)
    say(result)
    store([result])
    work = sum(result.steps.get(name, 0.0) for name in WORK)
    beyond = result.seconds - work
    print(f"beyond Spark and ClickHouse {beyond:.1f} s, {beyond / BOUND_SECONDS:.2f} of the bound of 25 s")
    return 0 if beyond <= BOUND_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
