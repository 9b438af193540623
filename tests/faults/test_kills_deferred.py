"""Airflow's parts, the driver and its keeper killed while landing is deferred: everything is there once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import psutil
import pytest
import yaml

from local.environment import AIRFLOW_SETTINGS
from sluice.clients.lake.folder import FolderLake
from sluice.clients.lake.layout import DRIVERS
from sluice.state.driver_record import DriverRecord
from sluice.state.driver_store import read_driver
from tests.faults import kills_trials
from tests.faults.kills_airflow import PARTS, SCHEDULER, TRIGGERER, Airflow
from tests.faults.kills_commands import Commands, publish
from tests.faults.kills_state import Place
from tests.faults.kills_trials import SLICES

pytestmark = [pytest.mark.faults, pytest.mark.long]  # Airflow takes a minute to start

DAG = "p_backfill"
LAND = "task_id = 'batch.land'"


@pytest.fixture(scope="module")
def commands(tmp_path_factory, kafka_broker, stack_env) -> Iterator[Commands]:
    folder = tmp_path_factory.mktemp("deferred_kills")
    trials = kills_trials.start(folder, bootstrap=kafka_broker, topic="deferred_kills")
    publish(kafka_broker, trials.topic, trials.sent)
    yield Commands(trials, stack_env)
    kills_trials.stop(trials)


@pytest.fixture(scope="module")
def place(commands: Commands) -> Place:
    found = commands.trials.place("fill")
    path = commands.write_pipeline(found)
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "airflow": {"deferrable": True}}))
    return found


@pytest.fixture(scope="module")
def airflow(commands: Commands, place: Place) -> Iterator[Airflow]:
    folder = commands.trials.folder
    ours = ("PYTHONPATH", "SLUICE_SPARK_JARS", "AIRFLOW_CONN_CLICKHOUSE_DEFAULT")
    more = {name: commands.child_environment[name] for name in ours}
    more["PYTHONPATH"] += os.pathsep + str(AIRFLOW_SETTINGS)
    started = Airflow(folder, folder / "pipelines", more, kinds=(*PARTS, TRIGGERER))
    started.start()
    started.wait_for_dag(DAG)
    yield started
    started.stop()
    for record in records(place):
        if record.end is None and psutil.pid_exists(record.pid):
            os.kill(record.pid, signal.SIGKILL)


def records(place: Place) -> list[DriverRecord]:
    lake = FolderLake(place.lake)
    found = (read_driver(lake, item.key) for item in lake.list(DRIVERS))
    return [record for record in found if record is not None]


def landing(airflow: Airflow, place: Place, run: str) -> psutil.Process:
    """Begins a run; gives the JVM of its landing, which stands still as soon as the task is deferred."""
    span = {"from": SLICES.start.isoformat(), "to": SLICES.end.isoformat(), "mode": run.partition("-")[0]}
    airflow.trigger(DAG, run, span)
    return deferred(airflow, place, run)


def deferred(airflow: Airflow, place: Place, run: str, other_than: str = "") -> psutil.Process:
    """Before Spark can have ended it is stopped."""
    found: list[psutil.Process] = []

    def stands_still() -> bool:
        for record in records(place):
            if record.end is None and record.id != other_than and record.pid:
                found[:] = psutil.Process(record.pid).children()
        return bool(found)

    airflow.wait_for(stands_still, f"the driver of {run}")
    found[0].suspend()
    state = f"SELECT 1 FROM task_instance WHERE {LAND} AND run_id = '{run}' AND state = 'deferred'"
    airflow.wait_for(lambda: bool(airflow.rows(state)), f"the landing of {run} to be deferred")
    return found[0]


def the_record(place: Place) -> DriverRecord:
    [running] = [record for record in records(place) if record.end is None]
    return running


def done(airflow: Airflow, commands: Commands, place: Place, run: str, tries: int) -> None:
    assert airflow.wait_for_run(run) == "success"
    commands.trials.check(place)
    assert airflow.tries(run)["batch.land"] == tries


def test_the_triggerer_is_killed_and_the_next_one_reattaches(commands, airflow, place):
    """No worker is held meanwhile, no second driver is started, and no retry is used."""
    spark = landing(airflow, place, "fill")
    first = the_record(place)
    waits = "SELECT 1 FROM trigger WHERE triggerer_id IS NOT NULL"
    airflow.wait_for(lambda: bool(airflow.rows(waits)), "the triggerer to wait")
    airflow.kill(TRIGGERER)
    spark.resume()
    airflow.wait_for(lambda: records(place)[0].end is not None, "the driver to end while nobody waits")
    airflow.start_part(TRIGGERER)
    done(airflow, commands, place, "fill", tries=1)
    assert [record.id for record in records(place)] == [first.id]


def test_the_scheduler_is_killed_and_the_landing_goes_on(commands, airflow, place):
    spark = landing(airflow, place, "reland-1")
    airflow.kill(SCHEDULER)
    spark.resume()
    airflow.start_part(SCHEDULER)
    done(airflow, commands, place, "reland-1", tries=1)


def test_the_driver_is_killed_and_a_retry_lands(commands, airflow, place):
    landing(airflow, place, "reland-2").kill()
    done(airflow, commands, place, "reland-2", tries=2)


def test_the_keeper_is_killed_as_with_its_machine_and_a_retry_lands(commands, airflow, place):
    spark = landing(airflow, place, "reland-3")
    os.kill(the_record(place).pid, signal.SIGKILL)
    done(airflow, commands, place, "reland-3", tries=2)
    assert not spark.is_running()


def test_a_task_that_is_cleared_while_it_is_deferred_leaves_no_driver(commands, airflow, place):
    spark = landing(airflow, place, "reland-4")
    first = the_record(place)
    airflow.clear(DAG, "reland-4", "batch.land")
    airflow.wait_for(lambda: not spark.is_running(), "the driver of the cleared task to end")
    done(airflow, commands, place, "reland-4", tries=2)
    assert first.id not in [record.id for record in records(place)]


def test_nothing_of_the_drivers_is_left(place):
    assert [record for record in records(place) if record.end is None and not record.stop] == []
