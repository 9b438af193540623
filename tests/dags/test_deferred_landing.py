"""The deferred `land` task with its real keeper, against a program in the place of spark-submit."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from airflow.triggers.base import TriggerEvent
from structlog.testing import capture_logs

from local.readiness import wait_until
from sluice.airflow import driver_start, driver_trigger, metrics
from sluice.airflow.driver_trigger import DriverTrigger
from sluice.airflow.land_operator import GRACE, LandOperator
from sluice.airflow.spark_processes import marked
from sluice.clients.lake.folder import FolderLake
from sluice.clients.lake.layout import DRIVERS
from sluice.flow.land import submit
from sluice.metrics.sink import MetricSample
from sluice.state import driver_record
from sluice.state.driver_record import DriverRecord
from sluice.state.driver_store import change_driver, read_driver
from tests.dags.pipeline_texts import TWO_TABLES
from tests.support.long_form import per_commit

# Notes each start, and waits until the file `go` is there.
SPARK_SUBMIT = f"""#!{sys.executable}
import json, os, pathlib, sys, time
folder = pathlib.Path(os.environ["FOLDER"])
seen = {{"arguments": sys.argv[1:], "environment": dict(os.environ)}}
(folder / f"seen-{{os.getpid()}}.half").write_text(json.dumps(seen))
(folder / f"seen-{{os.getpid()}}.half").rename(folder / f"seen-{{os.getpid()}}.json")
print("read 10 %", flush=True)
while not (folder / "go").exists():
    time.sleep(0.02)
