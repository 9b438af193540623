"""The embedded stack in the background: `python -m local.stack up|down|status`."""

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from local import airflow_api, members, stopping
from local.environment import HOST, Settings, WrongSetting, environment
from local.java import JavaMissing
from local.progress import CommandFailed, run_alive, say
from local.readiness import NotReady, PortInUse, broker_ready, clickhouse_ready, require_free, wait_until
from local.versions import FETCHED, ROOT

START_SECONDS = 240
ALIVE_SECONDS = 10
FREE_BYTES = 2 << 30


class CannotStart(Exception):
    """The stack cannot run, for a reason the message gives."""


def log_file(settings: Settings) -> Path:
    return settings.home / "logs" / "stack.log"


@contextmanager
def one_at_a_time(home: Path) -> Iterator[None]:
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = (home / "stack.lock").open("w")
    except OSError as error:
        raise CannotStart(f"SLUICE_HOME cannot be used: {error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotStart(f"another make up or make down is at work on {home}") from None
        yield


def require_disk(home: Path) -> None:
    free = shutil.disk_usage(home).free
    if free < FREE_BYTES:
        raise CannotStart(f"only {free >> 20} MiB free for {home}: the stack needs {FREE_BYTES >> 20}")


def require_fetched() -> None:
    if not FETCHED.exists():
        raise CannotStart("nothing is fetched yet: run make setup")


def migrate_airflow(settings: Settings, env: dict[str, str]) -> None:
    """Airflow's database, once per version."""
    stamp = settings.home / "airflow" / "migrated-to"
    installed = version("apache-airflow")
    if stamp.exists() and stamp.read_text() == installed:
        return
    say("making Airflow's database")
    run_alive(["airflow", "db", "migrate"], "airflow db migrate", ROOT, env)
    stamp.write_text(installed)


def launch(settings: Settings, env: dict[str, str]) -> subprocess.Popen:
    log = log_file(settings)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "local.runner"],
            cwd=ROOT,
            env=env | {members.MARK: str(settings.home)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def what_stopped(log: Path) -> str:
    """`kafka stopped (rc=1): its last line`, from honcho's log."""
    lines = log.read_text(errors="replace").splitlines()
    stopped = next((line for line in lines if " stopped (rc=" in line), None)
    if stopped is None:
        return lines[-1] if lines else "it left no log"
    what = stopped.partition("| ")[2]
    said = [
        text for name, _, text in (line.partition("| ") for line in lines) if f" {what.split()[0]} " in name
    ]
    plain = [text for text in said if text and not text[0].isspace()]  # not the frames of a stack trace
    return ": ".join([what, *plain[-1:]])


def wait_for(settings: Settings, runner_ended: Callable[[], bool]) -> None:
    parts: dict[str, Callable[[], bool]] = {
        "ClickHouse": lambda: clickhouse_ready(settings.clickhouse_port),
        "Kafka": lambda: broker_ready(settings.kafka_port),
        "Airflow": lambda: airflow_api.healthy(settings.airflow_url),
    }
    started = last = time.monotonic()

    def check() -> None:
        nonlocal last
        if runner_ended():
            log = log_file(settings)
            raise CannotStart(f"the stack died while starting: {what_stopped(log)} (log: {log})")
        if time.monotonic() - last > ALIVE_SECONDS:
            last = time.monotonic()
            say(f"  … waiting for {name}, {last - started:.0f} s")

    for name, ready in parts.items():
        wait_until(ready, name, START_SECONDS, check=check)
        say(f"{name} is up ({time.monotonic() - started:.0f} s)")


def start(settings: Settings) -> None:
    require_fetched()
    require_disk(settings.home)
    require_free(settings.ports)
    env = environment(settings)
    migrate_airflow(settings, env)
    runner = launch(settings, env)
    try:
        wait_for(settings, lambda: runner.poll() is not None)
    except BaseException:
        stopping.stop(settings.home)
        raise


def reuse(settings: Settings, runner: int) -> None:
    ports = members.Note.read(settings.home).ports
    if ports != tuple(settings.ports.values()):
        raise CannotStart(
            f"the stack runs already, on the ports {', '.join(map(str, ports))}: make down first"
        )
    say("the stack runs already")
    wait_for(settings, lambda: not Path(f"/proc/{runner}").exists())


def up(settings: Settings) -> None:
    with one_at_a_time(settings.home):
        if runner := members.runner(settings.home):
            reuse(settings, runner)
        else:
            if members.members(settings.home):
                say("stopping what a killed stack left")
                stopping.stop(settings.home)
            start(settings)
    status(settings)


def down(settings: Settings) -> None:
    if not settings.home.exists():
        say("nothing runs")
        return
    with one_at_a_time(settings.home):
        say("stopped" if stopping.stop(settings.home) else "nothing runs")


def status(settings: Settings) -> bool:
    running = members.runner(settings.home) is not None
    say(f"Kafka       {HOST}:{settings.kafka_port}  {'up' if broker_ready(settings.kafka_port) else 'down'}")
    answers = clickhouse_ready(settings.clickhouse_port)
    say(f"ClickHouse  {settings.clickhouse_url}  {'up' if answers else 'down'}  (user default, no password)")
    healthy = airflow_api.healthy(settings.airflow_url)
    say(f"Airflow     {settings.airflow_url}  {'up' if healthy else 'down'}  ({airflow_api.login(settings)})")
    say(f"data        {settings.home}")
    return running


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["up", "down", "status"])
    command = parser.parse_args().command
    try:
        settings = Settings.read(os.environ)
        if command == "status":
            return 0 if status(settings) else 1
        (up if command == "up" else down)(settings)
    except (CannotStart, WrongSetting, JavaMissing, NotReady, PortInUse, CommandFailed, OSError) as error:
        print(f"sluice: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
