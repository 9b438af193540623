"""The first days of somebody with a stock Airflow, by docs/guide/airflow.md as written.

The tests are steps: each goes on where the one before has ended.
"""

from __future__ import annotations

import signal
import time
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from tests.stock.events import HOURS
from tests.stock.guide import BLOCKS
from tests.stock.platform import PARTS, send
from tests.stock.world import World

pytestmark = [pytest.mark.integration, pytest.mark.faults]

FIRST_HOUR, MINUTES = "The first hour", 5
# So that a retry does not wait for long.
IMPATIENT = "airflow: {retry_delay: 1s}\n"
PIPELINES = 99
# By run: what is killed in it, each in a landing of its own, the scheduler while tables are loaded.
KILLS = [("triggerer", "Spark"), ("worker", "scheduler")]


def test_from_pip_install_to_a_verified_hour(stock: World):
    began = time.monotonic()
    for section in ("Install", "DAG files"):
        stock.reader.follow(section)
        stock.note(section, began)
    for part in PARTS:
        stock.airflow.start(part, stock.reader.environment)
    stock.airflow.wait_until_healthy()
    stock.note("Airflow restarted", began)
    *before, last = [block for block in BLOCKS if block.section == FIRST_HOUR]
    for block in before:
        stock.reader.do(block, stock.reader.folder)
    stock.note("unpaused", began)
    stock.airflow.wait(lambda: states(stock, "ads") == ["success"], "the first run")
    stock.note("the first run", began)
    printed = stock.reader.do(last, stock.reader.folder)
    stock.note("verified hour", began)
    assert "broken: 0" in printed
    stock.check()


def test_that_took_five_minutes(stock: World):
    """Of two cores that nobody else uses."""
    assert stock.minutes["verified hour"] < MINUTES


def test_a_backfill_from_a_shell_and_who_waits_for_its_hours(stock: World):
    """It lands the hours again; a DAG that waits for hours of both tables runs once for each."""
    stock.reader.follow("Hours as partitions")
    stock.reader.type("airflow dags reserialize; airflow dags unpause hourly_report")
    stock.reader.follow("Backfills from a shell")
    hours = [f"{stock.start + timedelta(hours=hour):%Y-%m-%dT%H}" for hour in range(HOURS)]
    keys = "SELECT partition_key FROM dag_run WHERE dag_id = 'hourly_report' AND state = 'success'"
    stock.airflow.wait(lambda: {key for (key,) in stock.airflow.sql(keys)} >= set(hours), "the hours' runs")
    stock.check()


@pytest.mark.parametrize("kills", KILLS, ids=" and ".join)
def test_a_run_outlives_kills(stock: World, kills: tuple[str, ...]):
    be_impatient(stock)
    known = set(parquet(stock))
    run = stock.reland()
    for victim in kills:
        wait_for(stock, run, victim, known)
        strike(stock, victim)
    run.result()
    stock.check()


def be_impatient(stock: World) -> None:
    path = stock.pipelines / "ads.yaml"
    path.write_text(path.read_text().removesuffix(IMPATIENT) + IMPATIENT)


def parquet(stock: World) -> list[Path]:
    """What tasks of a landing have written so far."""
    return list((stock.lake / "_attempts").rglob("*.parquet"))


def wait_for(stock: World, run: Future[str], victim: str, known: set[Path]) -> None:
    """Until a landing has written some of its files; for the scheduler until a table is loaded."""
    loading = "SELECT 1 FROM task_instance WHERE task_id LIKE 'batch.load%' AND state = 'running'"

    def reached() -> bool:
        assert not run.done(), f"the run was over before {victim} was killed: {run.result()}"
        if victim == "scheduler":
            return bool(stock.airflow.sql(loading))
        return bool(set(parquet(stock)) - known)

    stock.airflow.wait(reached, f"the moment to kill {victim}", poll=0.02)