print((folder / "go").read_text(), flush=True)
sys.exit(int(os.environ["CODE"]))
"""
SECRET = "correct-horse"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    text = TWO_TABLES.replace("s3://events", f"file://{tmp_path}/lake").replace("lake_connection", "# ")
    (tmp_path / "ads.yaml").write_text(f"{text}airflow: {{deferrable: true}}\n")
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(SPARK_SUBMIT)
    program.chmod(0o755)
    kafka = {"conn_type": "kafka", "password": SECRET, "extra": {"bootstrap.servers": "k:9092"}}
    for name, value in {
        "SLUICE_PIPELINES": str(tmp_path),
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "FOLDER": str(tmp_path),
        "CODE": "0",
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
        "AIRFLOW_CONN_KAFKA_DC2": json.dumps(kafka),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TMPDIR": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(submit, "spark_submit_arguments", arguments)
    monkeypatch.setattr(driver_start.tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    for item in lake(tmp_path).list(DRIVERS):
        left = read_driver(lake(tmp_path), item.key)
        if left is not None and left.pid and left.end is None:
            with suppress(ProcessLookupError):
                os.kill(left.pid, signal.SIGKILL)


def arguments(pipeline, config, slices, mode, token, accept_loss) -> SimpleNamespace:
    own = [pipeline.name, config.name, str(slices), mode, token, *(["loss"] if accept_loss else [])]
    return SimpleNamespace(
        application="land.py", application_args=own, conf={}, jars=[], py_files=[], env_vars={}
    )


def starts(folder: Path) -> list[int]:
    """The processes that were started as spark-submit."""
    return sorted(int(path.stem.partition("-")[2]) for path in folder.glob("seen-*.json"))


def lake(folder: Path) -> FolderLake:
    return FolderLake(folder / "lake" / "ads")


def record(trigger: DriverTrigger, folder: Path) -> DriverRecord:
    found = read_driver(lake(folder), trigger.watched.key)
    assert found is not None
    return found


def land_task() -> LandOperator:
    batch = {"from": "2026-11-20T10:00:00Z", "to": "2026-11-20T12:00:00Z"}
    return LandOperator(task_id="land", pipeline="ads", connection="spark_default", batch=batch)


def context(run: str = "run 7", tries: int = 1) -> dict[str, Any]:
    ti = SimpleNamespace(dag_id="ads", task_id="batch.land", try_number=tries)
    return {"params": {}, "run_id": run, "ti": ti}


def deferred(run: str = "run 7", tries: int = 1) -> tuple[DriverTrigger, timedelta]:
    """What Airflow stores of a deferred try: the trigger, made anew as the triggerer makes it."""
    with pytest.raises(TaskDeferred) as raised:
        land_task().execute(context(run, tries))
    place, given = raised.value.trigger.serialize()
    assert place == "sluice.airflow.driver_trigger.DriverTrigger"
    assert raised.value.method_name == "resume"
    return DriverTrigger(**json.loads(json.dumps(given))), raised.value.timeout


def event_of(trigger: DriverTrigger) -> TriggerEvent:
    async def first() -> TriggerEvent:
        return await asyncio.wait_for(anext(aiter(trigger.run())), 60)

    return asyncio.run(first())


def resume(event: TriggerEvent) -> None:
    land_task().resume(context(), event=json.loads(json.dumps(event.payload)))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watcher reads often, and thinks a driver lost after a second."""
    monkeypatch.setattr(driver_trigger, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(driver_record, "LOST_SECONDS", 8.0)


@pytest.mark.usefixtures("quick")
def test_a_task_is_deferred_while_its_driver_runs_and_ends_as_that_does(folder: Path):
    with capture_logs() as begun:
        trigger, timeout = deferred()
    assert not [one for one in begun if "land.py" in str(one) and one["log_level"] != "debug"]
    wait_until(lambda: len(starts(folder)) == 1, "spark-submit has started", 30)
    assert timeout == timedelta(hours=1, seconds=0.4) + GRACE  # two hours of two clusters
    (folder / "go").write_text("landed 4 units")
    event = event_of(trigger)
    assert event.payload["state"] == "ended"
    with capture_logs() as logs:
        resume(event)
    said = [entry["event"] for entry in logs]
    assert said[-2:] == ["read 10 %", "landed 4 units"]


@pytest.mark.usefixtures("quick")
def test_a_deferred_step_is_counted_once_with_the_time_of_its_driver(folder: Path, monkeypatch):
    counted: list[tuple[str, float, str]] = []

    def take(one: MetricSample) -> None:
        counted.append((one.metric.name, one.value, one.labels.get("outcome", "")))

    monkeypatch.setattr(metrics, "to_airflow", take)
    trigger, _ = deferred()
    assert counted == []
    (folder / "go").write_text("")
    event = event_of(trigger)
    since = datetime.fromisoformat(trigger.watched.since)
    event.payload["driver"]["since"] = (since - timedelta(minutes=5)).isoformat()
    resume(event)
    found = {name: (value, outcome) for name, value, outcome in counted}
    assert 300 < found["step_seconds"][0] < 400
    assert [one for one in counted if one[0] == "step_runs"] == [("step_runs", 1, "done")]


def test_no_secret_is_in_a_file_or_on_a_command_line(folder: Path):
    trigger, _ = deferred()
    wait_until(lambda: len(starts(folder)) == 1, "spark-submit has started", 30)
    found = record(trigger, folder)
    [seen] = [json.loads(path.read_text()) for path in folder.glob("seen-*.json")]
    assert json.loads(seen["environment"]["AIRFLOW_CONN_KAFKA_DC2"])["password"] == SECRET
    assert SECRET not in " ".join(seen["arguments"])
    assert SECRET not in Path(f"/proc/{found.pid}/cmdline").read_text()
    files = [*(folder / "lake").rglob("*"), *folder.glob("sluice-driver-*")]
    assert not [path for path in files if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert SECRET not in json.dumps(trigger.serialize())
    [log] = folder.glob("sluice-driver-*.log")
    assert log.stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("code", "said", "error", "line"),
    [
        ("3", "error: no topic 'bids'", AirflowFailException, r"^landing: no topic 'bids'$"),
        ("75", "error: Kafka is away", AirflowException, r"^landing: Kafka is away$"),
        (
            "1",
            "KeyError: 'a'",
            AirflowException,
            r"^landing: Spark ended with exit code 1, and said last: Key",
        ),
        ("137", "", AirflowException, r"^landing: Spark was killed by SIGKILL: "),
    ],
)
def test_a_driver_that_fails_is_judged_as_one_that_the_task_ran(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str, error: type, line: str
):
    monkeypatch.setenv("CODE", code)
    (folder / "go").write_text(said)
    with pytest.raises(error, match=line) as raised:
        resume(event_of(deferred()[0]))
    assert type(raised.value) is error


@pytest.mark.usefixtures("quick")
def test_a_retry_attaches_to_a_driver_whose_try_was_killed_before_it_deferred(folder: Path):
    first, _ = deferred()
    as_if_killed(first, folder)
    second, _ = deferred(tries=2)
    assert second.watched == first.watched
    (folder / "go").write_text("")
    event = event_of(second)
    assert event.payload["state"] == "ended"
    resume(event)
    assert len(starts(folder)) == 1


def as_if_killed(trigger: DriverTrigger, folder: Path) -> None:
    """The worker, after it has started the driver and before its task was deferred."""
    at = lake(folder), trigger.watched.key
    change_driver(*at, lambda record: record and replace(record, deferred=False))


@pytest.mark.parametrize("changed", per_commit(["pipeline file", "run"]))
def test_another_pipeline_file_or_run_has_a_driver_of_its_own(folder: Path, changed: str):
    first, _ = deferred()
    as_if_killed(first, folder)
    if changed == "run":
        second, _ = deferred(run="run 8")
        assert record(first, folder).id == first.watched.driver
    else:
        path = folder / "ads.yaml"
        path.write_text(path.read_text() + "rows_per_read: 1000\n")
        second, _ = deferred(tries=2)
        assert record(first, folder).id == second.watched.driver
        wait_until(lambda: marked(first.watched.driver) == [], "the replaced driver has ended", 30)
    assert second.watched.driver != first.watched.driver
    wait_until(lambda: len(marked(second.watched.driver)) == 1, "the second runs", 30)


@pytest.mark.usefixtures("quick")
def test_a_task_that_is_cleared_ends_its_driver_and_the_next_try_has_its_own(folder: Path):
    first, _ = deferred()
    wait_until(lambda: len(starts(folder)) == 1, "spark-submit has started", 30)
    asyncio.run(first.on_kill())
    wait_until(lambda: marked(first.watched.driver) == [], "the driver has ended", 30)
    event = event_of(first)
    with pytest.raises(AirflowException, match="cleared or marked while it was deferred"):
        resume(event)
    second, _ = deferred(tries=2)
    assert second.watched.driver != first.watched.driver


def test_a_try_after_a_clear_does_not_wait_for_the_driver_that_may_hang(folder: Path):
    """Also where the triggerer is late, or down. Its on_kill does not concern the new driver."""
    first, _ = deferred()
    second, _ = deferred(tries=2)
    assert second.watched.driver != first.watched.driver
    asyncio.run(first.on_kill())
    assert record(second, folder).stop is False
    wait_until(lambda: marked(first.watched.driver) == [], "the first driver has ended", 30)
    wait_until(lambda: len(marked(second.watched.driver)) == 1, "the second runs", 30)


@pytest.mark.usefixtures("quick")
def test_a_driver_whose_keeper_was_killed_is_lost_and_the_next_try_starts_one(folder: Path):
    """As when its machine has gone: the record stands still."""
    first, _ = deferred()
    wait_until(lambda: len(starts(folder)) == 1, "spark-submit has started", 30)
    os.kill(record(first, folder).pid, signal.SIGKILL)
    event = event_of(first)
    assert event.payload["state"] == "lost"
    with pytest.raises(AirflowException, match="nothing is known any more of the driver on") as raised:
        resume(event)
    assert not isinstance(raised.value, AirflowFailException)
    assert marked(first.watched.driver) == []
    second, _ = deferred(tries=2)
    assert second.watched.driver != first.watched.driver


def test_a_record_without_a_keeper_is_replaced(folder: Path):
    """The worker was killed before it had started the keeper."""
    first, _ = deferred()
    at_first = record(first, folder)
    change_driver(lake(folder), first.watched.key, lambda _: DriverRecord("d0", at_first.work, "h", ""))
    second, _ = deferred(tries=2)
    assert second.watched.driver not in ("d0", first.watched.driver)


@pytest.mark.usefixtures("quick")
def test_a_driver_has_the_time_that_the_file_says(folder: Path):
    path = folder / "ads.yaml"
    path.write_text(path.read_text().replace("true}", "true, timeout: 1s}"))
    trigger, timeout = deferred()
    assert timeout == timedelta(seconds=1) + GRACE
    with pytest.raises(AirflowException, match="it took longer than the task's timeout"):
        resume(event_of(trigger))
    assert marked(trigger.watched.driver) == []


def test_without_a_timeout_there_is_none(folder: Path):
    path = folder / "ads.yaml"
    path.write_text(path.read_text().replace("true}", "true, timeout: none}"))
    trigger, timeout = deferred()
    assert timeout is None
    assert "--seconds" not in Path(f"/proc/{record(trigger, folder).pid}/cmdline").read_text().split("\0")


def test_a_task_that_is_killed_while_it_starts_ends_its_driver(folder: Path, monkeypatch):
    land = land_task()

    def killed(watched: object) -> None:
        land.on_kill()
        raise KeyboardInterrupt

    monkeypatch.setattr("sluice.airflow.land_operator.asdict", killed)
    with pytest.raises(KeyboardInterrupt):
        land.execute(context())
    assert land._driver is not None
    assert marked(land._driver.driver) == []


def test_a_keeper_that_does_not_start_fails_the_try_and_holds_up_no_other(folder: Path, monkeypatch):
    program = folder / "python"
    program.write_text("#!/bin/sh\necho ImportError: no sluice here >&2\nexit 1\n")
    program.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(program))
        with pytest.raises(AirflowException, match="driver does not start: ImportError: no sluice here"):
            land_task().execute(context())
    [key] = [item.key for item in lake(folder).list(DRIVERS)]
    found = read_driver(lake(folder), key)
    assert found is not None and (found.beat, found.stop) == (0, True)
    second, _ = deferred(tries=2)
    assert second.watched.driver != found.id


@pytest.mark.parametrize("name", ["AIRFLOW_IS_K8S_EXECUTOR_POD", "AIRFLOW_IS_EXECUTOR_CONTAINER"])
def test_a_task_in_a_container_of_its_own_is_refused_before_anything(folder: Path, monkeypatch, name: str):
    monkeypatch.setenv(name, "True")
    with pytest.raises(AirflowFailException, match="airflow.deferrable: this executor ends"):
        land_task().execute(context())
    assert not (folder / "lake").exists()


@pytest.mark.usefixtures("quick")
def test_a_triggerer_that_ends_leaves_the_driver_and_another_goes_on(folder: Path):
    """It is cancelled without on_kill; its trigger is made anew elsewhere."""
    trigger, _ = deferred()

    async def cancelled() -> None:
        waiting = asyncio.create_task(anext(aiter(trigger.run())))
        await asyncio.sleep(0.3)
        waiting.cancel("EOF - shutting down")
        with suppress(asyncio.CancelledError):
            await waiting

    asyncio.run(cancelled())
    assert record(trigger, folder).stop is False
    (folder / "go").write_text("")
    event = event_of(DriverTrigger(**trigger.serialize()[1]))
    resume(event)
    assert len(starts(folder)) == 1
