"""The runner of a stack with parts of a line each: what ends is started again, and what is left is ended."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from local import lifecycle, stopping
from local.readiness import wait_until
from local.silence import Silence
from local.stack_log import started_again, what_stopped
from local.versions import ROOT

SECONDS = 30
LOG = """\
12:00:01 system | kafka started (pid=7)
12:00:01 system | api_server started (pid=8)
12:00:02 kafka  | first words
12:00:03 api_server | its own
12:00:03 kafka  | why it cannot go on
12:00:03 kafka  |   at some.java.Frame
12:00:03 system | kafka stopped (rc=1)
12:00:04 system | kafka is started again
12:00:04 kafka  | it says: kafka stopped (rc=5)
12:00:05 system | kafka stopped (rc=2)
12:00:06 system | kafka is started again
12:00:06 system | api_server stopped (rc=-9)
12:00:07 system | api_server is started again
""".splitlines()
GIVEN_UP = """\
12:00:09 kafka  | no more
12:00:09 system | kafka stopped (rc=3)
12:00:09 system | kafka has ended 3 times in a row: all stop
12:00:09 system | sending SIGTERM to api_server (pid 8)
12:00:10 system | api_server stopped (rc=-15)
""".splitlines()


def test_the_log_names_what_was_started_again():
    assert started_again(LOG) == [
        "kafka was started again 2 times, last at 12:00:05: kafka stopped (rc=2): it says: kafka stopped "
        "(rc=5)",
        "api_server was started again once, last at 12:00:06: api_server stopped (rc=-9): its own",
    ]
    assert started_again([]) == []


def test_the_log_names_the_part_whose_end_was_that_of_all():
    assert what_stopped([*LOG, *GIVEN_UP]) == "kafka stopped (rc=3): no more"
    assert what_stopped(LOG) == "kafka stopped (rc=1): why it cannot go on"
    assert what_stopped(["out of memory"]) == "out of memory"
    assert what_stopped([]) == "it left no log"
    long = [LOG[0], f"12:00:02 kafka | {'x' * 5000}", "12:00:03 system | kafka stopped (rc=1)"]
    assert what_stopped(long) == f"kafka stopped (rc=1): {'x' * 200}"


class Runner:
    """A runner of these parts, and its note and log."""

    def __init__(self, home: Path, patience: int, **parts: str) -> None:
        self.home, self.log = home, home / "logs" / "stack.log"
        self.log.parent.mkdir()
        (home / "Procfile").write_text("".join(f"{name}: {command}\n" for name, command in parts.items()))
        options = ["--procfile", str(home / "Procfile"), "--ports", "1", "--patience", str(patience)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "local.runner", *options],
                cwd=ROOT,
                env={**os.environ, "SLUICE_HOME": str(home)},
                stdout=log,
                stderr=log,
            )

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    def sessions(self) -> dict[str, int]:
        note = self.home / "stack.json"
        return json.loads(note.read_text())["sessions"] if note.exists() else {}

    def started(self, count: int, *, parts: int) -> dict[str, int]:
        """The sessions, once parts were started `count` times in all."""
        wait_until(lambda: sum(" started (pid=" in line for line in self.lines()) >= count, "parts", SECONDS)
        wait_until(lambda: len(self.sessions()) == parts, "the note", SECONDS)
        return self.sessions()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Runner]]:
    """Makes a runner, which is stopped whatever the test did."""
    made: list[Runner] = []

    def make(patience: int = 3, **parts: str) -> Runner:
        made.append(Runner(tmp_path, patience, **parts))
        return made[0]

    yield make
    made[0].process.terminate()
    made[0].process.wait(SECONDS)
    assert not any(in_session(pid) for pid in made[0].sessions().values())


def in_session(session: int) -> list[str]:
    """The command lines of the processes there that have not ended."""
    found = subprocess.run(["ps", "-o", "stat=,args=", "-s", str(session)], capture_output=True, text=True)
    return [line.split(maxsplit=1)[1] for line in found.stdout.splitlines() if not line.startswith("Z")]


def test_what_a_killed_part_had_begun_ends_with_it(run):
    """Its child holds its output, as a scheduler's workers do."""
    runner = run(one="sleep 601 & exec sleep 600", two="exec sleep 600")
    before = runner.started(2, parts=2)
    wait_until(lambda: sorted(in_session(before["one"])) == ["sleep 600", "sleep 601"], "its child", SECONDS)
    os.kill(before["one"], signal.SIGKILL)
    after = runner.started(3, parts=2)
    assert in_session(before["one"]) == []
    wait_until(lambda: sorted(in_session(after["one"])) == ["sleep 600", "sleep 601"], "both again", SECONDS)
    assert after["one"] != before["one"] and after["two"] == before["two"]
    assert [line.split(", last at")[0] for line in started_again(runner.lines())] == [
        "one was started again once"
    ]


