"""Lets the hourly DAG run in Airflow and waits for it."""

import time
from collections import Counter
from datetime import datetime

from local.airflow_api import Airflow
from local.progress import say
from local.readiness import wait_until

DAG = "adx"
PARSE_SECONDS = 180
RUN_SECONDS = 1200
POLL_SECONDS = 2
ALIVE_SECONDS = 10
ENDED = {"success", "failed"}


class DemoFailed(Exception):
    """The demo's run did not get where it should."""


def wait_for_dag(airflow: Airflow) -> None:
    def explain() -> None:
        if errors := airflow.import_errors():
            raise DemoFailed(f"Airflow cannot read the DAGs: {errors[0]}")

    wait_until(
        lambda: airflow.has_dag(DAG), f"Airflow's DAG {DAG}", PARSE_SECONDS, check=explain, poll=POLL_SECONDS
    )


def interval_end(run: dict) -> datetime | None:
    return datetime.fromisoformat(run["data_interval_end"]) if run.get("data_interval_end") else None


def newest_hour_run(airflow: Airflow) -> datetime | None:
    """Returns the end of the newest hour that the DAG has taken up, if any."""
    ends = [interval_end(run) for run in airflow.runs(DAG)]
    return max((end for end in ends if end), default=None)


def run_of(airflow: Airflow, end: datetime) -> dict | None:
    return next((run for run in airflow.runs(DAG) if interval_end(run) == end), None)


def describe(airflow: Airflow, run: dict | None) -> str:
    if run is None:
        return "waiting for Airflow to start the run"
    states = Counter(task["state"] or "waiting" for task in airflow.tasks(DAG, run["dag_run_id"]))
    return f"run {run['dag_run_id']}: " + ", ".join(
        f"{count} {state}" for state, count in sorted(states.items())
    )


def failed_tasks(airflow: Airflow, run: dict) -> str:
    tasks = airflow.tasks(DAG, run["dag_run_id"])
    return ", ".join(task["task_id"] for task in tasks if task["state"] == "failed") or "no task"


def retry_failed(airflow: Airflow, end: datetime) -> None:
    """Retries a run that failed in an earlier `make demo`; every step may be repeated."""
    run = run_of(airflow, end)
    if run and run["state"] == "failed":
        say(f"trying {run['dag_run_id']} again, which failed earlier")
        airflow.clear_failed(DAG, run["dag_run_id"])


def wait_for_run(airflow: Airflow, end: datetime) -> dict:
    """Returns the ended run of the hour that ends at `end`; it heals the hours before."""
    started = reported = time.monotonic()
    while True:
        run = run_of(airflow, end)
        if run and run["state"] in ENDED:
            break
        if time.monotonic() - started > RUN_SECONDS:
            raise DemoFailed(f"the run of the hour until {end:%H:%M} did not end within {RUN_SECONDS} s")
        if time.monotonic() - reported > ALIVE_SECONDS:
            reported = time.monotonic()
            say(f"  … {describe(airflow, run)}, {reported - started:.0f} s")
        time.sleep(POLL_SECONDS)
    if run["state"] == "failed":
        raise DemoFailed(
            f"the run failed in {failed_tasks(airflow, run)}: see its log at {airflow.url}/dags/{DAG}"
        )
    return run