def strike(stock: World, victim: str) -> None:
    """kill -9. The worker is the process of the task, which has submitted to Spark."""
    if victim in PARTS:
        stock.airflow.kill(victim)
        stock.airflow.start(victim, stock.reader.environment)
        return
    (spark,) = stock.airflow.landings()
    process = spark if victim == "Spark" else spark.parent()
    assert isinstance(process, psutil.Process) and process.pid != stock.airflow.parts["scheduler"].pid
    send(process, signal.SIGKILL)


def test_a_hundred_pipelines_of_which_one_is_broken(stock: World):
    """The broken one is an import error of one clear line, and the others are DAGs."""
    text = (stock.pipelines / "ads.yaml").read_text()
    for number in range(1, PIPELINES):
        (stock.pipelines / f"more_{number:03}.yaml").write_text(text.replace(" ads.", f" more_{number:03}."))
    (stock.pipelines / "broken.yaml").write_text(text.replace("ads.bids", "bids"))
    stock.reader.follow("What a platform sets")
    sound = "SELECT count(DISTINCT dag_id) FROM serialized_dag JOIN dag USING (dag_id) "
    sound += "WHERE NOT is_stale AND dag_id NOT LIKE '%report'"
    stock.airflow.wait(lambda: stock.airflow.sql(sound) == [(3 * PIPELINES,)], f"{3 * PIPELINES} DAGs")
    found = "SELECT filename, stacktrace FROM import_error"
    stock.airflow.wait(lambda: len(stock.airflow.sql(found)) == 1, "the import error")
    [(file, trace)] = stock.airflow.sql(found)
    line = trace.strip().splitlines()[-1]
    assert file == "sluice_errors.py"
    assert "1 pipeline file is wrong: see Sluice's page" in line and "broken.yaml" not in trace
    owners = "SELECT DISTINCT owners FROM dag WHERE dag_id LIKE 'more_%'"
    stock.airflow.wait(lambda: stock.airflow.sql(owners) == [("data-platform",)], "the folder's defaults")


@pytest.mark.parametrize("section", ["Upgrade", "Rollback"])
def test_another_version_under_a_running_landing(stock: World, section: str):
    """The landing's Spark stands still meanwhile, so that it has begun before and ends after."""
    be_impatient(stock)
    own, other = sorted(stock.wheels)
    stock.reader.places["VERSION"] = other if section == "Upgrade" else own
    run = stock.reland()
    stock.airflow.wait(lambda: any(stock.airflow.landings()), "the landing's Spark")
    (spark,) = stock.airflow.landings()
    send(spark, signal.SIGSTOP)
    stock.reader.follow(section)
    send(spark, signal.SIGCONT)
    run.result()
    assert stock.reader.places["VERSION"] in stock.reader.type("pip show sluice")
    stock.check()


def test_nothing_is_left_after_it_is_uninstalled(stock: World):
    """But for what the page names: rows and values are as before."""
    stock.reader.type("rm dags/hourly_report.py dags/daily_report.py dags/some.py")
    stock.reader.follow("Uninstall")
    stock.reader.type("for dag in hourly_report daily_report; do airflow dags delete --yes $dag; done")
    assert stock.airflow.sql("SELECT run_id FROM dag_run WHERE dag_id LIKE 'ads%'") == []
    assert stock.client.rows("SELECT name FROM system.databases WHERE name = 'sluice'") == []
    packages = stock.reader.type("pip list")
    assert "pyspark" in packages and "sluice" not in packages
    stock.check()
    active = "SELECT uri FROM asset_active WHERE uri LIKE 'sluice://ads/%/hours'"
    stock.airflow.wait(lambda: stock.airflow.sql(active) == [], "the hours' assets to go")


def test_each_block_of_the_guide_was_done(stock: World):
    assert [block.text for block in stock.reader.left_out] == []


def states(stock: World, dag: str) -> list[str]:
    """Of its runs, oldest first."""
    return [
        state
        for (state,) in stock.airflow.sql(f"SELECT state FROM dag_run WHERE dag_id = '{dag}' ORDER BY id")
    ]