def test_who_is_silent_for_too_long_is_ended_once():
    ended: list[str] = []
    silence = Silence({"kafka": lambda: False}, 60, ended.append)
    now = time.monotonic()
    for seconds, answers, count in [
        (599, False, 0),  # it starts
        (600, True, 0),
        (659, False, 0),
        (661, False, 1),
        (662, False, 1),  # it starts again
        (1_260, False, 1),
        (1_262, False, 2),
    ]:
        silence.look("kafka", answers, now + seconds)
        assert len(ended) == count, seconds


def test_parts_that_end_together_are_all_started_again(run):
    runner = run(one="exec sleep 600", two="exec sleep 600")
    before = runner.started(2, parts=2)
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)
    after = runner.started(4, parts=2)
    assert not set(before.values()) & set(after.values())


def test_a_part_that_cannot_run_ends_all_and_is_named(run):
    runner = run(one="echo my reason; exit 7", two="exec sleep 600")
    assert runner.process.wait(SECONDS) == 7
    assert sum("one stopped (rc=7)" in line for line in runner.lines()) == 3
    assert what_stopped(runner.lines()) == "one stopped (rc=7): my reason"


def said_of(home: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What `make status` says of a stack in `home`, beside its parts."""
    stack = lifecycle.Stack(home, {}, home, dict, lambda: None, (), lambda: None)
    capsys.readouterr()
    assert lifecycle.status(stack) is False
    return capsys.readouterr().out.splitlines()


def test_status_says_which_part_ended_all_how_often_when_and_what_to_do(run, tmp_path, capsys):
    """A part is killed three times. After make down there is nothing to explain."""
    runner = run(one="echo up; exec sleep 600", two="exec sleep 600")
    for starts in (2, 3, 4):
        os.kill(runner.started(starts, parts=2)["one"], signal.SIGKILL)
    runner.process.wait(SECONDS)
    log = runner.log.read_text()
    times = re.findall(r"(?m)^([\d:]+) system +\| one stopped \(rc=-9\)$", log)
    assert len(times) == 3
    again, why, where, what = said_of(tmp_path, capsys)
    assert again.startswith("sluice: one was started again 2 times, last at ")
    day = f"{datetime.fromtimestamp(runner.log.stat().st_mtime):%Y-%m-%d}"
    assert why == (
        f"sluice: the stack stopped on {day}: one ended 3 times in a row (at {times[0]}, {times[1]} and "
        f"{times[2]}), the last time so: one stopped (rc=-9): up"
    )
    command = re.fullmatch("sluice: what one wrote: (.+) \\(make up begins a new log\\)", where)[1]
    found = subprocess.run(shlex.split(command), capture_output=True, text=True).stdout
    assert sum(line.endswith("| up") for line in found.splitlines()) == 3 and " two " not in found
    assert what == "sluice: remove the cause, then make up starts it again; its data are there"

    stopping.stop(tmp_path)
    assert said_of(tmp_path, capsys)[1:] == ["sluice: the stack does not run: make up starts it"]


def test_status_says_that_a_runner_was_killed(run, tmp_path, capsys):
    runner = run(one="exec sleep 600")
    left = runner.started(1, parts=1)
    runner.process.kill()
    runner.process.wait(SECONDS)
    try:
        said = said_of(tmp_path, capsys)
        assert said[0].startswith("sluice: the stack's runner ended by a signal or with the machine")
        assert said[0].endswith(f"(log: {runner.log})")
        assert said[-1] == "sluice: make up starts it again, and ends what is left"
    finally:
        os.kill(left["one"], signal.SIGKILL)
        wait_until(lambda: not in_session(left["one"]), "its end", SECONDS)


def test_the_end_of_all_reaches_a_part_that_is_being_started_again(run, tmp_path):
    """It is asked for as soon as the log says that the part is to be started."""
    runner = run(9, one="exec sleep 600", two="exec sleep 600")
    before = runner.started(2, parts=2)
    os.kill(before["one"], signal.SIGKILL)
    wait_until(lambda: any("one is started again" in line for line in runner.lines()), "its start", SECONDS)
    runner.process.terminate()
    assert runner.process.wait(SECONDS) == 143
