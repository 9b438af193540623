"""What a timeout does to a step that hangs: by Airflow's own runner, on processes and threads that do."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.sdk.bases.operator import BaseOperator
from airflow.sdk.exceptions import AirflowTaskTimeout
from airflow.sdk.execution_time.task_runner import _run_execute_callable

from local.readiness import wait_until
from sluice.airflow import dags as cluster_task
from sluice.airflow import land_operator, metrics, tasks
from sluice.airflow import land_operator as spark_processes
from sluice.airflow import retries as timeouts
from sluice.airflow.dags import CatchUp
from sluice.airflow.land_operator import LandOperator
from sluice.airflow.retries import final_errors_fail
from sluice.clients.lake.open import open_lake
from sluice.concurrency import each
from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from sluice.flow import steps
from sluice.plan.step_limits import rows_in, time_for
from sluice.slices import HOUR, SliceRange
from sluice.state.boundaries.boundary import PartitionColumn, TopicBoundaries
from sluice.state.boundaries.model import Boundaries, LogEntry
from sluice.state.notes import Timing, record
from tests.dags.pipeline_texts import TWO_TABLES

# Starts two more, as Spark does: one in a process group of its own, one in a session; all stand still.
HANGING = f"""#!{sys.executable}
import os, pathlib, signal, sys
started = [os.getpid()]
for leave in (lambda: os.setpgid(0, 0), os.setsid):
    child = os.fork()
    if not child:
        leave()
        signal.pause()
    started.append(child)
