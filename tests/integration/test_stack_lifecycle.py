"""`make up` and `make down` as their users meet them: twice, after a kill, and with something in the way."""

import os
import signal
import socket
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from local import members
from local.environment import Settings, environment
from local.readiness import free_port, listens, wait_until
from local.versions import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.faults]


@pytest.fixture
def settings(tmp_path: Path):
    """A stack of its own, stopped whatever the test did."""
    tmp_path.chmod(0o755)  # as a stack of an older version has left it
    settings = Settings(tmp_path, free_port(neighbours=1), free_port(), free_port())
    yield settings
    stack(settings, "down")


def stack(settings: Settings, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "local.stack", command],
        cwd=ROOT,
        env=environment(settings),
        capture_output=True,
        text=True,
        timeout=400,
    )


def open_to_others(home: Path) -> list[str]:
    """Whatever is not its owner's alone."""
    every = [home, *home.rglob("*")]
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in every if not path.is_symlink()}
    return [f"{path} {mode:o}" for path, mode in modes.items() if mode & 0o77]


def shown(settings: Settings) -> list[str]:
    """Logs and command lines with ClickHouse's password in them."""
    lines = [Path("/proc", str(pid), "cmdline") for pid in members.members(settings.home)]
    texts = {path: path.read_bytes() for path in [*lines, *settings.home.rglob("*.log")]}
    assert len(texts) > 8
    return [str(path) for path, text in texts.items() if settings.clickhouse_password.encode() in text]


def test_up_twice_then_a_killed_runner_then_down(settings: Settings):
    first = stack(settings, "up")
    assert first.returncode == 0, first.stderr
    runner = members.runner(settings.home)

    assert open_to_others(settings.home) == []
    assert shown(settings) == []

    assert "runs already" in stack(settings, "up").stdout
    assert members.runner(settings.home) == runner
    with urllib.request.urlopen(f"{settings.airflow_url}/api/v2/version") as answer:
        assert answer.status == 200

    os.kill(runner, signal.SIGKILL)
    wait_until(lambda: members.runner(settings.home) is None, "the end of the runner", 10)
    assert members.members(settings.home), "its parts outlive it"
    assert stack(settings, "down").returncode == 0
    assert members.members(settings.home) == []
    assert not any(listens(port) for port in settings.ports.values())


def test_down_is_fine_when_nothing_runs(settings: Settings):
    done = stack(settings, "down")
    assert (done.returncode, done.stdout) == (0, "sluice: nothing runs\n")


def test_a_port_in_use_is_one_line(settings: Settings):
    with socket.socket() as other:
        other.bind(("127.0.0.1", settings.clickhouse_port))
        other.listen()
        done = stack(settings, "up")
    assert done.returncode == 3
    port = settings.clickhouse_port
    expected = f"sluice: port {port} is in use: free it, or set another with SLUICE_CLICKHOUSE_PORT\n"
    assert done.stderr == expected


@pytest.mark.long
def test_a_part_that_dies_while_starting_is_named(settings: Settings):
    log = settings.home / "kafka" / "log"
    log.mkdir(parents=True)
    (log / "meta.properties").write_text("version=99\n")
    done = stack(settings, "up")
    assert done.returncode == 3
    assert done.stderr.startswith("sluice: the stack died while starting: kafka stopped (rc=1)")
    assert "Traceback" not in done.stderr
    assert members.members(settings.home) == []
