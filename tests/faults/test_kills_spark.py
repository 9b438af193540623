"""`sluice run` with real Kafka and Spark, killed in any of its processes: one more run sets it right."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator

import pytest

from sluice.crash_points import Land, Publish, TableLoad
from tests.faults import kills_trials
from tests.faults.kills_commands import Commands, publish
from tests.faults.kills_points import Order, name_of

pytestmark = pytest.mark.faults

IN_WORKERS = (Land.FILE_WRITTEN, Land.FILE_HANDED_OVER, Land.TASK_DONE)
IN_DRIVER = (Land.PLANNED, Land.READ, Land.MERGED, Land.COMMITTED, Land.FILE_MOVED, Land.MARKED, Land.SWEPT)
IN_RELAND = (Land.OLD_COPIED, Land.OLD_REMOVED)
WITH_JAVA = (Land.FILE_HANDED_OVER, Land.READ, Land.COMMITTED, Land.FILE_MOVED)
IN_COMMAND = (TableLoad.MOVED, TableLoad.COMMITTED, Publish.HOUR_MARKED)
LONG = [
    *(("Spark's Python worker", "fill", point, "self") for point in IN_WORKERS),
    *(("Spark's Python driver", "fill", point, "self") for point in IN_DRIVER),
    *(("Spark's Python driver", "reland", point, "self") for point in IN_RELAND),
    *(("Spark's JVM", "fill", point, "java") for point in WITH_JAVA),
    *(("sluice run", "fill", point, "self") for point in IN_COMMAND),
]
SHORT = [("Spark's JVM", "fill", Land.FILE_HANDED_OVER, "java")]
MOMENTS = 4


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "struck" in metafunc.fixturenames:
        cases = LONG if metafunc.config.getoption("--long") else SHORT
        names = [f"{victim}-{mode}-{name_of(point)}" for victim, mode, point, _ in cases]
        metafunc.parametrize("struck", cases, ids=names)


@pytest.fixture(scope="module")
def commands(tmp_path_factory, kafka_broker, stack_env) -> Iterator[Commands]:
    trials = kills_trials.start(
        tmp_path_factory.mktemp("spark_kills"), bootstrap=kafka_broker, topic="spark_kills"
    )
    publish(kafka_broker, trials.topic, trials.sent)
    yield Commands(trials, stack_env)
    kills_trials.stop(trials)


@pytest.mark.long
def test_killed_at_a_point(commands: Commands, fault_log, struck):
    """A run reads the halves of a part that failed by themselves: it survives a dead worker."""
    victim, mode, point, what = struck
    with fault_log.trial("kill", name_of(point), victim=victim):
        commands.obeys(
            mode, Order(name_of(point), victim=what), survives=point in IN_WORKERS and what == "self"
        )


@pytest.mark.long
def test_the_command_killed_at_random_moments(commands: Commands, fault_log, seed):
    """Spark, in a session of its own, outlives the command that started it, and meets the next one."""
    moments = random.Random(f"{seed} sluice run")
    began = time.monotonic()
    place = commands.trials.place("fill")
    commands.again(place, "fill")
    seconds = time.monotonic() - began
    for _ in range(MOMENTS):
        with fault_log.trial("kill", "random moment", victim="sluice run"):
            place = commands.trials.place("fill")
            process = commands.start(place, "fill")
            wait(process, moments.uniform(0, seconds))
            process.kill()
            process.wait()
            commands.again(place, "fill")


def wait(process: subprocess.Popen, seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return
