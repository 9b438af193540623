"""Airflow's task processes killed at named points of every step: one retry, and everything is there once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from local.environment import AIRFLOW_SETTINGS
from sluice.crash_points import Land, Point, Publish, Resolve, TableLoad
from tests.faults import kills_events, kills_trials
from tests.faults.kills_airflow import Airflow
from tests.faults.kills_commands import Commands, publish
from tests.faults.kills_points import Order, give, name_of, obeyed
from tests.faults.kills_state import Place
from tests.faults.kills_trials import SLICES

pytestmark = [pytest.mark.faults, pytest.mark.long]  # Airflow takes a minute to start

DAG = "p_backfill"
TASKS: dict[type, str] = {Resolve: "resolve", Land: "batch.land", Publish: "batch.publish"}
# Each run of the DAG meets these one after another, each in another try of another task.
RUNS: list[tuple[str, list[Point]]] = [
    ("fill", [Resolve.STORED, Land.READ, TableLoad.MOVED, Publish.HOURS_MARKED]),
    ("reload", [TableLoad.DELETED, Publish.GATHERED]),
    ("reland", [Land.OLD_COPIED, TableLoad.REVOKED]),
]


@pytest.fixture(scope="module")
def commands(tmp_path_factory, kafka_broker, stack_env) -> Iterator[Commands]:
    folder = tmp_path_factory.mktemp("airflow_kills")
    trials = kills_trials.start(folder, bootstrap=kafka_broker, topic="airflow_kills")
    publish(kafka_broker, trials.topic, trials.sent)
    yield Commands(trials, stack_env)
    kills_trials.stop(trials)


@pytest.fixture(scope="module")
def place(commands: Commands) -> Place:
    found = commands.trials.place("fill")
    commands.write_pipeline(found)
    return found


@pytest.fixture(scope="module")
def airflow(commands: Commands, place: Place) -> Iterator[Airflow]:
    folder = commands.trials.folder
    ours = ("PYTHONPATH", "SLUICE_TEST_KILLS", "SLUICE_SPARK_JARS", "AIRFLOW_CONN_CLICKHOUSE_DEFAULT")
    more = {name: commands.child_environment[name] for name in ours}
    more["PYTHONPATH"] += os.pathsep + str(AIRFLOW_SETTINGS)
    started = Airflow(folder, folder / "pipelines", more)
    started.start()
    yield started
    started.stop()


@pytest.mark.parametrize(("mode", "points"), RUNS, ids=[mode for mode, _ in RUNS])
def test_tasks_killed_at_points(commands: Commands, airflow: Airflow, place, fault_log, mode, points):
    airflow.wait_for_dag(DAG)
    before = airflow.announced()
    run_with_kills(commands, airflow, mode, points)
    try:
        assert airflow.wait_for_run(mode) == "success"
        commands.trials.check(place)
        check_tries(airflow.tries(mode), points, place)
        assert Counter(airflow.announced()) - Counter(before) == announced(commands.trials.sent, place)
    except BaseException:
        fault_log.add("kill", name_of(points[-1]), True, victim="Airflow task", times=len(points))
        raise
    for point in points:
        fault_log.add("kill", name_of(point), False, victim="Airflow task")


def run_with_kills(commands: Commands, airflow: Airflow, mode: str, points: list[Point]) -> None:
    orders = commands.trials.orders
    for number, point in enumerate(points):
        # Landing is Spark's: its task is the process that submitted it.
        victim = "above java" if isinstance(point, Land) else "self"
        give(orders, Order(name_of(point), victim=victim))
        if number == 0:
            span = {"from": SLICES.start.isoformat(), "to": SLICES.end.isoformat(), "mode": mode}
            airflow.trigger(DAG, mode, span)
        airflow.wait_for(lambda: obeyed(orders), f"{point} to be reached")


def check_tries(tries: dict[str, int], points: list[Point], place: Place) -> None:
    """Each killed task took two tries. A load's point is reached first by whichever table comes first."""
    loads = [task for task in tries if task.startswith("batch.load.")]
    for kind in {type(point) for point in points}:
        tasks = [TASKS[kind]] if kind in TASKS else loads
        assert max(tries[task] for task in tasks) == 2, tries


def announced(sent: list[kills_events.Sent], place: Place) -> Counter:
    """One asset event for each table and hour."""
    fits = [s for s in sent if not s.rejected_records and s.fits]
    rows = Counter((s.table, s.hour) for s in fits)
    return Counter(
        (f"sluice://p/{place.database}.{table}", kills_events.hour_id(hour), rows[table, hour])
        for table in (kills_events.VIEWED, kills_events.PLAIN)
        for hour in range(kills_events.HOURS)
    )
