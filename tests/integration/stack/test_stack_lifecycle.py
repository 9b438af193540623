"""`make up` and `make down` as their users meet them: twice, after a kill, and with something in the way."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import clickhouse_connect
import pytest

from local import airflow_api, members
from local.demo import create_tables
from local.environment import Settings, environment
from local.readiness import broker_ready, clickhouse_ready, free_port, listens, wait_until
from local.sample_events import on_time
from local.versions import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.faults]


@pytest.fixture
def settings(tmp_path: Path):
    """A stack of its own, stopped whatever the test did."""
    tmp_path.chmod(0o755)  # as somebody may have made it
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


@pytest.mark.long
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


def begun(settings: Settings, command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "local.stack", command],
        cwd=ROOT,
        env=environment(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.long
def test_up_while_the_stack_stops_and_down_while_it_starts(settings: Settings):
    first = begun(settings, "up")
    wait_until(lambda: members.runner(settings.home) is not None, "the runner", 60)
    assert stack(settings, "down").stdout.endswith("sluice: stopped\n")
    out, said = first.communicate(timeout=60)
    assert (first.returncode, said) == (3, "sluice: make down has stopped it\n"), out
    assert members.members(settings.home) == []

    assert stack(settings, "up").returncode == 0
    runner = members.runner(settings.home)
    os.kill(runner, signal.SIGTERM)
    again = stack(settings, "up")
    assert (again.returncode, again.stderr) == (0, "")
    assert members.runner(settings.home) not in (None, runner)
    with begun(settings, "down") as down:
        log = settings.home / "logs" / "stack.log"
        wait_until(lambda: "sending SIGTERM" in log.read_text(), "the stack to stop", 60)
        after = stack(settings, "up")
    assert (down.returncode, after.returncode, after.stderr) == (0, 0, "")
    with urllib.request.urlopen(f"{settings.airflow_url}/api/v2/version") as answer:
        assert answer.status == 200


def healthy(settings: Settings) -> bool:
    return (
        broker_ready(settings.kafka_port)
        and clickhouse_ready(settings.clickhouse_port)
        and airflow_api.healthy(settings.airflow_url)
    )


def sessions(settings: Settings) -> dict[str, int]:
    return json.loads((settings.home / "stack.json").read_text())["sessions"]


@pytest.mark.long
def test_each_service_that_is_killed_comes_back_and_events_go_through(settings: Settings, tmp_path: Path):
    """An hour of events through Airflow's own backfill, after each has been killed once."""
    assert stack(settings, "up").returncode == 0
    runner = members.runner(settings.home)
    for name, pid in sessions(settings).items():
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: sessions(settings)[name] != pid, f"{name} again", 60)  # noqa: B023 - at once
        wait_until(lambda: healthy(settings), f"the stack with {name}", 120)
    assert members.runner(settings.home) == runner
    told = stack(settings, "status").stdout
    assert sum("was started again once, last at" in line for line in told.splitlines()) == 6

    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    (tmp_path / "events.ndjson").write_text("".join(f"{line}\n" for line in on_time(hour, 500)))
    edges = ["--from", f"{hour:%Y-%m-%dT%H:%MZ}", "--to", f"{hour + timedelta(hours=1):%Y-%m-%dT%H:%MZ}"]
    with clickhouse_connect.get_client(**settings.clickhouse_login) as client:
        create_tables(client)
    for words in (["publish", "adx", str(tmp_path / "events.ndjson")], ["backfill", "adx", *edges, "--wait"]):
        ran = subprocess.run(
            [Path(sys.executable).with_name("sluice"), *words],
            env=environment(settings),
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    with clickhouse_connect.get_client(**settings.clickhouse_login) as client:
        tables = ("bids", "impressions", "clicks", "other")
        rows = sum(client.command(f"SELECT count() FROM adx.{table}") for table in tables)
    assert rows == 500


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