half = pathlib.Path(os.environ["SEEN"] + ".half")
half.write_text(" ".join(map(str, started)))
half.rename(os.environ["SEEN"])
os.kill(started[1], signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGSTOP)
"""
BATCH = {"from": "2026-11-20T10:00:00Z", "to": "2026-11-20T12:00:00Z"}
CONTEXT = {"params": {}, "run_id": "run 7", "ti": SimpleNamespace(try_number=1)}


@pytest.fixture(autouse=True)
def alarm_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    signal.signal(signal.SIGALRM, before)


def run(task: BaseOperator, context: Any = None) -> Any:
    """As a task's process runs it: with the task's timeout."""
    return _run_execute_callable(context=context or {}, execute=task.execute, task=task)


class Hanging(BaseOperator):
    """Two threads, one within the other, that nothing ends before `over`."""

    def __init__(self, *, over: threading.Event, **kwargs: Any) -> None:
        super().__init__(task_id="hanging", **kwargs)
        self.over = over

    @final_errors_fail
    def execute(self, context: Any) -> None:
        with metrics.measuring("ads", "verify"):
            each(lambda _: each(lambda _: self.over.wait(60), [1]), [1])


def test_a_step_whose_threads_hang_ends_with_its_timeout_and_is_tried_again(monkeypatch):
    monkeypatch.setattr(timeouts, "AGAIN_SECONDS", 0.2)
    samples: list[Any] = []
    monkeypatch.setattr(metrics, "to_airflow", samples.append)
    over, began = threading.Event(), time.monotonic()
    try:
        with pytest.raises(AirflowTaskTimeout):
            run(Hanging(over=over, execution_timeout=timedelta(seconds=0.3)))
        assert time.monotonic() - began < 30, "it waited for its threads"
    finally:
        over.set()
    told = {one.metric.name: dict(one.labels) for one in samples}
    assert told["step_errors"] == {
        "pipeline": "ads",
        "step": "verify",
        "error": "AirflowTaskTimeout",
        "retry": "yes",
    }
    assert told["step_runs"] == {"pipeline": "ads", "step": "verify", "outcome": "retry"}


def alive(pids: list[int]) -> list[int]:
    """Those that are there and no zombies."""
    return [pid for pid in pids if (stat := state(pid)) and stat != "Z"]


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where spark-submit writes down which processes it has started."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/ads.yaml").write_text(TWO_TABLES.replace("s3://events", f"file://{tmp_path}/lake"))
    program, seen = tmp_path / "bin/spark-submit", tmp_path / "seen"
    program.parent.mkdir()
    program.write_text(HANGING)
    program.chmod(0o755)
    monkeypatch.setenv("SLUICE_PIPELINES", str(tmp_path / "pipelines"))
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SEEN", str(seen))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    for conn_id in ("KAFKA_DC2", "LAKE_STORE"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id}", json.dumps({"conn_type": "generic"}))
    job = SimpleNamespace(application="a.py", application_args=[], conf={}, jars=[], py_files=[], env_vars={})
    monkeypatch.setattr(steps, "spark_submit_arguments", lambda *_, **__: job)
    monkeypatch.setattr(steps, "counted_landing", lambda *_, **__: nullcontext())
    yield seen
    for pid in map(int, seen.read_text().split()):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def land_task(**more: Any) -> LandOperator:
    return LandOperator(task_id="land", pipeline="ads", connection="spark_default", batch=BATCH, **more)


def test_a_landing_that_hangs_leaves_no_process(hanging: Path):
    """Nobody of the three is ended by what Airflow's hook does: a group and a session are their own, and all
    but one stand still."""
    land = land_task(execution_timeout=timedelta(minutes=5))

    def over() -> None:
        wait_until(hanging.exists, "spark-submit has started", 60)
        wait_until(lambda: state(int(hanging.read_text().split()[0])) == "T", "it stands still", 60)
        signal.setitimer(signal.ITIMER_REAL, 0.01)

    timer = threading.Thread(target=over)
    timer.start()
    with pytest.raises(AirflowTaskTimeout):
        run(land, CONTEXT)
    timer.join()
    started = [int(pid) for pid in hanging.read_text().split()]
    assert len(started) == 3
    assert alive(started) == []


def test_a_task_that_is_ended_ends_all_that_it_has_started(hanging: Path):
    land = land_task()
    errors: list[BaseException] = []

    def execute() -> None:
        try:
            land.execute(CONTEXT)
        except BaseException as error:
            errors.append(error)

    running = threading.Thread(target=execute)
    running.start()
    wait_until(hanging.exists, "spark-submit has started", 60)
    land.on_kill()
    running.join(60)
    assert len(errors) == 1
    assert alive([int(pid) for pid in hanging.read_text().split()]) == []


@pytest.mark.parametrize("handles", [True, False])
def test_only_processes_of_that_landing_are_ended(handles: bool, monkeypatch: pytest.MonkeyPatch):
    def none(pid: int) -> int:
        raise OSError(errno.ENOSYS, "no such call")

    if not handles:
        monkeypatch.setattr(os, "pidfd_open", none)
    words = [sys.executable, "-c", "import signal; print(flush=True); signal.pause()"]
    found = []
    one = uuid.uuid4().hex  # other test processes run on this machine
    for mark in (one, f"{one}s", one[:-1], ""):
        environment = {**os.environ, spark_processes.MARK: mark} if mark else dict(os.environ)
        found.append(subprocess.Popen(words, env=environment, stdout=subprocess.PIPE))
        found[-1].stdout.readline()
    try:
        assert spark_processes.marked(one) == [found[0].pid]
        assert spark_processes.end_all(one) == []
        assert found[0].wait(30) == -signal.SIGKILL
        assert [process.poll() for process in found[1:]] == [None] * 3
    finally:
        for process in found[1:]:
            process.kill()
            process.wait()


def test_a_process_with_many_open_files_ends_them_too():
    environment = {**os.environ, spark_processes.MARK: "many"}
    words = [sys.executable, "-c", "import signal; signal.pause()"]
    with ExitStack() as files, subprocess.Popen(words, env=environment) as process:
        for _ in range(1_100):
            files.enter_context(open(os.devnull))
        assert spark_processes.end_all("many") == []
        assert process.wait(30) == -signal.SIGKILL


HOURS = SliceRange(pendulum.datetime(2026, 11, 20, 10), pendulum.datetime(2026, 11, 20, 13))


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    text = TWO_TABLES.replace("s3://events", f"file://{tmp_path}/lake").replace("lake_connection", "# ")
    (tmp_path / "ads.yaml").write_text(text)
    return read(tmp_path / "ads.yaml")


def test_a_limit_is_of_the_boundaries_and_the_times_of_earlier_runs(pipeline: Pipeline):
    assert time_for(pipeline, "land", HOURS, 1) == timedelta(hours=1, seconds=6 * 0.1)
    now = pendulum.now("UTC").isoformat()
    for units, seconds in ((1, 50.0), (6, 300.0)):
        record(open_lake(pipeline), Timing("land", now, now, now, seconds=seconds, units=units, rows=0))
    found = time_for(pipeline, "land", HOURS, 1)
    assert round(found.total_seconds(), 3) == 3600 + 10 * 300
    assert time_for(pipeline, "land", HOURS, 2) == 2 * found


def topic(cluster: str, offsets: list[int]) -> TopicBoundaries:
    """`bids`, with one partition."""
    instants = array("q", [HOURS.start.int_timestamp + 3600 * number for number in range(len(offsets))])
    zeros = array("q", [0] * len(offsets))
    column = PartitionColumn(0, array("q", offsets), zeros, zeros, array("b", zeros))
    return TopicBoundaries(cluster, "bids", "id", instants, {0: column})


def test_rows_are_the_offsets_of_the_range(pipeline: Pipeline):
    """dc1 has two topics and dc2 one; a topic that is not resolved has none."""
    blocks = topic("dc1", [5, 105, 305, 605]), topic("dc2", [0, 1, 1, 8])
    known = Boundaries().with_entry(LogEntry(HOUR, blocks))
    assert rows_in(pipeline, HOURS, known) == 600 + 8
    first = SliceRange(HOURS.start, HOURS.start.add(hours=1))
    assert rows_in(pipeline, first, known) == 100 + 1
    beyond = SliceRange(HOURS.start.subtract(hours=2), HOURS.end.add(hours=3))
    assert rows_in(pipeline, beyond, known) == 600 + 8
    assert rows_in(pipeline, HOURS, Boundaries()) == 0


class Extending(BaseOperator):
    def __init__(self, *, pipeline: Pipeline, **kwargs: Any) -> None:
        super().__init__(task_id="verify", **kwargs)
        self.pipeline = pipeline

    @final_errors_fail
    def execute(self, context: Any) -> Any:
        given = timeouts.extend(self.pipeline, "verify", HOURS, context)
        return given, *signal.getitimer(signal.ITIMER_REAL)


def test_a_step_has_the_time_that_it_needs(pipeline: Pipeline):
    task = Extending(pipeline=pipeline, execution_timeout=timedelta(seconds=60))
    for tries, expected in ((1, 3600.6), (2, 7201.2)):
        given, left, again = run(task, {"ti": SimpleNamespace(try_number=tries)})
        assert given.total_seconds() == expected
        assert expected - 60 < left <= expected
        assert again == timeouts.AGAIN_SECONDS


def test_a_timeout_of_the_pipeline_file_stays_and_none_is_none(tmp_path: Path, pipeline: Pipeline):
    given, left, again = run(Extending(pipeline=pipeline))
    assert (given, left, again) == (None, 0, 0)
    (tmp_path / "_defaults.yaml").write_text("airflow: {steps: {verify: {timeout: 1m}}}")
    task = Extending(pipeline=read(tmp_path / "ads.yaml"), execution_timeout=timedelta(minutes=1))
    given, left, again = run(task, CONTEXT)
    assert given is None
    assert 0 < left <= 60
    assert again == timeouts.AGAIN_SECONDS


class Reached(Exception):
    """A step asked for its time, before it did anything else."""


FORMS = {
    "resolve": lambda: tasks.resolve.function("ads", BATCH),
    "resolve of an hour": lambda: tasks.resolve_hour.function("ads", BATCH),
    "load": lambda: tasks.load.function("ads", "ads.clicks", batch=BATCH),
    "verify": lambda: tasks.verify.function("ads", batch=BATCH),
    "publish": lambda: tasks.publish.function("ads", batch=BATCH),
    "verify_all": lambda: tasks.verify_all.function("ads", BATCH),
    "land": lambda: land_task().execute(CONTEXT),
    "cluster": lambda: CatchUp(
        task_id="cluster", cluster="dc1", pipeline="ads", connection="spark_default", batch=BATCH
    ).execute(CONTEXT),
}


@pytest.mark.parametrize("step", FORMS)
def test_every_step_whose_work_grows_asks_for_its_time_first(
    step: str, pipeline: Pipeline, tmp_path, monkeypatch
):
    def extend(given: Pipeline, name: str, slices: SliceRange, context: Any) -> None:
        raise Reached(given.name, name, str(slices), context["ti"].try_number)

    monkeypatch.setenv("SLUICE_PIPELINES", str(tmp_path))
    monkeypatch.setattr(tasks, "get_current_context", lambda: CONTEXT)
    for module in (tasks, land_operator, cluster_task):
        monkeypatch.setattr(module, "extend", extend)
    with pytest.raises(Reached) as reached:
        FORMS[step]()
    asked = "[2026-11-20T10:00Z, 2026-11-20T12:00Z)"
    assert reached.value.args == ("ads", step.partition(" ")[0], asked, 1)
