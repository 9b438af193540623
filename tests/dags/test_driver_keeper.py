"""The keeper of a driver, in this process, with programs in the place of spark-submit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from local.readiness import wait_until
from sluice.airflow.driver_keeper import Keeper
from sluice.airflow.output_tail import MOST_CHARACTERS, OutputTail
from sluice.airflow.spark_processes import marked
from sluice.clients.lake.folder import FolderLake
from sluice.clients.lake.layout import driver
from sluice.errors import LakeUnavailable
from sluice.state.driver_record import DriverEnd, DriverRecord, EndCause
from sluice.state.driver_store import change_driver, read_driver, stop_driver

KEY = driver("ab12")
# Processes are found by its name, and other test processes run on this machine.
DRIVER = uuid.uuid4().hex
NEW = DriverRecord(DRIVER, "work", "here", "2026-11-20T10:00:00+00:00")
PYTHON = [sys.executable, "-c"]
# Prints that it has begun, and starts a process that outlives it.
STAYS = [*PYTHON, "import signal, sys; print('begun', flush=True); signal.pause()"]
STARTS = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])"


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    lake = FolderLake(tmp_path / "lake")
    change_driver(lake, KEY, lambda _: NEW)
    return lake


def ended(lake: FolderLake) -> DriverEnd:
    found = read_driver(lake, KEY)
    assert found is not None and found.end is not None
    return found.end


def test_the_end_of_a_driver_is_noted_with_its_output(lake: FolderLake):
    words = [*PYTHON, "import sys; print('one'); print('two', file=sys.stderr); sys.exit(75)"]
    assert Keeper(lake, KEY, DRIVER, None).run(words) is EndCause.OWN
    found = ended(lake)
    assert (found.code, found.cause, sorted(found.output.splitlines())) == (75, EndCause.OWN, ["one", "two"])


def test_a_killed_driver_has_its_signal(lake: FolderLake):
    Keeper(lake, KEY, DRIVER, None).run([*PYTHON, "import os; os.kill(os.getpid(), 9)"])
    assert ended(lake).code == -signal.SIGKILL


def test_a_program_that_is_not_there_is_an_end_too(lake: FolderLake):
    Keeper(lake, KEY, DRIVER, None).run(["/nowhere/spark-submit", "land.py"])
    found = ended(lake)
    assert (found.code, found.cause) == (127, EndCause.OWN)
    assert found.output.startswith("/nowhere/spark-submit cannot be started: ")


def test_nothing_that_a_driver_started_outlives_it(lake: FolderLake):
    Keeper(lake, KEY, DRIVER, None).run([*PYTHON, STARTS])
    assert ended(lake).code == 0
    assert marked(DRIVER) == []


def test_a_driver_has_its_time_and_no_more(lake: FolderLake):
    assert Keeper(lake, KEY, DRIVER, 0.5, beat_seconds=0.1).run(STAYS) is EndCause.TIME
    assert ended(lake).cause is EndCause.TIME
    assert marked(DRIVER) == []


def kept(pool: ThreadPoolExecutor, lake: FolderLake) -> Future[EndCause]:
    """A driver that stays, whose record is renewed."""
    found = pool.submit(Keeper(lake, KEY, DRIVER, None, beat_seconds=0.05).run, STAYS)
    wait_until(lambda: (read_driver(lake, KEY) or NEW).said == "begun", "the driver has begun", 60)
    return found


def stopped(lake: FolderLake) -> None:
    assert stop_driver(lake, KEY, DRIVER)


def replaced(lake: FolderLake) -> None:
    change_driver(lake, KEY, lambda _: DriverRecord("d2", "work", "there", NEW.started))


def removed(lake: FolderLake) -> None:
    lake.delete([KEY])


@pytest.mark.parametrize("act", [stopped, replaced, removed])
def test_a_driver_that_is_not_wanted_ends(lake: FolderLake, act: Callable[[FolderLake], None]):
    with ThreadPoolExecutor(1) as pool:
        running = kept(pool, lake)
        before = read_driver(lake, KEY)
        assert before is not None and (before.pid, before.beat > 0) == (os.getpid(), True)
        act(lake)
        assert running.result(60) is EndCause.STOP
    assert marked(DRIVER) == []
    after = read_driver(lake, KEY)
    if act is stopped:
        assert ended(lake).cause is EndCause.STOP
    elif act is replaced:
        assert after == DriverRecord("d2", "work", "there", NEW.started)
    else:
        assert after is None


def test_a_driver_that_is_not_wanted_any_more_does_not_begin(lake: FolderLake, tmp_path: Path):
    stopped(lake)
    words = [*PYTHON, f"open({str(tmp_path / 'begun')!r}, 'w')"]
    assert Keeper(lake, KEY, DRIVER, None).run(words) is EndCause.STOP
    assert not (tmp_path / "begun").exists()


class Silent(FolderLake):
    """A lake that does not answer the given number of requests after the first renewal."""

    asked, silent = 0, range(2, 6)

    def read(self, key: str):
        Silent.asked += 1
        if Silent.asked in Silent.silent:
            raise LakeUnavailable(self.url, "it is silent")
        return super().read(key)


def test_a_lake_that_does_not_answer_ends_no_driver_and_gets_its_end(lake: FolderLake, capsys):
    words = [*PYTHON, "import sys; print('done'); sys.exit(3)"]
    Keeper(Silent(lake.root), KEY, DRIVER, None, beat_seconds=0.05).run(words)
    assert ended(lake) == DriverEnd(3, EndCause.OWN, "done")
    assert "does not answer (it is silent)" in capsys.readouterr().err


def test_a_killed_keeper_takes_its_driver_along(lake: FolderLake):
    """The kernel kills it: nothing that a keeper does could."""
    words = [sys.executable, "-m", "sluice.airflow.driver_keeper", "--lake", f"file://{lake.root.parent}"]
    words += ["--pipeline", "lake", "--key", KEY, "--driver", DRIVER, "--", *STAYS]
    keeper = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        wait_until(lambda: len(marked(DRIVER)) == 1, "the driver has begun", 60)
    finally:
        keeper.kill()
    keeper.wait(30)
    wait_until(lambda: marked(DRIVER) == [], "the driver has ended", 30)
    assert (read_driver(lake, KEY) or NEW).end is None


def test_the_last_lines_are_kept_and_the_others_counted(tmp_path: Path):
    path, each = tmp_path / "output", "x" * 98
    path.write_text("".join(f"{number:06} {each}\n" for number in range(2_000)))
    with path.open() as stream:
        text = OutputTail(stream).text().splitlines()
    left = MOST_CHARACTERS // 106
    assert text[0] == f"[{2_000 - left:,} earlier lines are left out]"
    assert text[1:] == [f"{number:06} {each}" for number in range(2_000 - left, 2_000)]


def test_a_line_without_end_is_kept_in_parts_and_the_result_is_no_progress(tmp_path: Path):
    path = tmp_path / "output"
    path.write_text(
        "read 10 %\n" + "y" * (3 * MOST_CHARACTERS) + "\nlanded\x1b[1m 3 units\n" + '{"units": 3}\n'
    )
    with path.open() as stream:
        tail = OutputTail(stream)
        assert len(tail.text()) < MOST_CHARACTERS + 100
    assert tail.text().endswith('\n{"units": 3}')
    assert tail.said.startswith("landed") and "\x1b" not in tail.said
